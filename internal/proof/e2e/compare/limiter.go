package main

import (
	"context"
	"sync"
)

// lane is a kind of write.
type lane int

const (
	// urgent are bindings and evictions; they go first.
	urgent lane = iota
	// reports are statuses and events.
	reports
	lanes
)

// limiter bounds the writes in flight as Berth does: so many in all, half of them for reports, and one for reports alone.
type limiter struct {
	mu      sync.Mutex
	free    int
	left    [lanes]int             // of each kind, how many more may be in flight
	waiting [lanes][]chan struct{} // closed when the turn has come
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
	case <-ctx.Done(): // the binder ends, so nobody misses the turn
		return context.Cause(ctx)
	}
}

// give says that a write has ended.
func (m *limiter) give(l lane) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free++
	m.left[l]++
	m.grant()
}

// grant lets those through whose turn it is. The caller holds mu.
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
