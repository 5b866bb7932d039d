// Package metrics counts and measures what the scheduler does, for Prometheus.
//
// It takes what the loop and the commit pass to their observers; it gives series: kube-scheduler's by their own names, types, labels and
// buckets, so that dashboards and alerts made for it work, and Berth's own, whose names begin with berth_. It owns the series and registers
// them in the registry it is given. It never decides anything, keeps nothing of what it observes, and never makes the loop wait: members of
// a family are looked up once, so that a decision is observed without a lookup by label and without allocation.
package metrics
