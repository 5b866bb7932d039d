package queue

import (
	"time"

	"github.com/berth-scheduler/berth/internal/plugin"
)

// inTurn is the order in which ready pods are popped. It asks the plugin once: of two pods, the one that arrived first goes first unless the plugin
// puts the other before it.
func inTurn(sort plugin.QueueSort) func(a, b *entry) bool {
	return func(a, b *entry) bool {
		x, y := plugin.Queued{Pod: a.pod, Since: a.since, Waiting: a}, plugin.Queued{Pod: b.pod, Since: b.since, Waiting: b}
		if a.order < b.order {
			return !sort.Less(y, x)
		}
		return sort.Less(x, y)
	}
}

// byWindow orders by the end of the backoff.
func byWindow(a, b *entry) bool {
	if !a.until.Equal(b.until) {
		return a.until.Before(b.until)
	}
	return a.order < b.order
}

// byWindowThen orders by the end of the backoff, and pods of the same second by turn.
func byWindowThen(byTurn func(a, b *entry) bool) func(a, b *entry) bool {
	return func(a, b *entry) bool {
		if !a.until.Equal(b.until) {
			return a.until.Before(b.until)
		}
		return byTurn(a, b)
	}
}

// byIdleness orders parked and gated pods, the longest idle first.
func byIdleness(a, b *entry) bool {
	if x, y := a.idleSince(), b.idleSince(); !x.Equal(y) {
		return x.Before(y)
	}
	return a.order < b.order
}

// idleSince is when the pod last failed, or was last looked at because it was idle for long.
func (e *entry) idleSince() time.Time {
	if e.flushed.After(e.since) {
		return e.flushed
	}
	return e.since
}

// window is the grain of backoffs: they end with a whole second, so that pods that failed together are ordered by priority.
const window = time.Second

// backoffEnd returns the second after which the pod may be tried again: since + initial·2^(n-1), at most the maximum, where n
// counts errors in a row, or else rejections.
func (q *Queue) backoffEnd(e *entry) time.Time {
	n := e.errors
	if n == 0 {
		n = e.rejections
	}
	wait := q.config.BackoffInitial
	longest := q.backoffMax(e)
	for ; n > 1 && wait < longest; n-- {
		wait *= 2
	}
	return e.since.Add(min(wait, longest)).Truncate(window)
}

// isBackingOff reports whether the pod's backoff has not ended; it includes the second in which it ends. A backoff that ends later than
// any backoff can was set before the clock was set back, and counts as ended. A group goes on with the backoff of the members that it had when it was tried,
// as in kube-scheduler, also if those that remain would have a shorter one.
func (q *Queue) isBackingOff(e *entry, now time.Time) bool {
	longest := max(q.backoffMax(e), e.lasts)
	return !e.until.Before(now.Truncate(window)) && e.until.Sub(now) <= longest+window
}
