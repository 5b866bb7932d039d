package sequence

import (
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// TestPreemptScripts checks that every script has single and multiple victims, pods that
// wait for victims and are placed on their nominated nodes, and pods that lose their
// nomination.
func TestPreemptScripts(t *testing.T) {
	for _, s := range PreemptScripts(200) {
		seen := map[string]int{}
		for seed := range uint64(6) {
			p := s.draw(seed)
			scheduler, err := config.Parse("configuration", p.config)
			if err != nil {
				t.Fatal(err)
			}
			c, err := simulate.New(simulate.Config{Scheduler: scheduler, Seed: seed, Faults: p.faults})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.run(c, func(r simulate.Round) error {
				for i := range r.Decisions {
					count(seen, &r.Decisions[i])
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		for _, what := range []string{"one victim", "several victims", "a victim that is going already", "waits for victims", "placed where nominated", "loses its nomination"} {
			if seen[what] == 0 {
				t.Errorf("%s: never seen: %s; seen: %v", s.Name, what, seen)
			}
		}
	}
}

func count(seen map[string]int, d *plan.Decision) {
	switch n := len(d.Evictions); {
	case n > 1:
		seen["several victims"]++
	case n == 1:
		seen["one victim"]++
	}
	for _, e := range d.Evictions {
		if e.Pod.Terminating {
			seen["a victim that is going already"]++
		}
	}
	if strings.Contains(d.PostFilter, "terminating pod on the nominated node") {
		seen["waits for victims"]++
	}
	if d.Outcome == plan.Placed && d.Placement.NodeName == d.Pod.NominatedNode {
		seen["placed where nominated"]++
	}
	for _, n := range d.Nominations {
		if n.Mode == plan.Clear {
			seen["loses its nomination"]++
		}
	}
}
