// Package kube is the only package that talks to the API server.
//
// It takes a kubeconfig, the kinds to watch, and bindings, conditions and events to
// write. It returns clients, the cluster's objects as watched, trimmed to the fields that
// scheduling reads, and the state of the leader election. It owns the connections, the
// informers' caches, and the lease while this replica holds it. It makes no decisions,
// never retries a request that its caller could retry, and never changes an object after
// passing it on: pods of one template share most of their specs.
package kube
