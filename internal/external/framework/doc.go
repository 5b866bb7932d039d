// Package framework runs plugins that users wrote for k8s.io/kube-scheduler/framework,
// for one profile.
//
// It takes plugins as kube-scheduler's factories build them, and views of the state. It
// returns an adapter for each extension point, which queue and engine call like a
// built-in plugin, the calls that commit makes in the steps of a binding, and the Handle
// that plugins use. It owns the goroutine of the plugins and the objects of a turn:
// CycleState, copies of the pod, statuses of nodes. It makes no decisions and never
// writes to the state.
//
// Such a plugin is no pure function: it reads whole objects and a snapshot, keeps data
// and does I/O. So its results are never cached, and built-in columns narrow the nodes
// first. It may also hang or panic. Up to Permit each call, or batch of calls, runs on a
// Lane (lane.go): one goroutine per profile with a deadline of 10 s
// (--berth-plugin-deadline).
//
// A panic or a timeout fails the pod's turn and names plugin and extension point. The
// goroutine is abandoned, and its later writes have no effect: a turn has its own copy of
// the pod, and NodeInfos are views. The plugin is then not called for that pod for a
// growing time, and after three pods not at all (hung.go). Ingest keeps collecting
// changes meanwhile.
//
//   - QueueSort (queuesort.go): Less is called a dozen times per pop, so the plugin's
//     view of a pod is stored with the queue entry (plugin.Waiting.Sorted) until either
//     changes. If Less fails, priority and time decide.
//   - Snapshot (package snapshot): one permanent lister whose content is fixed when a
//     turn begins. A NodeInfo is built on first use and again only when the journals list
//     its slot. So are devices and claims of the SharedDRAManager, once a plugin has used
//     it.
//   - PreBind, Bind and PostBind are calls in the steps of a placement, and Unreserve
//     undoes the first. Pods waiting at Permit are in package commit, one set for all
//     profiles.
//   - Filters on changed nodes, which preemption plugins call through the Handle, become
//     a Draft.
//   - Plugins that assert kube-scheduler's concrete types get them from framework.Types,
//     whose constructors are in the module framework/compat. Values are converted when
//     first seen.
//   - A turn waits up to 20 ms for the Unreserve of pods that were rejected at Permit
//     (leaving.go), so that gang plugins count their members correctly.
//
// Example: 5,000 pods, a Filter and a Score for all 5,000 nodes: 0.28 ms a decision
// instead of 0.05 ms. Package config reads such a configuration without constructing
// plugins, so it can be checked without a cluster; Build constructs them
// (config/external.go). docs/plugins.md and docs/extenders.md are the contract for users.
// Not supported yet: out-of-tree plugins in the turns of pod groups.
package framework
