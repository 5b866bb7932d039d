// Package kube is the only place that talks to the API server.
//
// It takes a kubeconfig, and bindings, conditions and events to write; it gives clients, and the cluster's objects, trimmed to what
// scheduling reads, as the watches show them, and says whether this replica leads. It owns the connections, the informers' caches, what
// objects share in memory, and the hold on the lease. It never decides anything, never retries what its caller could retry, and never
// changes an object after it has handed it on: pods of one template share most of their specs.
package kube
