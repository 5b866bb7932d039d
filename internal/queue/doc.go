// Package queue keeps the pods that wait for a node, and returns the one whose turn it
// is.
//
// It takes state.Delta (pods that arrived, left or failed, and events that may help) and
// the engine's decisions. It returns a plan.Attempt for one pod or group at a time. It
// owns every waiting pod. It never looks at nodes, reads a clock (time is an argument) or
// calls an API.
//
// # Places
//
// A pod is in exactly one place: active, backing off, backing off after an error, parked,
// gated, in its group, deciding, or binding. place.go has the table of allowed moves; any
// other move panics. Order, backoff, parking and waking are kube-scheduler's: priority,
// then the time of the last failure; exponential backoff in whole seconds; parked until
// an event that a rejecting plugin registered for. kube-scheduler tracks events "in
// flight" during an attempt. Here an attempt is atomic, so that is not needed, and a
// failed binding always waits for its backoff.
//
// If nothing else is ready, backing-off pods are tried early, except after errors. Failed
// early attempts are limited to a burst of 1,000, then 200 per second (early.go):
// otherwise many hopeless pods would use up the API server's CPU. No pod starves. A pod
// that fails backs off whatever its priority.
//
// Heaps hold the waiting pods. Pods that come in order, as pods woken by one event do,
// are kept in a run beside the heap, where adding and removing costs a comparison or two
// (heap.go).
//
// # Waking by cause
//
// A hint reads what its filter reads. Filters declare this (plugin/reads.go): node
// aspects, pods by domain, kinds of objects. The events that can help follow from it, and
// plugins narrow them by hints. An event that a plugin omits wakes its pods without a
// hint. TestHintsKnowWhatFiltersRead changes random clusters and fails if a filter passes
// a node and no hint wakes the pod. The simulation fails if a parked pod fits for more
// than 5 s.
//
// Calling a hint for every parked pod is too slow: 100,000 parked pods would cost 100,000
// calls per event. Two steps avoid it:
//
//   - Pods for which a plugin's hint gives equal results share a bucket. One call serves
//     them all.
//   - Each registration has a cause: keys that an event must touch to help, such as a
//     node label, a pod label in a namespace, a tolerated taint, or a resource that grew.
//     Buckets are indexed by these keys (index.go). Of keys that are all required, the
//     one with the fewest buckets is used, so labels that a thousand tenants share do not
//     matter. An update finds its buckets either by the content of the object or by the
//     difference, whichever is fewer.
//
// Example: 100,000 pods of 1,000 applications are parked, and a node gets a label that no
// pod selects by. No bucket has this key: 2.4 µs and no hint. A pod that is bound in
// another application takes 0.57 µs (BenchmarkUselessChange). Property tests compare the
// woken pods with calling the hint for every pod.
//
// # Slices
//
// In a full cluster each pod that ends may help all waiting pods. So events are processed
// in slices (waking.go): at most 500 hints and 500 moved pods a round. New pods and
// decisions come between slices. First all hints of an event are called, then pods move
// in order, so slices do not change who comes first. A pod parked during this has seen
// the event; a pod updated during this is tried. Pods whose backoff ends together, or
// that were parked for long, move in slices too. The loop does not sleep while work is
// left (Unfinished). For 100,000 pods the longest round takes 2.2 ms; in one round it
// would be 0.7 s.
//
// # Preemptors
//
// Deleting one victim does not wake the preemptor, since it picks no victim that it can
// spare (preemption.go). Room left by victims of another preemptor is meant for that one.
// So a parked preemptor receives no deletion of a victim until its own victims are all
// gone, which wakes it. A finalizer may hold a victim for hours, so after half a minute
// it receives the deletions of other victims too. Until the watch shows the last victim
// gone or terminating, other events do not cause an attempt. After an attempt that
// another event caused, all deletions count again. A failed eviction causes a retry at
// once, a second failure in a row a backoff.
//
// # Groups
//
// The members of a pod group have entries of their own; one head represents the group in
// the heaps (group.go). The head is incomplete without a PodGroup, gated while a member
// is gated or too few exist, active, or backing off. A group moves as one: a member that
// comes or goes costs the same beside 5,000 others. A rejected group is tried again after
// each backoff, at most √members times a pod's, and events wake it before that
// (groupevents.go). All members below the root of a tree of CompositePodGroups share one
// head (tree.go). Bound members leave the entry; a member whose binding failed returns to
// it, and running members count towards minCount.
//
// # Accounts
//
// One expensive pod can cost a thousand ordinary turns, so a namespace with an expensive
// turn gets a heap of its own (account.go). After such a turn the other pods of that
// priority go first until they have had as much work. If none is ready, the namespace
// continues at once. Accounts never override priorities, and are off under an out-of-tree
// QueueSort plugin. An unfinished turn returns its pod to the same place without an
// attempt, backoff, event or condition. A pod that a previous leader did not finish goes
// last (last.go). Pods that use an object that a pending write releases are gated
// (writes.go).
//
// # Two clocks
//
// Order and backoff use a steady clock, which ignores changes of the system's clock.
// Times in API objects are written and compared by the system's clock (View.Wall).
package queue
