package queue

import "time"

// How many attempts before the end of a backoff may be in vain: earlyBurst of them at once, and one each earlyEvery in the long run. kube-scheduler has no
// such limit but its own pace, which is slower with 5,000 nodes. Without one, many pods that fit nowhere would be tried all the time where pods end all the
// time, each of which may help them, and would take from the API server what CPU it could use.
const (
	earlyBurst = 1000
	earlyEvery = 5 * time.Millisecond
)

// earlyTries limits the attempts before the end of a backoff that are in vain. Those that place their pod do not count.
type earlyTries struct {
	// full is when as many as earlyBurst may be in vain at once again. The time from now to then, in steps of earlyEvery, is how many were lately.
	full time.Time
}

// earlySpan is how long it takes until a burst may be repeated.
const earlySpan = earlyBurst * earlyEvery

// allowed reports whether a pod may be tried before its backoff ends.
func (t *earlyTries) allowed(now time.Time) bool {
	if t.full.Sub(now) > 2*earlySpan { // the clock was set back
		t.full = now.Add(earlySpan)
	}
	return !now.Before(t.next())
}

// next is from when on a pod may be tried before its backoff ends.
func (t *earlyTries) next() time.Time { return t.full.Add(earlyEvery - earlySpan) }

// inVain counts an attempt that did not place its pod, or as many pods as a group has.
// The largest groups count as a burst.
func (t *earlyTries) inVain(now time.Time, pods int) {
	if t.full.Before(now) {
		t.full = now
	}
	t.full = t.full.Add(time.Duration(min(pods, earlyBurst)) * earlyEvery)
}
