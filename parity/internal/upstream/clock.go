//go:build !release138

package upstream

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// handClock is a manual clock for a queue. Its time moves on set, and by a nanosecond on
// each read, so that no two events have the same time. Its timers and tickers fire on
// tick, which returns when the work that they trigger is done, so that results do not
// depend on goroutine timing. At most one goroutine may wait for it.
type handClock struct {
	clock.RealClock // for unused methods
	mu              sync.Mutex
	now             time.Time
	fires           chan time.Time
	idle            chan struct{} // signals that the goroutine waits
}

func newHandClock() *handClock {
	return &handClock{fires: make(chan time.Time), idle: make(chan struct{}, 1)}
}

// set moves the time forward, never back.
func (c *handClock) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.After(c.now) {
		c.now = now
	}
}

// tick lets the waiting goroutine do its work once.
func (c *handClock) tick() {
	c.fires <- c.Now()
	<-c.idle
}

// Now returns the time.
func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(1)
	return c.now
}

// Since returns the time since then.
func (c *handClock) Since(then time.Time) time.Duration { return c.Now().Sub(then) }

// NewTimer returns a timer that fires at the next tick.
func (c *handClock) NewTimer(time.Duration) clock.Timer { return handTimer{c} }

// NewTicker returns a ticker that fires at every tick.
func (c *handClock) NewTicker(time.Duration) clock.Ticker { return handTicker{c} }

type handTimer struct{ of *handClock }

// C is called when the work is done, to await the next tick.
func (t handTimer) C() <-chan time.Time { return t.of.awaited() }

// Stop does nothing: the timer fires on tick.
func (handTimer) Stop() bool { return true }

// Reset does nothing.
func (handTimer) Reset(time.Duration) bool { return true }

type handTicker struct{ of *handClock }

// C is called when the work is done, to await the next tick.
func (t handTicker) C() <-chan time.Time { return t.of.awaited() }

// Stop does nothing.
func (handTicker) Stop() {}

func (c *handClock) awaited() <-chan time.Time {
	c.idle <- struct{}{}
	return c.fires
}
