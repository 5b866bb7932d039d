// Package config turns a KubeSchedulerConfiguration into checked profiles.
//
// It takes the text of a configuration file in version kubescheduler.config.k8s.io/v1, or nothing; it gives the profiles for the engine, the
// rules for the queue, and the configuration with defaults filled in, as it is written and served. It owns the table of plugins (plugins.go):
// their names, extension points and arguments; the place of plugins from outside among them (outside.go); and the effects of feature gates (gates.go),
// which no other package of the core reads. It never calls an API server or an extender, reads flags or the environment.
//
// A file that kube-scheduler 1.37 accepts is accepted here and means the same; one that it rejects is rejected with the same text, except where
// that would not help (a file of another kind, two profiles of one name). Differences that a configuration can cause:
//
//   - A filter whose plugin is disabled at preFilter works as before, except that it no longer narrows the nodes: the built-in
//     filters need nothing from their PreFilter. In kube-scheduler most of them then fail every pod. A scorer disabled at
//     preScore likewise works as before.
package config
