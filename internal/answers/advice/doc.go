// Package advice finds the smallest changes after which a pending pod finds a node.
//
// It takes a cluster (a state, its engine and ingest), a pod without a feasible node, and
// the objections of the nodes. It returns an Advice: suggestions, the smallest change
// first. It owns nothing, and leaves the state as it was when For returns. The number of
// decisions is bounded (MaxDecisions). It never reads a clock, and evicts or writes
// nothing.
//
// Suggestions are never derived from the text of a rejection, because a text names one
// objection per node and not the next one. Each change is made, the engine decides again,
// and only changes that lead to a node are suggested. A change of the pod is made on a
// copy, which ingest compiles and the state never sees. A change of the cluster is made
// in the state through ingest, and reverted. A change of a node is an edit, so two
// changes of one node can be combined.
//
// A change with an amount, such as a request or maxSkew, is a knob: its settings are
// ordered so that if one helps, all further ones do. Bisection finds the least. Example:
// a pod requests 8 CPUs and the nodes have between 0.5 and 6 CPUs free. The settings are
// the free amounts. With 5,000 nodes and 1,000 different amounts, ten decisions find the
// largest request that fits. Pods to remove are those that preemption picks for a pod
// that outranks all others.
//
// TestAdvice compares each suggestion with the oracle. For the single changes of its
// checkNoLesser it also holds that something is suggested if anything helps.
//
// Read in this order: advice.go (inputs and order), trial.go (how a change is tried),
// then the changes: pod.go, requests.go, selectors.go, cluster.go, room.go, storage.go.
package advice
