// Package monitoring holds dashboards and rules for Prometheus and Grafana, as files beside this one.
//
// Its tests check every expression in them against a scheduler's /metrics. It is a separate module so that the scheduler's go.mod does not
// need Prometheus' parser. It never becomes part of a binary.
package monitoring
