package queue

import (
	"time"

	"github.com/berth-scheduler/berth/internal/plugin"
)

// inTurn returns the order of popping ready pods. It calls the plugin once for each
// comparison: of two pods, the earlier arrival goes first unless the plugin puts the
// other before it.
func inTurn(sort *plugin.QueueSort) func(a, b *entry) bool {
	return func(a, b *entry) bool {
		x, y := plugin.Queued{Pod: a.pod, Since: a.since, Waiting: a}, plugin.Queued{Pod: b.pod, Since: b.since, Waiting: b}
		if a.order < b.order {
			return !sort.Less(y, x)
		}
		return sort.Less(x, y)
	}
}

// byWindow sorts by the end of the backoff.
func byWindow(a, b *entry) bool {
	if !a.until.Equal(b.until) {
		return a.until.Before(b.until)
	}
	return a.order < b.order
}

// byWindowThen sorts by the end of the backoff, and pods of the same second by turn.
func byWindowThen(byTurn func(a, b *entry) bool) func(a, b *entry) bool {
	return func(a, b *entry) bool {
		if !a.until.Equal(b.until) {
			return a.until.Before(b.until)
		}
		return byTurn(a, b)
	}
}

// byIdleness sorts parked and gated pods, the longest idle first.
func byIdleness(a, b *entry) bool {
	if x, y := a.idleSince(), b.idleSince(); !x.Equal(y) {
		return x.Before(y)
	}
	return a.order < b.order
}

// idleSince returns when the pod last failed, or was last flushed for being idle too
// long.
func (e *entry) idleSince() time.Time {
	if e.flushed.After(e.since) {
		return e.flushed
	}
	return e.since
}

// window is the resolution of backoffs. They end with a whole second, so that pods that
// failed together are sorted by priority.
const window = time.Second

// backoffEnd returns the second after which the pod may be retried: since +
// initial·2^(n-1), at most the maximum. n is the number of errors in a row; without
// errors it is the number of rejections.
func (q *Queue) backoffEnd(e *entry) time.Time {
	n := e.errors
	if n == 0 {
		n = e.rejections
	}
	wait := q.config.BackoffInitial
	longest := q.maxBackoff(e)
	for ; n > 1 && wait < longest; n-- {
		wait *= 2
	}
	return e.since.Add(min(wait, longest)).Truncate(window)
}

// isBackingOff reports whether the pod's backoff still lasts, including the second in
// which it ends. A backoff that ends later than any backoff can was set before the clock
// was set back, and counts as ended.
//
// As in kube-scheduler, a group keeps the backoff of its members at the attempt, even if
// fewer members would have a shorter one.
func (q *Queue) isBackingOff(e *entry, now time.Time) bool {
	longest := max(q.maxBackoff(e), e.lasts)
	return !e.until.Before(now.Truncate(window)) && e.until.Sub(now) <= longest+window
}
