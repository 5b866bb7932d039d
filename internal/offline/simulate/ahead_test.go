package simulate_test

import (
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/internal/offline/manifest"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// TestAheadIsTheSame schedules generated clusters with the loop running ahead of the API
// server, and step by step. Each pod has the same outcome every time, also in clusters
// that are too small for all pods.
func TestAheadIsTheSame(t *testing.T) {
	for _, size := range []simulate.Size{
		{Nodes: 90, Zones: 3, Pods: 3000, Running: 300, Apps: 40},
		{Nodes: 12, Zones: 4, Pods: 2500, Apps: 25},
		{Nodes: 30, Zones: 1, Pods: 900, Apps: 300},
		{Nodes: 4, Zones: 2, Running: 20, Apps: 2},
	} {
		run := func(pods *simulate.Size, cluster *manifest.Cluster) *simulate.Result {
			result, err := simulate.Run(simulate.Config{Scheduler: scheduler(t), Seed: 7, Pods: pods}, cluster, nil)
			if err != nil {
				t.Fatalf("%+v: %v", size, err)
			}
			return result
		}
		stepped := run(nil, size.Generate())
		for range 2 {
			ahead := run(&size, size.WithoutPods())
			for what, diff := range map[string]string{
				"pods":      cmp.Diff(stepped.Pods, ahead.Pods),
				"summary":   cmp.Diff(stepped.Summary, ahead.Summary),
				"evictions": cmp.Diff(stepped.Evictions, ahead.Evictions),
			} {
				if diff != "" {
					t.Errorf("%+v: %s, step by step (-) and with the loop ahead (+):\n%.2000s", size, what, diff)
				}
			}
		}
	}
}

// TestAheadAllocates measures the memory that a pod of a generated cluster allocates,
// from its creation to its last event.
func TestAheadAllocates(t *testing.T) {
	allocated := func(pods int) (objects, bytes float64) {
		size := simulate.Size{Nodes: 200, Zones: 3, Pods: pods, Apps: pods / 100}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		result, err := simulate.Run(simulate.Config{Scheduler: scheduler(t), Pods: &size}, size.WithoutPods(), nil)
		if err != nil || result.Summary.Placed != pods {
			t.Fatalf("%+v, %v", result, err)
		}
		runtime.ReadMemStats(&after)
		return float64(after.Mallocs - before.Mallocs), float64(after.TotalAlloc - before.TotalAlloc)
	}
	allocated(100) // one-time allocations
	objects, bytes := allocated(2000)
	moreObjects, moreBytes := allocated(4000)
	if each := (moreObjects - objects) / 2000; each > 68 {
		t.Errorf("%.1f objects are allocated for each pod, want at most 68", each)
	}
	if each := (moreBytes - bytes) / 2000; each > 16_000 {
		t.Errorf("%.0f bytes are allocated for each pod, want at most 16,000", each)
	}
}
