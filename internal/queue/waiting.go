package queue

import (
	"time"

	"github.com/berth-scheduler/berth/internal/plugin"
)

// The methods of an entry for QueueSort plugins, see plugin.Waiting.

// Sorted returns the value that the plugin caches for the pod.
func (e *entry) Sorted() *plugin.Sorted { return &e.sorted }

// Turns returns the numbers of the pod's turns.
func (e *entry) Turns() plugin.Turns {
	return plugin.Turns{Attempts: e.attempts, Rejections: e.rejections, Errors: e.errors}
}

// Ready returns the time at which the pod could first be tried.
func (e *entry) Ready() time.Time { return e.ready }

// BackoffEnd returns the end of its last backoff.
func (e *entry) BackoffEnd() time.Time { return e.until }

// Rejectors returns the plugins that rejected it.
func (e *entry) Rejectors() []string {
	if e.place == gated {
		return nil
	}
	return e.plugins
}

// Pending returns the Rejectors that answered Pending.
func (e *entry) Pending() []string { return e.pending }

// Gate returns the PreEnqueue plugin that gates it.
func (e *entry) Gate() string {
	if e.place == gated && len(e.plugins) > 0 {
		return e.plugins[0]
	}
	return ""
}
