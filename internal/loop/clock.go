package loop

import (
	"sync/atomic"
	"time"
)

// Clock gives other goroutines the loop's steady time, which does not follow changes of
// the system's clock. It is an Observer of the loop and reads the time of the loop's
// first decision. The zero value is ready.
type Clock struct{ set atomic.Pointer[reading] }

// reading pairs a time of the loop with a time of the process.
type reading struct{ loop, process time.Time }

// Round reads the time of the first decision.
func (c *Clock) Round(r *Round) {
	if r.Attempt != nil && c.set.Load() == nil {
		c.set.Store(&reading{r.Attempt.Members[0].Popped, time.Now().Add(-r.Popping - r.Deciding - r.Settling)})
	}
}

// Standing does nothing.
func (c *Clock) Standing(*Standing) {}

// Now returns the loop's time. Before the first decision it returns the system's time.
func (c *Clock) Now() time.Time {
	at := c.set.Load()
	if at == nil {
		return time.Now()
	}
	return at.loop.Add(time.Since(at.process))
}
