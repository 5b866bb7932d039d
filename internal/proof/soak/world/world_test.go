package world_test

import (
	"testing"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/soak/world"
)

// TestDaysHaveEverything runs four days of a small world. Each kind of event happens,
// pods wait, and most are placed.
func TestDaysHaveEverything(t *testing.T) {
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	w, err := world.New(world.Config{Nodes: 40, Simulation: simulate.Config{Scheduler: scheduler, Seed: 7}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(4 * world.Day); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{
		"rollout", "old version forgotten", "scaled", "tenant left", "DaemonSet rolled out", "job finished", "pod removed that had no node",
		"gate opened", "node replaced", "node relabelled", "node cordoned or tainted", "images reported",
	} {
		if w.Happened()[what] == 0 {
			t.Errorf("%q never happened in %v", what, w.Happened())
		}
	}
	loop := w.Cluster().Loop()
	if waiting := loop.Queue().Counts(); waiting.Parked == 0 || waiting.Parked > 40 {
		t.Errorf("%d pods are parked; want some", waiting.Parked)
	}
	if nodes, pods := loop.State().Nodes(), loop.State().Pods(); nodes != 40 || pods < 150 {
		t.Errorf("%d pods on %d nodes", pods, nodes)
	}
}

func TestSmallestWorld(t *testing.T) {
	if _, err := world.New(world.Config{Nodes: 19}); err == nil {
		t.Error("a world of 19 nodes was built")
	}
}
