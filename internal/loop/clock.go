package loop

import (
	"sync/atomic"
	"time"
)

// Clock tells other goroutines what time it is for a loop, which follows the system's clock only in how fast it runs. It is an Observer
// of that loop, and learns the time from the loop's first decision. The zero value is ready.
type Clock struct{ set atomic.Pointer[reading] }

// reading is the loop's time at a moment of the process.
type reading struct{ loop, process time.Time }

// Round learns the time.
func (c *Clock) Round(r *Round) {
	if r.Decided && c.set.Load() == nil {
		c.set.Store(&reading{r.Decision.Pods[0].Popped, time.Now().Add(-r.Popping - r.Deciding - r.Settling)})
	}
}

// Standing does nothing.
func (c *Clock) Standing(*Standing) {}

// Now returns the loop's time; before the first decision, the system's.
func (c *Clock) Now() time.Time {
	at := c.set.Load()
	if at == nil {
		return time.Now()
	}
	return at.loop.Add(time.Since(at.process))
}
