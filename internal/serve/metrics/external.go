package metrics

import (
	"time"

	"k8s.io/component-base/metrics"
)

// External measures out-of-tree plugins. It is safe for concurrent use.
type External struct {
	// executions are the durations of calls, by plugin, extension point and status.
	executions *metrics.HistogramVec
}

// Ran observes a series of calls of a plugin at an extension point, as one observation of
// their mean duration. status is kube-scheduler's name of a status.
func (o *External) Ran(plugin, point, status string, calls int, took time.Duration) {
	if calls > 0 {
		o.executions.WithLabelValues(plugin, point, status).Observe(took.Seconds() / float64(calls))
	}
}
