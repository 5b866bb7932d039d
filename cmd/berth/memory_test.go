package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// TestGCPercent lets a small heap grow fast, a large heap up to the bound, and an even
// larger heap by its share.
func TestGCPercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 400, 1 << 20: 400, 192 << 20: 300, 384 << 20: 100, 768 << 20: 60, 64 << 30: 60} {
		if got := gcPercent(live); got != want {
			t.Errorf("%d MiB live: %d, want %d", live>>20, got, want)
		}
	}
}

// TestShortRun sets GOGC after a collection, and the old value at the end.
func TestShortRun(t *testing.T) {
	before := debug.SetGCPercent(123)
	defer debug.SetGCPercent(before)
	restore := shortRun()
	kept := make([]byte, 400<<20) // never written, so that it takes no memory of the machine
	percent := func() int {
		now := debug.SetGCPercent(100)
		debug.SetGCPercent(now)
		return now
	}
	deadline := time.Now().Add(time.Minute)
	for percent() >= gcPercentMost && time.Now().Before(deadline) {
		runtime.GC()
		time.Sleep(time.Millisecond) // finalizers run on their own goroutine
	}
	if got := percent(); got >= 100 || got < gcPercentLeast {
		t.Errorf("GOGC is %d with %d MiB live", got, len(kept)>>20)
	}
	runtime.KeepAlive(kept)
	restore()
	if got := percent(); got != 123 {
		t.Errorf("GOGC is %d afterwards, want 123", got)
	}
}
