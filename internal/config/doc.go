// Package config turns a KubeSchedulerConfiguration into checked profiles.
//
// It takes the text of a configuration file in version kubescheduler.config.k8s.io/v1, or nothing; it gives the profiles for
// the engine, the rules for the queue, and the configuration with defaults filled in, as it is written and shown. It owns the
// table of plugins (plugins.go): which exist, what they implement and what their arguments may be; and what feature gates change
// (gates.go), for it is the only reader of those. It never talks to an API server, reads flags or the environment.
//
// A file that kube-scheduler 1.37 accepts is accepted here and means the same; one that it rejects is rejected in the same
// words, except where those would not help (a file of another kind, two profiles of one name). Differences that a configuration
// can bring about:
//
//   - A filter whose plugin is disabled at preFilter works as before, except that it no longer narrows the nodes: the built-in
//     filters need nothing from their PreFilter. In kube-scheduler most of them then fail every pod. A scorer disabled at
//     preScore likewise works as before.
package config
