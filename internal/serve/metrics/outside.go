package metrics

import (
	"time"

	"k8s.io/component-base/metrics"
)

// Outside measures plugins from outside. It is safe for concurrent use.
type Outside struct {
	// executions has how long calls took, by plugin, extension point and status.
	executions *metrics.HistogramVec
}

// Ran observes calls of a plugin at an extension point that were made together: how long each took on average, once. status is kube-scheduler's name of one.
func (o *Outside) Ran(plugin, point, status string, calls int, took time.Duration) {
	if calls > 0 {
		o.executions.WithLabelValues(plugin, point, status).Observe(took.Seconds() / float64(calls))
	}
}
