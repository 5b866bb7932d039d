// Package engine decides where pods go.
//
// It takes a state.View and a plan.Member and returns a plan.Decision, or on request the
// full answer for every node. It owns the columns, the rankings, the compiled needs of
// plugins that read counts, and the remembered rejections. It never changes the state,
// reads a clock, draws random numbers or does I/O: the same state, seed and pod give the
// same decision.
//
// # A decision in steps
//
// The function decide in engine.go runs five steps. Each takes the result of the step
// before.
//
//   - PreFilter plugins may rule out most nodes, and count filters find their counts. A
//     plugin that restricts nothing for a pod (plugin.PreFilter.Skips) is skipped.
//   - Filter: each column drops the slots that its plugin rejects. Rules about counts
//     follow, then out-of-tree filters. If other pods are nominated to a node, the pod
//     must fit with and without them.
//   - Score: columns are normalised, weighted and added up. Among equal nodes package
//     rank draws one by a hash of seed and pod.
//   - Reserve: plugins add holds and binding steps to the placement.
//   - PostFilter, if no node is feasible: plugins may choose victims and nominate the
//     pod.
//
// # Columns
//
// A built-in plugin is a pure function of (need, node). So its result can be kept per
// need and node, and shared by all pods with an equal need, whatever else differs. A
// column holds 4 bytes per slot, one value per node. All columns together are bounded in
// bytes, and the least recently used is dropped first. A column that rejects no node, or
// gives every node the score 0, costs a scan nothing.
//
// Example: 5,000 nodes, and the NodeAffinity need "disk=ssd". The first pod with this
// need fills the column with 5,000 calls of the plugin, which takes about 21 KiB. The
// next 10,000 pods of the Deployment cost no call. Then node n7 gets the label disk=ssd.
// The state applies the change and its journal lists (slot 7, Labels). At the next
// decision the column reads the journal from its own version on. It skips the entries
// whose aspects the plugin does not read, such as Usage, and calls the plugin once, for
// slot 7. If the journal has dropped entries that the column still needs, or more than
// half of the slots changed, the column is filled again.
//
// Some columns differ from this scheme:
//
//   - Sparse (plugin.Sparse): few nodes can meet the need, such as a local volume's. The
//     plugin lists these nodes and all others get one value.
//   - Variant (plugin.Variant): the need differs from another need on a few nodes, such
//     as those that use a shared volume. The column is a corrected copy.
//   - Classes (plugin.ClassScores): the score depends on all nodes together, such as
//     ImageLocality's number of nodes with an image. The column holds the class of each
//     node and every class has one score. An image pull changes one slot and a few
//     scores.
//   - Amounts (plugin.AmountVerdicts, plugin.AmountScores): the plugin reads nothing but
//     amounts. One call fills the column from an array.
//   - Costly: the plugin searches. Values are computed only for the nodes that a decision
//     looks at, up to the first node that fails the turn.
//   - Following (plugin.Following): the value also depends on things that nodes share,
//     such as a network-attached device pool. The plugin lists the slots to refresh.
//
// Columns always describe the whole state. On a Draft the touched nodes are evaluated one
// by one and all others are read from the columns. Profiles that are alike share columns
// and rejections: a plugin is built once for all profiles that give it equal arguments.
//
// # The scan
//
// A scan works on a shrinking list of slots: first the filters, then the rules, then the
// scores. It uses no map, no lock and no allocation per node. Normalisation uses the
// largest raw score over the feasible nodes, with a small table instead of a division per
// node. Memory is reused between decisions (scratch); its content means nothing to the
// next call.
//
// PodTopologySpread and InterPodAffinity count the pods around a node. A column would be
// refilled after every placement, so a count filter has none. Its PreFilter finds the
// counts once a turn, Rules returns rules about them for any view of that turn, and the
// scan looks up count[domain of node]. Their scores are computed for the whole feasible
// set at once, because normalisation depends on the set.
//
// For pods of a kind that recurs, a ranking replaces the scan (package rank). ranking.go
// decides by counted work which is cheaper. The scan is the ranking's oracle: property
// tests and --berth-audit compare feasible nodes, totals and the chosen node.
//
// A pod whose requests are new has no columns of amounts. If such pods recur, an index
// finds the best node without a look at most nodes (package freeindex, indexing.go). Pods
// that differ only in amounts share an index.
//
// Pinned pods, such as a DaemonSet's, name their node in a field selector. Only the few
// nodes that are named are evaluated, without a column: a column for a need that occurs
// once would be waste.
//
// # Rejections
//
// A rejection counts the nodes by the first filter that rejects each. It is remembered by
// shape: the needs of the filters, and the priority if pods are nominated. Pods of one
// shape are rejected alike until something changes that decisions can read
// (state.Versions). Each pod still has its own attempt, event and backoff.
//
// A remembered rejection keeps a byte per slot and follows the journal. After a placed
// pod each shape costs a look at one node: the result for other nodes depends on these
// nodes alone, or on counts that did not change (plugin.Counting.AppendVersions). A
// change of these counts costs a decision.
//
// Example, one event waking one pod: 5,000 nodes are full, and NodeResourcesFit rejected
// web-0, which needs 2 CPUs. Then n7 grows from 8 to 10 CPUs. The journal lists (slot 7,
// Allocatable). The event touches the key "cpu", so package queue calls one hint for all
// parked pods with the requests of web-0; pods that wait for a GPU are not looked at. The
// hint compares 2 CPUs with the new node, and web-0 becomes active. Its turn reads one
// journal entry. NodeResourcesFit passes on slot 7, so the remembered rejection does not
// hold, and a full decision follows in which each column evaluates slot 7 alone. Had n7
// been taken meanwhile, the same entry would have confirmed the rejection in about 2 µs.
// An event that wakes 20,000 pods of 500 shapes costs 500 decisions.
//
// Pods with a nomination or a node name are always decided anew. Rejections under a
// state.Restriction are not remembered. --berth-audit and the simulation decide again and
// compare.
//
// # Missing plugins
//
// For each enabled plugin that Berth lacks, package absent registers a stand-in. Before
// any node is evaluated it rejects the pods that the real plugin would have judged: Berth
// fails closed. A test goes through every field of a pod's spec, so a field of a newer
// API cannot be passed over.
//
// # Out-of-tree plugins
//
// Results of out-of-tree plugins are never cached, and these plugins run after the
// columns have narrowed the nodes (external.go). A turn filter gets all remaining nodes
// in one call. If none is feasible, and it stands before built-in filters, it also gets
// the nodes that they reject, because the first rejection counts. Then extenders are
// called, then PreScore and Score plugins. In dry runs a plugin gets each change through
// AddPod and RemovePod. Rejections of such pods are not remembered. A profile without
// such plugins pays nothing.
//
// # Details and budgets
//
// The details of a decision, such as scores of the best nodes, are computed again on
// request right after it, from the same columns and state (detail.go). No decision pays
// for a recording that is never read.
//
// Work is charged to the meter of package price. A turn whose budget is used up is
// unfinished (plugin.ErrUnfinished): no decision is made from its results, and the turn
// continues in a later round. Counters count plugin calls and visited slots. Tests assert
// on them, so a rescan cannot come back unnoticed.
package engine
