package engine_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// TestDetailIsThatOfTheDecision changes random clusters step by step, and requests the
// details of each decision. The best node is the chosen one, with its total. All scores,
// and the numbers of nodes removed by filters, equal the full answer's. A repeated
// decision has the same result.
func TestDetailIsThatOfTheDecision(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	sees := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		seen[what]++
	}
	t.Cleanup(func() { // seeds run in parallel
		for _, what := range []string{"placed", "unschedulable", "none", "ahead"} {
			if *seed == 0 && seen[what] == 0 {
				t.Errorf("%s was not seen: %v", what, seen)
			}
		}
	})
	check := func(t *testing.T, p *enginetest.Pair, step int, pod *model.Pod) {
		v := p.State.View()
		d := p.Engine.Decide(v, plan.Alone(pod))
		before, asked := p.Engine.Counters(), askedOf(p.Engine)
		detail, ok := p.Engine.Detail(v, pod, 3)
		after := p.Engine.Counters()
		before.Detailed, after.Detailed, before.AskedAside, after.AskedAside = 0, 0, 0, 0
		if before != after || !maps.Equal(asked, askedOf(p.Engine)) {
			t.Fatalf("step %d, pod %s: details count as decisions do: %+v, before %+v; %v, before %v", step, pod, after, before, askedOf(p.Engine), asked)
		}
		if again := p.Engine.Decide(v, plan.Alone(pod)); describe(&again) != describe(&d) {
			t.Fatalf("step %d, pod %s: %s, and after asking for details %s", step, pod, describe(&d), describe(&again))
		}
		if !ok {
			if d.Outcome == plan.Placed {
				t.Fatalf("step %d, pod %s: no details of a placement", step, pod)
			}
			sees("none")
			return
		}
		answer, err := p.Engine.Answer(v, pod)
		if err != nil {
			t.Fatal(err)
		}
		if diff := differ(&detail, &d, &answer); diff != "" {
			t.Fatalf("step %d, pod %s: %s", step, pod, diff)
		}
		sees(d.Outcome.String())
		if len(detail.Best) > 1 && detail.Best[0].Total > detail.Best[1].Total {
			sees("ahead")
		}
	}
	random.EverySeed(t, "./internal/decide/engine", *seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n)
		pairs := []*enginetest.Pair{
			newPair(t, r, n, random.Cluster(r, random.Size{Nodes: r.IntN(40), Placed: r.IntN(80), Pending: 6}), random.Profile(r)),
			newPair(t, r, n, random.TopologyCluster(r, random.Size{Nodes: r.IntN(14), Placed: r.IntN(60), Pending: 6}), random.TopologyProfile(r)),
		}
		for i, p := range pairs {
			change := random.Change
			if i == 1 {
				change = random.TopologyChange
			}
			for step := range 20 {
				for _, pod := range enginetest.Pending(p.Cluster) {
					check(t, p, step, p.Compile(pod))
				}
				mutation := change(r, p.Cluster)
				p.Cluster = mutation.After
				p.State.Apply(enginetest.MutationChanges(mutation))
			}
		}
	})
}

func describe(d *plan.Decision) string {
	text := fmt.Sprint(d.Outcome, d.Feasible, d.Nodes, d.Err)
	if p := d.Placement; d.Outcome == plan.Placed {
		text += fmt.Sprint(" ", p.NodeName, p.Total)
	}
	if d.Rejection != nil {
		text += d.Rejection.Text(d.Nodes)
	}
	return text
}

// differ returns the differences of details from a decision and its full answer, or "".
func differ(detail *plan.Detail, d *plan.Decision, answer *plan.Answer) string {
	if d.Outcome == plan.Placed {
		if best := detail.Best[0]; best.Name != d.Placement.NodeName || best.Total != d.Placement.Total || detail.Feasible != d.Feasible {
			return fmt.Sprintf("%s with %d, best of %d, but the decision is %s", best.Name, best.Total, detail.Feasible, describe(d))
		}
	}
	nodes, totals, removed := map[string]plan.NodeAnswer{}, []int64{}, map[string]int{}
	for _, n := range answer.Nodes {
		nodes[n.Name] = n
		if n.Feasible {
			totals = append(totals, n.Total)
		} else {
			removed[n.Rejections[0].Plugin]++
		}
	}
	// no other node was considered
	if nominated := answer.Pod.NominatedNode; nominated != "" && nodes[nominated].Feasible {
		if len(detail.Best) != 1 || detail.Best[0].Name != nominated || len(detail.Removed) > 0 {
			return fmt.Sprintf("%+v of a pod that is nominated to %s", detail, nominated)
		}
		return ""
	}
	slices.SortFunc(totals, func(a, b int64) int { return cmp.Compare(b, a) })
	if len(totals) != detail.Feasible || len(detail.Best) != min(3, len(totals)) {
		return fmt.Sprintf("%d of %d feasible nodes, want %d", len(detail.Best), detail.Feasible, len(totals))
	}
	for i, n := range detail.Best {
		if want := nodes[n.Name]; n.Total != totals[i] || n.Total != want.Total || !slices.Equal(n.Scores, want.Scores) {
			return fmt.Sprintf("node %d is %+v, want a total of %d, and by the full answer %+v", i, n, totals[i], want)
		}
	}
	for i, r := range detail.Removed {
		by := r.Plugins[0]
		// PreFilter plugins, which the answer does not name
		if i == 0 && removed[""] > 0 {
			by = ""
		}
		removed[by] -= r.Nodes
	}
	for by, nodes := range removed {
		if nodes != 0 {
			return fmt.Sprintf("%+v, of which %d nodes too few are removed by %q", detail.Removed, nodes, by)
		}
	}
	return ""
}

// TestDetailOfRankedDecisions places equal pods one after the other by a ranking. The
// details come from a scan, and must have the same node with the same total.
func TestDetailOfRankedDecisions(t *testing.T) {
	b := newBench(t, 300)
	for i := range 200 {
		pod := b.pod(i, shapes["selective"])
		d := b.engine.Decide(b.state.View(), plan.Alone(pod))
		detail, ok := b.engine.Detail(b.state.View(), pod, 3)
		if !ok || detail.Feasible != d.Feasible || detail.Best[0].Name != d.Placement.NodeName || detail.Best[0].Total != d.Placement.Total {
			t.Fatalf("pod %d: %+v, but the decision is %s", i, detail, describe(&d))
		}
		assume(b.state, d)
	}
	if ranked := b.engine.Counters().Ranked; ranked < 100 {
		t.Errorf("%d of 200 decisions were made by a ranking", ranked)
	}
}

// TestDetailCostsTwoScansAtMost counts the visited slots.
func TestDetailCostsTwoScansAtMost(t *testing.T) {
	const nodes = 500
	b := newBench(t, nodes)
	for i := range 20 {
		b.place(t, b.pod(i, shapes["selective"]))
		b.engine.Detail(b.state.View(), b.pod(100+i, shapes["selective"]), 3)
	}
	if visited := b.engine.Counters().Detailed; visited == 0 || visited > 20*2*nodes {
		t.Errorf("20 details visited %d slots of %d nodes, want two scans each at most", visited, nodes)
	}
}

// BenchmarkDetail measures the details of a decision; compare BenchmarkDecision.
func BenchmarkDetail(b *testing.B) {
	for _, nodes := range []int{build.Sized(1000), build.Sized(5000), build.Sized(20000)} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			c := newBench(b, nodes)
			c.place(b, c.pod(0, shapes["plain"]))
			pod := c.pod(1, shapes["plain"])
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := c.engine.Detail(c.state.View(), pod, 3); !ok {
					b.Fatal("no details")
				}
			}
		})
	}
}

// askedOf returns the number of nodes that each plugin was called for.
func askedOf(e *engine.Engine) map[string]int64 {
	all := map[string]int64{}
	e.EachAsked(func(profile, plugin string, phase engine.Phase, asked int64) {
		all[fmt.Sprint(profile, plugin, phase)] = asked
	})
	return all
}
