// Package monitoring has dashboards and rules for Prometheus and Grafana, as files in
// this folder.
//
// Its tests check every expression in them against a scheduler's /metrics. It is a
// separate module, so the scheduler's go.mod does not need Prometheus' parser. It is part
// of no binary.
package monitoring
