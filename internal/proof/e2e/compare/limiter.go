package main

import (
	"context"
	"sync"
)

// lane is a priority of writes.
type lane int

const (
	// urgent are bindings and evictions, which go first.
	urgent lane = iota
	// reports are statuses and events.
	reports
	lanes
)

// limiter limits the writes in flight as Berth does: binderInFlight in all, at most half
// of them for reports, and one for reports alone.
type limiter struct {
	mu      sync.Mutex
	free    int
	left    [lanes]int             // by lane, how many more may be in flight
	waiting [lanes][]chan struct{} // closed when a write may be sent
}

func newLimiter() *limiter {
	return &limiter{free: binderInFlight, left: [lanes]int{urgent: binderInFlight - 1, reports: binderInFlight / 2}}
}

// take waits until a write may be sent.
func (m *limiter) take(ctx context.Context, l lane) error {
	turn := make(chan struct{})
	m.mu.Lock()
	m.waiting[l] = append(m.waiting[l], turn)
	m.grant()
	m.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done(): // the binder ends, so no one misses the turn
		return context.Cause(ctx)
	}
}

// give ends a write.
func (m *limiter) give(l lane) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free++
	m.left[l]++
	m.grant()
}

// grant admits the next writes. The caller holds mu.
func (m *limiter) grant() {
	for l := range lanes {
		for m.free > 0 && m.left[l] > 0 && len(m.waiting[l]) > 0 {
			close(m.waiting[l][0])
			m.waiting[l] = m.waiting[l][1:]
			m.free--
			m.left[l]--
		}
	}
}
