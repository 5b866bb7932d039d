// Package config turns a KubeSchedulerConfiguration into checked profiles.
//
// It takes the text of a configuration file in version kubescheduler.config.k8s.io/v1, or
// nothing. It returns the profiles for the engine, the rules for the queue, and the
// configuration with defaults, as it is written and served.
//
// It owns the table of plugins (plugins.go): their names, extension points and arguments.
// It also owns the position of out-of-tree plugins among them (external.go), and the
// effects of feature gates (gates.go), which no other package of the core reads. It never
// calls an API server or an extender, and reads no flags or environment.
//
// A file that kube-scheduler 1.37 accepts is accepted here with the same meaning. A file
// that it rejects is rejected with the same text, unless another text is more helpful (a
// file of another kind, two profiles of one name). Differences that a configuration can
// cause:
//
//   - A filter whose plugin is disabled at preFilter works as before, except that it no
//     longer narrows the nodes: the built-in filters need nothing from their PreFilter.
//     In kube-scheduler most of them then fail every pod. A scorer disabled at preScore
//     likewise works as before.
package config
