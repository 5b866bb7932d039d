// Package plugin is the contract of the built-in plugins, by kube-scheduler's extension
// points.
//
// It defines the parts of a plugin at the extension points, the compiled forms of a
// plugin's demands, and Profile, the plugins of one scheduler name in order. It owns
// nothing and decides nothing: the queue runs PreEnqueue, QueueSort and
// EnqueueExtensions, the engine PreFilter to Reserve and PostFilter, commit Permit to
// PostBind.
//
// # Parts
//
// Parts lists everything that a plugin may do. A part is a struct of functions, and its
// optional functions are nil if the plugin lacks them. A copy of a built-in plugin's part
// has all of its functions, while a wrapper of an interface could lose one silently. A
// part of an out-of-tree plugin is known by its pointer and must not be copied. Filter is
// no part yet: a plugin with the methods of NodeFilter is a filter, see package nodename.
//
//	plugin.New(plugin.Parts{
//		Name:      "NodeName",
//		PreFilter: &plugin.PreFilter{Run: p.PreFilter, Skips: p.Skips},
//	})
//
// # Needs
//
// A built-in plugin is a pure function. It reduces a pod to a need: the part of the pod
// that the plugin depends on, with a canonical text. Pods whose needs have equal texts
// share every result, whatever else differs. Text and compiled form are made from one
// value, so they cannot disagree. A cache keyed by pod template would miss equal demands
// of different workloads, and would depend on fields that no plugin reads.
//
// Example: 10,000 pods of 300 Deployments, all with nodeSelector disk=ssd and 40
// different requests. NodeAffinity sees one need and NodeResourcesFit forty. At 5,000
// nodes that is 205,000 plugin calls, once. A call for every pod and node would be 100
// million.
//
// A NodeFilter's needs are compiled in package ingest, off the loop's goroutine. A
// StateFilter or Score.NeedIn also reads the view in the pod's turn, such as the pod's
// claims, and then shares columns like the others. A CountFilter depends on the pods
// around a node and has rules instead of a column. PreScore is part of Score: a nil need
// is kube-scheduler's Skip, and a need that fails to compile fails the turn. A verdict
// may be a failure, which fails the turn unless an earlier filter rejects the node.
//
// A plugin declares the node aspects that it reads, the kinds that it reads besides pods
// and nodes (Reads), and the events that can help a pod that it rejected. An undeclared
// read fails the tests that compare with package oracle, since the simulation hides kinds
// that are not declared.
//
// # Optional properties
//
// The compiled form of a need is a struct. The fields of Verdicts and NodeScores besides
// the first are properties that only some needs have. They are nil or false for others:
//
//   - Sparse and Variant: a column for a few nodes, or for few differences from another.
//   - Amounts, Request: the column depends on nothing but amounts, or the verdicts on
//     nothing but free resources.
//   - Following: the column also depends on things that nodes share.
//   - Costly: the plugin searches, so values are computed on demand within a budget. Work
//     that exceeds it returns ErrUnfinished, and a later round continues it.
//   - Failures: a verdict may be an error.
//
// An interface found by type assertion would be invisible in the contract, and a wrapper
// would lose it without notice. A copy of a struct cannot lose a field.
//
// The parts of a plugin have optional functions, too:
//
//   - PreFilter.Skips: the pod alone shows that the plugin restricts nothing, so its
//     PreFilter is skipped.
//   - Score.Varying: for some pods, such as those with extended resources backed by
//     devices, the need depends on the state.
//   - PreEnqueue.Group, PostFilter.Freeing, PlacementGenerate: for pod groups.
//
// Interfaces are still found by type assertion for filters: their kinds, VaryingFilter
// as Score.Varying, SharedNeed, and Preparing. A need that is Preparing, such as one with
// 10,000 terms or tolerations, is indexed before the pod reaches the loop. A verdict then
// costs the node's size, not the need's. The index is kept with the pod
// (model.Pod.Prepared), and the hash of its text identifies the need. design/limits.md
// has the limits.
package plugin
