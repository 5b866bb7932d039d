// Compare measures Berth beside kube-scheduler and a binder without scheduling logic.
//
// It takes the folder of built binaries and the names of scenes (package scene). It
// prints a table with ratios, writes every round as CSV and a chart if flags name the
// files (package report), and reports progress on standard error. --csv keeps every
// round, also of an interrupted run, and --resume continues it. It owns the clusters and
// the contenders that it starts. The binder and the lister (a client-go list, for
// restarts) are this program as processes of their own, so that their cost can be
// measured. docs/performance.md has results; --help describes the columns.
//
// # Turns
//
// Each scene has its own API server and etcd, nodes without agents, and no controllers.
// Contenders take turns on it with the same nodes and pods, several rounds each, in an
// order that changes from round to round. Before each turn the pods and events of the
// last are deleted, and the API server is made to collect its garbage. One collection
// takes over a second of CPU every few seconds under load, and would fall into one turn
// or another.
//
// Even so one effect remains. Beside 30,000 running pods Berth first reads these pods,
// and the API server copies each, so its next collection falls into Berth's turn. The
// binder reads none and ends just before the collection. With equally many collections
// both take equally long. So Berth reaches only 69 % of the binder's rate in two of the
// scenes.
//
// # The binder
//
// The binder lists pods and nodes once and binds round-robin, with as many writes in
// flight as Berth: 64. Bindings and evictions go before conditions and events, and no
// write waits for a watch. A plain pod takes a binding and an event. A preemptor takes a
// condition, a deletion and an event of each of its three victims, and the last victim
// leaves after the others. It also takes a condition with its nomination, a binding and
// two events. A pod that fits nowhere takes a condition and an event. A pod with a claim
// for devices takes the expected node in its status, the claim's finalizer and the
// allocation. Assignments are computed before. TestWritesOfContenders counts the writes:
// Berth makes exactly these. kube-scheduler makes a few more where it tries a preemptor
// before room exists.
//
// # Workloads
//
// The names and counts of scheduler_perf are used, with its requests, labels and demands.
// Pods are created by 32 clients while they are placed. Existing pods are placed by the
// harness, evenly or packed as the scheduler would leave them. Claims and volumes are
// created before the measured part and bound to each other: creating them within it would
// take four writes per pod, and any scheduler would wait for them. Workloads of our own:
//
//   - ParkedChurn: beside none and beside 10,000 parked pods, with 100 node updates a
//     second that help none.
//   - HopelessPreemptors: beside none and beside 3,000 pods that fit nowhere and can
//     preempt no pod, while 100 running pods end each second, each of which may help
//     them.
//   - WaitingForRoom: full nodes and 10,000 pending pods, while 100 running pods end each
//     second. Each end makes room for one pod and wakes all, so compare CPU. A rejection
//     costs Berth about 10 µs, with event and condition.
//   - PreemptionBurst: 5,000 pods on 5,000 full nodes; each evicts three pods. In
//     upstream's PreemptionAsync plain pods are measured, and preemptors come beside
//     them, five per second.
//   - ManyTenants: 5,000 pods in 1,000 namespaces, five for each small application. All
//     applications have the same labels, required anti-affinity and spread constraints.
//   - ManyApps: 10,000 pods of 2,000 small applications with a Service each, spread by
//     default.
//   - WaitForFirstConsumerLocal: 5,000 pods need one of 5,000 local volumes each. The
//     controller manager runs and confirms each claim, so the binder's rate is its pace.
//     kube-scheduler looks at every volume of the class for every node: 0.06 s of CPU per
//     pod at 200 nodes, over 0.4 s at 500.
//   - OutsidePlugin: an out-of-tree Filter that accepts every node, and a Score that
//     counts its pods.
//   - Restart: the time to the first binding beside 100,000 running pods, and the time
//     for client-go to list them.
//
// # Devices
//
// Each of 500 nodes has a pool of ten devices, and no driver runs. The controller manager
// creates claims from templates and removes claims of pods that are gone, with 1,000
// requests a second for each controller and 50 workers, so the API server limits it. Its
// delay is part of P50 and P99 and is printed per round.
//
//   - 2000pods_200nodes and 5000pods_500nodes: half of the devices are taken, and pods
//     for the rest are created at once.
//   - empty, half and full: no devices are taken, half of them, or all but ten. Ten pods
//     are created, and each bound pod is deleted and replaced, until 1,000 were placed.
//     Upstream does so for ten seconds; a fixed number gives schedulers the same work. In
//     full each pod waits until the controller manager frees its devices.
//   - selector_empty has an expression in the request, match_empty wants five devices
//     with an equal attribute.
//   - ExtendedResource: pods request a device as an extended resource of several classes,
//     by the class's own name for it (Explicit) or by its default name (Implicit). The
//     scheduler creates the claims.
//   - SchedulingWithExtendedResource: no devices and no classes; each of 5,000 nodes has
//     one of a resource.
//
// A round fails if a device ever had two claims, or a pod was bound without its one
// claim, with all devices on its node and reserved for it (History in package rig).
package main
