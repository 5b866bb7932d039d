// Package monitoring is what Prometheus and Grafana need to watch a scheduler: dashboards and rules, as files beside this one.
//
// Its tests hold every expression in them against what a scheduler serves as /metrics. It is a module of its own so that Prometheus'
// parser does not burden the scheduler's. It never becomes part of a binary.
package monitoring
