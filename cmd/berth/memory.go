package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// gcPercentMost is GOGC for a small heap: it saves a third of the time for some more
// memory. heapBytes limits the heap before the next collection. gcPercentLeast lets even
// larger heaps grow beyond that, so that collections do not take all the time.
const (
	gcPercentMost  = 400
	gcPercentLeast = 60
	heapBytes      = 768 << 20
)

// gcPercent returns GOGC for a heap with this many live bytes.
func gcPercent(live uint64) int {
	if live == 0 {
		return gcPercentMost
	}
	return int(min(max(100*int64(heapBytes)/int64(live)-100, gcPercentLeast), gcPercentMost))
}

// shortRun adjusts GOGC after each collection while a command runs. It returns a function
// that restores the old value.
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

// tuning adjusts GOGC until it is over.
type tuning struct {
	mu   sync.Mutex
	over bool
}

// arm schedules tune for the next collection, which finds this garbage.
func (t *tuning) arm() {
	garbage := new([32]byte) // too large for the allocator to combine with other values
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
