package queue

import "time"

// The methods of an entry that a QueueSort plugin reads: plugin.Waiting.

// Kept is where the plugin keeps what it has made of the pod.
func (e *entry) Kept() *any { return &e.kept }

// Attempts, Rejections and Errors count the pod's turns: all, those that ended in a rejection, and those that ended in an error since then.
func (e *entry) Attempts() int   { return e.attempts }
func (e *entry) Rejections() int { return e.rejections }
func (e *entry) Errors() int     { return e.errors }

// Ready is when the pod could first be tried.
func (e *entry) Ready() time.Time { return e.ready }

// BackoffEnd is when its last backoff ends.
func (e *entry) BackoffEnd() time.Time { return e.until }

// Rejectors are the plugins that rejected it.
func (e *entry) Rejectors() []string {
	if e.place == gated {
		return nil
	}
	return e.plugins
}

// Pending are those of them that answered Pending.
func (e *entry) Pending() []string { return e.pending }

// Gate is the PreEnqueue plugin that holds it.
func (e *entry) Gate() string {
	if e.place == gated && len(e.plugins) > 0 {
		return e.plugins[0]
	}
	return ""
}
