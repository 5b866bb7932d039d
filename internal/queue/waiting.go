package queue

import "time"

// The methods of an entry for QueueSort plugins, see plugin.Waiting.

// Kept returns the memory of the plugin for the pod.
func (e *entry) Kept() *any { return &e.kept }

// Attempts, Rejections and Errors count the pod's turns: all turns, the rejected ones,
// and those in a row that ended in an error.
func (e *entry) Attempts() int   { return e.attempts }
func (e *entry) Rejections() int { return e.rejections }
func (e *entry) Errors() int     { return e.errors }

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
