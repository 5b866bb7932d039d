package simulate

import (
	"iter"
	"testing"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// TestAheadKeepsLittle schedules a generated cluster. Few pods wait at a time, placed
// pods leave no verdicts, and the invariants hold between batches.
func TestAheadKeepsLittle(t *testing.T) {
	build.NotRaced(t)
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	size := Size{Nodes: 150, Zones: 3, Pods: 4000, Running: 500, Apps: 40}
	c, err := New(Config{Scheduler: scheduler, Pods: &size, EventTTL: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range size.WithoutPods().Nodes {
		c.SetNode(node)
	}
	next, stop := iter.Pull(size.pods())
	defer stop()
	c.more = func() bool {
		pod, ok := next()
		if !ok {
			c.more = nil
			return false
		}
		c.SetPod(pod)
		return true
	}
	rounds, most := 0, 0
	err = c.untilQuiet(func(r Round) error {
		rounds++
		most = max(most, c.loop.Queue().Counts().Active+len(r.Decisions)+c.ingest.Waiting()+len(c.agenda.line)-c.agenda.head)
		if rounds%8 > 0 {
			return nil
		}
		return c.Audit()
	})
	if err != nil {
		t.Fatal(err)
	}
	if rounds < 10 || most > 8*aheadMost {
		t.Errorf("in %d rounds up to %d pods, changes and effects waited at a time, want at most %d", rounds, most, 8*aheadMost)
	}
	if len(c.verdicts) > 0 || len(c.placed) != size.Pods || c.loop.State().Pods() != size.Pods+size.Running {
		t.Errorf("%d verdicts, %d of pods that got nodes, %d pods on nodes", len(c.verdicts), len(c.placed), c.loop.State().Pods())
	}
	if n := cap(c.agenda.line) + cap(c.agenda.heap); n > 16*aheadMost {
		t.Errorf("the agenda keeps memory for %d effects", n)
	}
}
