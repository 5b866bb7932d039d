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
// Parts lists everything that a plugin may do, and each part lists its optional
// functions. What a plugin lacks is nil. This is a whole plugin, see package nodename:
//
//	plugin.New(plugin.Parts{
//		Name:      "NodeName",
//		PreFilter: &plugin.PreFilter{Run: p.PreFilter, Skips: p.Skips},
//		Filter:    &plugin.Filter{Need: p.FilterNeed},
//		EnqueueExtensions: &plugin.EnqueueExtensions{Events: []model.EventToRegister{
//			{Resource: model.NodeEvent, Actions: model.Add},
//		}},
//	})
//
//	part               functions, the first of which are required
//	QueueSort          Less
//	PreEnqueue         Pod, In or Group
//	EnqueueExtensions  Events; Asked
//	PreFilter          Run; Skips
//	Filter             Need, NeedIn, Count or Turn; Varying with Need
//	PostFilter         Run; Own, Group, Freeing
//	PreScore           Run
//	Score              Need, NeedIn, Set or Turn; Varying with Need
//	PlacementGenerate  Run
//	PlacementScore     Run
//	Reserve            Holds
//	Permit, PreBind    Steps; Done
//	Bind               Binding, Tries, Retry
//	PostBind           Steps
//
// Filter and Score also declare what they read of a node. A copy of a built-in plugin's
// part has all of its functions, while a wrapper of an interface could lose one silently.
// The pointer to a part identifies it: profiles that share a part share its columns, and
// a part of an out-of-tree plugin must not be copied.
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
// Need is compiled in package ingest, off the loop's goroutine. NeedIn also reads the
// view in the pod's turn, such as the pod's claims, and then shares columns like the
// others. Count depends on the pods around a node and has rules instead of a column.
// PreScore is part of Score: a nil need is kube-scheduler's Skip, and a need that fails
// to compile fails the turn. A verdict may be a failure, which fails the turn unless an
// earlier filter rejects the node.
//
// A plugin declares the node aspects that it reads, the kinds that it reads besides pods
// and nodes (Filter.Reads, Parts.Objects), and the events that can help a pod that it
// rejected. An undeclared read fails the tests that compare with package oracle, since
// the simulation hides kinds that are not declared.
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
// One property is a method: a need that is Preparing, such as one with 10,000 terms or
// tolerations, is indexed before the pod reaches the loop. A verdict then costs the
// node's size, not the need's. The index is kept with the pod (model.Pod.Prepared), and
// the hash of its text identifies the need. design/limits.md has the limits.
package plugin
