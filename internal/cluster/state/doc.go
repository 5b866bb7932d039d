// Package state holds the cluster in the dense form that decisions are computed from.
//
// It takes model.Change values and placements to assume. It returns a Delta (the effects
// on waiting pods), a view of each node, and a journal from which caches catch up. It
// owns the node slots, placed pods, images, tallies, terms, nominations, namespaces,
// services, controllers and pod groups, and the stores of volumes and devices. It never
// calls an API, reads a clock, or decides where a pod goes. One goroutine owns a State,
// without locks.
//
// # Slots
//
// Nodes live in dense slots 0..N-1; the lowest free slot is used first. Numbers per node
// (used, non-zero used, pods, ports) are arrays by slot. A slot with pods and without a
// node is a ghost: pods of a node that vanished, or that has not been seen yet, keep
// counting. If fewer than a quarter of more than 1,024 slots are used, nodes move to
// lower slots, a few before each decision, and the end is cut off (slots.go).
//
// A name is not an identity: a node or pod with another UID is deleted and created, with
// both events, even if the watch shows only the new object. Needs and resource names are
// interned with package unique, so comparing them compares pointers, and unused ones are
// collected. A node's use lists only the resources of its pods, and maps shrink with
// their content (package shrink). Nothing grows with the names that were ever seen.
//
// # Journal
//
// The journal lists the slots that changed, with the aspects (model.Aspect). Caches are
// not called: each reads the journal from its own version on, so a cache that is not in
// use costs nothing. A reader older than the kept entries starts again. A second journal
// lists slots whose API object was replaced without a change in any aspect. Only
// out-of-tree plugins, which see whole objects, need it.
//
// Example: a pod is placed on n7 in zone a. Slot 7 gets its requests, and the journal
// gets (slot 7, Usage). Of 2,400 live tallies two select the pod, and each adds 1 to zone
// a. A node label change beside these tallies takes 0.9 to 2.6 µs.
//
// # Counting pods
//
// PodTopologySpread and InterPodAffinity count pods by the values of a topology key.
//
//   - A tally counts the pods of a set (selectors, namespaces) by domain, over a set of
//     nodes. It is built when first needed, then follows each pod that comes, goes, is
//     relabelled or starts to terminate, and each node that changes its labels or taints.
//     Empty tallies that no decision uses are dropped. All are bounded in bytes. A
//     namespace that changes its labels drops the tallies that it enters or leaves.
//   - Label sets are the placed pods of a namespace with equal labels, such as one
//     revision of a Deployment. Selectors are matched once per label set. Sets, tallies
//     and terms are indexed by the label that the fewest others share, so a new tally
//     reads only the pods that it counts, and tenants with equal labels do not meet.
//   - Memberships map nodes to domains for a node set and topology key. Tallies share
//     them. A node's change is matched once for all keys, and only pods whose node moved
//     to another domain are counted again.
//   - Counts by domain are a list while few domains have a count, and an array otherwise,
//     so thousands of small applications fit into memory. The least count, from which
//     skew is measured, is kept in a tournament: a placed pod costs the logarithm of the
//     domains.
//   - Term counts are the distinct affinity terms of placed pods, with the number of pods
//     by domain. Pods of a Deployment carry equal terms, so terms are few. The terms that
//     select an incoming pod are found by namespace and label and remembered until a term
//     changes.
//   - Term lists (termlist.go) count pods with more than 16 terms: equal lists are
//     counted once per topology key. A matcher per key adds up the terms that select a
//     pod (matcher.go). Terms that require a label are found by the pod's labels; terms
//     that only exclude labels are summed up once, minus exceptions.
//   - Weighed terms are one sum per domain for many preferred terms of a pending pod,
//     instead of a tally each (weighed.go). Many required terms of one key form one set
//     of pods.
//   - Topologies number the values of a node label, so counts are arrays. A node's change
//     affects only the topologies of its changed labels. All keys that no node carries
//     share one empty topology without tallies.
//   - Default selectors follow from services and controllers. A service is indexed by one
//     required label, the one with the fewest services, so a pod is matched against few
//     services of its namespace. The version of a default selector changes only with the
//     services of the pod's labels and its controller.
//   - Host ports are counted, not kept as a set. kube-scheduler's set drops a port when
//     one of two holders goes, so its answer depends on history. Counts equal a
//     kube-scheduler that has just started.
//
// # Assumed, nominated and displaced pods
//
// A placement is assumed at decision time, confirmed by the API server or the watch, and
// removed when the binding fails. No timer expires it. Unassume takes it back without an
// event. Holds are the other objects that a placement reserves, such as volumes and
// devices; Holders lists who holds an object. Nominated pods take no room, but a pod that
// does not outrank them must fit beside them. Nominations by out-of-tree plugins are
// added at the end of a turn; until then Renominated lists them. Displace takes pods off
// their nodes for the search of a pod group; they return before any other reader.
// HoldRoom reserves room for a group that was overtaken (roomhold.go). Pod groups and
// their members on nodes are in groups.go, trees of groups in composites.go.
//
// Objects that the API server returned from our own writes are learned before the watch
// shows them (learned.go); older versions from the watch are then ignored. An object that
// a write releases stays in use until the write has ended (givenback.go). After a
// takeover, writes of the previous process may still arrive for a minute (takeover.go).
//
// # Views and drafts
//
// Decisions and plugins read a View: the state, or a Draft of it. A Draft is a state that
// stands still plus pods that are added or removed, with their holds. It never writes to
// the state, several may exist, and several goroutines may read one. Its cost grows with
// the differences, so it is meant for few pods. Plugins cannot detect a draft. It counts
// in two ways: View.Draft as if its pods really came and went, View.DryRun as
// kube-scheduler's AddPod and RemovePod do, which ignore that a pod is terminating, so a
// count may fall below 0. Nominated pods and victims use dry runs. A Restriction limits a
// view to some nodes.
//
// The loop sets the time of a turn (SetNow), and plugins read it from View.Now.
package state
