package loop

import (
	"sync/atomic"
	"time"
)

// Clock gives other goroutines the loop's time, which is steady: setting the system's clock does not change it. It is an Observer of the loop and
// takes the time from the loop's first decision. The zero value is ready.
type Clock struct{ set atomic.Pointer[reading] }

// reading is the loop's time at a time of the process.
type reading struct{ loop, process time.Time }

// Round takes the time from the first decision.
func (c *Clock) Round(r *Round) {
	if r.Decided && c.set.Load() == nil {
		c.set.Store(&reading{r.Decisions[0].Pods[0].Popped, time.Now().Add(-r.Popping - r.Deciding - r.Settling)})
	}
}

// Standing does nothing.
func (c *Clock) Standing(*Standing) {}

// Now returns the loop's time, or the system's before the first decision.
func (c *Clock) Now() time.Time {
	at := c.set.Load()
	if at == nil {
		return time.Now()
	}
	return at.loop.Add(time.Since(at.process))
}
