// Package framework has the types and functions of k8s.io/kubernetes/pkg/scheduler that
// compiled-in plugins use, under the same names. Plugins need it besides the interfaces
// of k8s.io/kube-scheduler/framework.
//
// It takes API objects. It provides Resource, NodeInfo, PodInfo, CycleState,
// PodsToActivate, NodeToStatus and FitError, and functions for plugins' arguments, scores
// and pods. It owns only a counter of generations. It never reads Berth's state: plugins
// get NodeInfos, PodInfos and a lister of their own.
//
// Amounts are kube-scheduler's. The differences concern results that in kube-scheduler
// depend on a cluster's history, or on chance:
//   - GetRequested omits a resource that no pod of the node requests any more. In
//     kube-scheduler the resource stays with the amount 0 until a restart. A resource of
//     which all pods request 0 may be listed or not.
//   - A host port of two pods on a node becomes free when both are gone. In
//     kube-scheduler it becomes free with the first.
//   - Removing a pod keeps the order of a node's pods, and does not change slices that
//     GetPods returned earlier.
//   - MoreImportantPod prefers neither of two pods with equal priority that have not
//     started. kube-scheduler prefers the first.
package framework
