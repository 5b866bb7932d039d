// Package kube is the only place that talks to the API server.
//
// It takes a kubeconfig, the kinds to watch, and bindings, conditions and events to write. It gives clients, the cluster's objects as the
// watches show them, trimmed to what scheduling reads, and whether this replica leads. It owns the connections, the informers' caches and
// the lease while it is held. It never decides anything, never retries what its caller could retry, and never changes an object after it
// has passed it on: pods of one template share most of their specs.
package kube
