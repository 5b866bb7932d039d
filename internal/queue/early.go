package queue

import (
	"time"

	"github.com/berth-scheduler/berth/internal/kit/price"
)

// Budget of failed attempts before the end of a backoff: earlyBurst at once, and one each
// earlyEvery in the long run. kube-scheduler is limited only by its own speed, which is
// lower with 5,000 nodes. Without a limit, many pods that fit nowhere would be retried
// all the time in a cluster where pods end all the time, because each of these may help.
// The retries would take CPU from the API server.
const (
	earlyBurst = 1000
	earlyEvery = 5 * time.Millisecond
	// earlyUnits is the work of a group's attempt that counts as one failed attempt. The
	// burst then costs at most about 20 ms, however expensive the attempts are.
	earlyUnits = 20 * price.Millisecond / earlyBurst
)

// earlyTries limits the failed attempts before the end of a backoff. Attempts that place
// their pod do not count.
type earlyTries struct {
	// full is the time at which the budget is full again. The time until then, in steps
	// of earlyEvery, is the number of recent failures.
	full time.Time
}

// earlySpan is the time to refill the budget.
const earlySpan = earlyBurst * earlyEvery

// allowed reports whether a pod may be tried before its backoff ends.
func (t *earlyTries) allowed(now time.Time) bool {
	if t.full.Sub(now) > 2*earlySpan { // the clock was set back
		t.full = now.Add(earlySpan)
	}
	return !now.Before(t.next())
}

// next returns the time at which a pod may next be tried before its backoff ends.
func (t *earlyTries) next() time.Time { return t.full.Add(earlyEvery - earlySpan) }

// groupInVain counts an attempt that did not place a group: each pod as an attempt, or
// more if the attempt cost more.
func (t *earlyTries) groupInVain(now time.Time, pods int, units int64) {
	t.inVain(now, max(pods, int(min(units/earlyUnits, earlyBurst))))
}

// inVain counts attempts that did not place their pods. The largest groups count as a
// burst.
func (t *earlyTries) inVain(now time.Time, pods int) {
	if t.full.Before(now) {
		t.full = now
	}
	t.full = t.full.Add(time.Duration(min(pods, earlyBurst)) * earlyEvery)
}
