// Package framework runs plugins that users wrote against k8s.io/kube-scheduler/framework, for one profile.
//
// It takes plugins as kube-scheduler's factories build them, and views of the state. It gives an adapter for each extension point that a plugin
// implements, which the queue and the engine ask like a built-in plugin; the calls that commit makes in the steps of a binding; and the Handle that
// plugins use. It owns the goroutine that plugins run on, and what belongs to the turn of a pod: its CycleState, its copies of the pod, the statuses of
// its nodes.
//
// Plugins from outside are not trusted to return. Up to Permit each call, or batch of calls, runs on a Lane: it has a deadline, a panic is an error that
// names the plugin and the extension point, and what a call that was given up does later reaches nobody. Nothing that a plugin can write to is shared with
// the state: a turn has its own copy of the pod, and NodeInfos are views.
//
// It never decides anything, and never writes to the state.
package framework
