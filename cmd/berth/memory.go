package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// gcPercentMost is for a small heap: a third less time for some more memory. heapBytes is the size up to which the heap of a larger cluster may grow between two
// collections, and gcPercentLeast what is kept of that beyond it, so that an even larger cluster takes more memory and not all the time.
const (
	gcPercentMost  = 400
	gcPercentLeast = 60
	heapBytes      = 768 << 20
)

// gcPercent is the value of GOGC for a heap of which so much is live.
func gcPercent(live uint64) int {
	if live == 0 {
		return gcPercentMost
	}
	return int(min(max(100*int64(heapBytes)/int64(live)-100, gcPercentLeast), gcPercentMost))
}

// shortRun sets GOGC while a command runs, again after each collection. It returns a function that restores the old value.
func shortRun() func() {
	t := &tuning{}
	before := debug.SetGCPercent(gcPercentMost)
	t.arm()
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.over = true
		debug.SetGCPercent(before)
	}
}

// tuning sets GOGC until it is over.
type tuning struct {
	mu   sync.Mutex
	over bool
}

// arm has tune called after the next collection, which finds garbage.
func (t *tuning) arm() {
	garbage := new([32]byte) // large enough not to share its memory with other values
	runtime.SetFinalizer(garbage, func(*[32]byte) { t.tune() })
}

func (t *tuning) tune() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() == metrics.KindUint64 {
		debug.SetGCPercent(gcPercent(sample[0].Value.Uint64()))
	}
	t.arm()
}
