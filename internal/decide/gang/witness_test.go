package gang

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// witness keeps the details of each decision.
type witness struct {
	noted
	details []plan.Detail
	among   []int
}

func (w *witness) Decided(run *engine.Run, v state.View, d *plan.Decision, among int) uint64 {
	detail, ok := run.Detail(v, d.Pod, 3)
	if !ok {
		return 0
	}
	w.details, w.among = append(w.details, detail), append(w.among, among)
	return uint64(len(w.details))
}

// outcomeOf writes the result for each member.
func outcomeOf(d *plan.Attempt) string {
	text := fmt.Sprint(d.Outcome, " ", d.Message)
	for i := range d.Members {
		m := &d.Members[i]
		text += fmt.Sprint("; ", m.Pod, " ", m.Outcome, " ", report.Message(m))
		if p := m.Placement; m.Outcome == plan.Placed {
			text += fmt.Sprint(" ", p.NodeName, " ", p.Total)
		}
	}
	return text
}

// TestDetailsOfARun decides in runs that choose different nodes among equally good ones.
// The details have the chosen node first.
func TestDetailsOfARun(t *testing.T) {
	p := profileWith(t, 1, 1)
	c := racksOf(1, 6, 1, "")
	s, e, work := c.state(anyNode), newEngine(t, p), c.work(p)
	taken := map[string]bool{}
	for tie := range uint64(20) {
		run := e.NewRun()
		run.Tie = tie
		d := run.Decide(s.View(), plan.Alone(work.Pods[0].Pod), 0)
		detail, ok := run.Detail(s.View(), work.Pods[0].Pod, 2)
		if !ok || detail.Best[0].Name != d.Placement.NodeName {
			t.Errorf("tie %d: on %s, the details %+v", tie, d.Placement.NodeName, detail.Best)
		}
		taken[d.Placement.NodeName] = true
	}
	if len(taken) < 3 {
		t.Errorf("the ties have chosen %v", taken)
	}
}

// TestDetailsOfMembers has a witness keep the details of each decision about a member. It
// covers random clusters with racks, gangs that further passes place, and trees.
//
// The final decision about a member names the details of that decision. Every placed
// member has details. A member that its group takes off its node has none. The witness
// changes no decision.
func TestDetailsOfMembers(t *testing.T) {
	seen := map[string]int{}
	check := func(name string, s *state.State, e, plain *engine.Engine, work, again turn) {
		t.Helper()
		before := decided(s, plain, work, nil)
		takeOff(s, &before)
		w := &witness{}
		d := decided(s, e, again, w)
		if with, without := outcomeOf(&d), outcomeOf(&before); with != without {
			t.Fatalf("%s: with a witness\n%s\nwithout\n%s", name, with, without)
		}
		for i := range d.Members {
			m := &d.Members[i]
			switch {
			case m.Details == 0 && m.Outcome == plan.Placed:
				t.Fatalf("%s: member %s is placed and has no details", name, m.Pod)
			case m.Details == 0:
				seen["none"]++
				continue
			}
			detail := &w.details[m.Details-1]
			if detail.Feasible != m.Feasible {
				t.Fatalf("%s: member %s: %d nodes would do; its details say %d", name, m.Pod, m.Feasible, detail.Feasible)
			}
			if m.Outcome != plan.Placed {
				if m.Rejection == nil || m.Rejection.Group != "" {
					t.Fatalf("%s: member %s has details, and was %s for its group", name, m.Pod, m.Outcome)
				}
				seen["rejected"]++
				continue
			}
			seen["placed"]++
			if best := detail.Best[0]; best.Name != m.Placement.NodeName || best.Total != m.Placement.Total && detail.Feasible > 1 {
				t.Fatalf("%s: member %s is on %s with %d; its details say %s with %d", name, m.Pod, m.Placement.NodeName, m.Placement.Total, best.Name, best.Total)
			}
			if w.among[m.Details-1] > 1 {
				seen["among others"]++
			}
		}
		if uint64(len(w.details)) > uint64(len(d.Members)) && d.Outcome == plan.Placed {
			seen["several passes"]++
		}
		takeOff(s, &d)
	}
	p := profileWith(t, 1, 1)
	for i := range build.Sized(300) {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		c := random(r)
		check(fmt.Sprint("cluster ", i), c.state(anyNode), newEngine(t, p), newEngine(t, p), c.work(p), c.work(p))
		f := randomForest(r)
		check(fmt.Sprint("forest ", i), f.state(anyNode), newEngine(t, p), newEngine(t, p), f.work(p), f.work(p))
	}
	// enough equal members for a ranking of the nodes
	for _, key := range []string{"", "rack"} {
		c := racksOf(2, 30, 25, key)
		for i, n := range c.nodes {
			n.Status.Allocatable["cpu"] = resource.MustParse(fmt.Sprint(6 + i%5))
		}
		check("racks by "+key, c.state(anyNode), newEngine(t, p), newEngine(t, p), c.work(p), c.work(p))
	}
	p.Placements = nil
	for shape := range gangShapes {
		r := rand.New(rand.NewPCG(1, uint64(shape)))
		for n := range build.Sized(60) {
			c := drawGang(shape, r)
			var engines [2]*engine.Engine
			for i := range engines {
				var err error
				if engines[i], err = engine.New(engine.Config{Profiles: []*plugin.Profile{p}, Seed: seed, GroupRetries: engine.DefaultGroupRetries}); err != nil {
					t.Fatal(err)
				}
			}
			check(fmt.Sprint(gangShapes[shape].name, " ", n), c.state(anyNode), engines[0], engines[1], c.work(p), c.work(p))
		}
	}
	for _, what := range []string{"placed", "rejected", "none", "among others", "several passes"} {
		if seen[what] < 5 {
			t.Errorf("%s: %d times: the test says little about it", what, seen[what])
		}
	}
}
