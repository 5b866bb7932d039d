// Package metrics exports the scheduler's counters and durations to Prometheus.
//
// It takes the values that the loop and the commit pass to their observers. It exports
// kube-scheduler's series with their names, types, labels and buckets, so that existing
// dashboards and alerts work. The names of Berth's own series begin with berth_. It owns
// the series and registers them in the given registry.
//
// It makes no decisions, stores no observed objects, and never makes the loop wait.
// Members of a family are looked up once, so that observing a decision needs no lookup by
// label and no allocation.
package metrics
