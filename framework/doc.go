// Package framework is what plugins that are compiled into Berth need besides the interfaces of k8s.io/kube-scheduler/framework: the types and functions
// that they took from k8s.io/kubernetes/pkg/scheduler so far, under the names that they had there.
//
// It takes API objects; it gives Resource, NodeInfo, PodInfo, CycleState, PodsToActivate, NodeToStatus and FitError, and functions about plugins'
// arguments, scores and pods. It owns nothing but a counter of generations. It never reads Berth's state: what plugins get of that are NodeInfos, PodInfos and a lister
// of their own.
//
// Amounts are kube-scheduler's. It differs in what depends there on a cluster's history, or on chance:
//   - A resource that no pod of a node requests any more is not listed in GetRequested; there it stays, with the amount 0, until a restart. A resource of
//     which all pods request 0 may or may not be listed.
//   - A host port that two pods of a node have is free when both are gone; there when the first is gone.
//   - Pods of a node stay in order when one is removed, and the slice that GetPods returned before does not change.
//   - Of two pods of one priority that have not started MoreImportantPod prefers neither; there the first.
package framework
