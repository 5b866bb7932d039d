package engine_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/engine"
	"github.com/berth-scheduler/berth/internal/engine/enginetest"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/oracle/random"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/state"
)

// TestRankDecidesAsTheScan decides, in random clusters with all plugins, about runs of equal pods by a Rank and one by one: the decisions must be the same, those of
// rejected pods too. Some pods stay where they were placed, so that the next run begins elsewhere.
func TestRankDecidesAsTheScan(t *testing.T) {
	var ranked, narrow atomic.Int64
	t.Cleanup(func() { // when all seeds have run
		if *seed == 0 && (ranked.Load() < int64(20**seeds) || narrow.Load() < int64(5**seeds)) {
			t.Errorf("only %d decisions were made without a scan, %d of them where domains are of one node", ranked.Load(), narrow.Load())
		}
	})
	random.EverySeed(t, "./internal/engine", 4**seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n)
		cluster, profile := random.TopologyCluster(r, random.Size{Nodes: 1 + r.IntN(14), Placed: r.IntN(40), Pending: 6}), random.TopologyProfile(r)
		if r.IntN(3) == 0 {
			cluster, profile = random.Cluster(r, random.Size{Nodes: 1 + r.IntN(40), Placed: r.IntN(80), Pending: 6}), random.Profile(r)
		}
		p, scan := newPair(t, r, n, cluster, profile), newPair(t, r, n, cluster, profile)
		wide := r.IntN(2) == 0
		if !wide {
			p.Engine.SetWideDomains(1 + r.Int32N(4))
		}
		for _, pod := range enginetest.Pending(cluster) {
			made := equalPods(t, r, p, scan, pod)
			ranked.Add(made)
			if !wide {
				narrow.Add(made)
			}
		}
		if err := p.Engine.Audit(); err != nil {
			t.Fatal(err)
		}
	})
}

// equalPods decides about a run of pods that are equal but for their names. It returns how many decisions needed no scan.
func equalPods(t *testing.T, r *rand.Rand, p, scan *enginetest.Pair, of *v1.Pod) int64 {
	before := p.Engine.Counters().Ranked
	rank := p.Engine.NewRank()
	only := restriction(r, p.State)
	var kept []plan.Placement
	for i := range 25 {
		object := of.DeepCopy()
		object.Name = fmt.Sprintf("%s-%d", of.Name, i)
		object.UID = types.UID(object.Name)
		work := plan.WorkFor(p.Compile(object))
		work.Group = &model.PodGroup{} // so that nobody is evicted for it alone
		got, want := rank.Decide(p.State.View().Restricted(only), work, 100), scan.Engine.Decide(p.State.View().Restricted(only), work)
		if textOf(&got) != textOf(&want) {
			t.Fatalf("pod %d like %s: by a rank\n%s, by the scan\n%s", i, of.Name, textOf(&got), textOf(&want))
		}
		if got.Outcome == plan.Placed {
			p.State.Assume(got.Placements...)
			kept = append(kept, got.Placements...)
		}
	}
	if r.IntN(2) == 0 {
		p.State.Unassume(kept...)
	}
	return p.Engine.Counters().Ranked - before
}

// restriction is to some of the nodes, or to none of them, which is nil.
func restriction(r *rand.Rand, s *state.State) *state.Restriction {
	if r.IntN(3) > 0 {
		return nil
	}
	var slots []int32
	for slot, alive := range s.Alive() {
		if alive && r.IntN(3) > 0 {
			slots = append(slots, int32(slot))
		}
	}
	return state.RestrictTo(slots)
}

// textOf is everything of a decision.
func textOf(d *plan.Decision) string {
	text := fmt.Sprintf("%s, %d of %d nodes, error %v, nominations %+v", d.Outcome, d.Feasible, d.Nodes, d.Err, d.Nominations)
	if d.Rejection != nil {
		text += fmt.Sprintf(", rejection %+v", *d.Rejection)
	}
	for _, p := range d.Placements {
		text += fmt.Sprintf(", on %s with %d, %d of %d, %d holds, %d steps", p.NodeName, p.Total, p.Feasible, p.Nodes, len(p.Holds), len(p.Steps))
	}
	return text
}

// The relations between equal pods for which a Rank is measured.
var relations = map[string]func(*v1.Pod){
	"plain":     func(*v1.Pod) {},
	"selective": shapes["selective"],
	"hard spread over zones": func(p *v1.Pod) {
		p.Spec.TopologySpreadConstraints = spreadOver(v1.LabelTopologyZone, v1.DoNotSchedule)
	},
	"soft spread over zones and hosts": func(p *v1.Pod) {
		p.Spec.TopologySpreadConstraints = append(spreadOver(v1.LabelTopologyZone, v1.ScheduleAnyway), spreadOver(v1.LabelHostname, v1.ScheduleAnyway)...)
	},
	"anti-affinity on hosts": func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "equal"}},
		}}}}
	},
}

func spreadOver(key string, action v1.UnsatisfiableConstraintAction) []v1.TopologySpreadConstraint {
	return []v1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: action, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "equal"}},
	}}
}

// TestRankVisitsNodesOnce places equal pods: nodes are visited a few times at most, and then one for each pod that is placed.
func TestRankVisitsNodesOnce(t *testing.T) {
	const nodes, pods = 2000, 200
	for name, relate := range relations {
		b := newBench(t, nodes)
		rank := b.engine.NewRank()
		for i := range pods {
			pod := b.pod(i, func(p *v1.Pod) {
				p.Labels = map[string]string{"app": "equal"}
				relate(p)
			})
			d := rank.Decide(b.state.View(), plan.WorkFor(pod), pods-i-1)
			if d.Outcome != plan.Placed {
				t.Fatalf("%s: pod %d: %+v", name, i, d)
			}
			b.state.Assume(d.Placements...)
		}
		work := b.engine.Counters()
		if most := int64(2*nodes + 2*pods); work.Visited > most || work.Ranked < pods-2 {
			t.Errorf("%s: %d pods: %d decisions without a scan, %d nodes visited, want at most %d", name, pods, work.Ranked, work.Visited, most)
		}
		if most := int64(pods*26 + 12*nodes); work.Asked > most {
			t.Errorf("%s: plugins were asked about %d nodes, want at most %d", name, work.Asked, most)
		}
	}
}

// TestRankStaysInItsRestriction has nodes outside of the restriction change while the classes of those inside are used.
func TestRankStaysInItsRestriction(t *testing.T) {
	const nodes, inside, pods = 100, 10, 40
	b := newBench(t, nodes)
	var slots []int32
	for slot := range int32(inside) {
		slots = append(slots, slot)
	}
	only, rank := state.RestrictTo(slots), b.engine.NewRank()
	equal := func(p *v1.Pod) { p.Labels = map[string]string{"app": "equal"} }
	for i := range pods {
		work := plan.WorkFor(b.pod(i, equal))
		v := b.state.View().Restricted(only)
		d, scanned := rank.Decide(v, work, pods-i-1), b.engine.Decide(v, work)
		if d.Outcome != plan.Placed || d.Placements[0].NodeName != scanned.Placements[0].NodeName || d.Feasible != scanned.Feasible {
			t.Fatalf("pod %d: %+v, by a scan %+v", i, d, scanned)
		}
		b.state.Assume(d.Placements...)
		other := b.engine.Decide(b.state.View().Restricted(state.RestrictTo([]int32{inside + int32(i)})), plan.WorkFor(b.pod(pods+i, equal)))
		b.state.Assume(other.Placements...)
	}
	if ranked := b.engine.Counters().Ranked; ranked < pods/2 {
		t.Errorf("%d decisions without a scan, want at least %d", ranked, pods/2)
	}
}

// TestRankOfFewPodsScans decides about pods of which few follow, or which are not equal: classes would not be worth their cost.
func TestRankOfFewPodsScans(t *testing.T) {
	const nodes = 100
	b := newBench(t, nodes)
	rank := b.engine.NewRank()
	decide := func(i, following int, shape func(*v1.Pod)) int64 {
		before := b.engine.Counters().Ranked
		d := rank.Decide(b.state.View(), plan.WorkFor(b.pod(i, shape)), following)
		b.state.Assume(d.Placements...)
		return b.engine.Counters().Ranked - before
	}
	if n := decide(0, 11, shapes["plain"]); n != 0 {
		t.Error("11 pods follow: classes were made")
	}
	if n := decide(1, 12, shapes["plain"]); n != 1 {
		t.Error("12 pods follow: no classes were made")
	}
	if n := decide(2, 0, shapes["plain"]); n != 1 {
		t.Error("the last of some equal pods was scanned for")
	}
	if n := decide(3, 0, shapes["selective"]); n != 0 {
		t.Error("classes were used for another pod")
	}
	for i := range 20 { // each has a need of its own, and says that many follow
		decide(4+i, 100, pinnedTo(fmt.Sprintf("node-%05d", i), "node-00099"))
	}
	before := b.engine.Counters()
	for i := range 10 {
		decide(24+2*i, 100, shapes["plain"])
		decide(25+2*i, 100, shapes["selective"])
	}
	if n := b.engine.Counters().Ranked - before.Ranked; n > 4 {
		t.Errorf("classes of little use were made %d times", n)
	}
}

// TestEqualPods compares pods.
func TestEqualPods(t *testing.T) {
	b := newBench(t, 1)
	base := func() *model.Pod { return b.pod(1, shapes["plain"]) }
	if !engine.Equal(base(), b.pod(2, shapes["plain"])) {
		t.Error("pods of other names differ")
	}
	for name, change := range map[string]func(*model.Pod){
		"scheduler name": func(p *model.Pod) { p.SchedulerName = "other" },
		"priority":       func(p *model.Pod) { p.Priority = 1 },
		"nomination":     func(p *model.Pod) { p.NominatedNode = "node-00000" },
		"needs":          func(p *model.Pod) { p.Needs = b.pod(1, shapes["selective"]).Needs },
	} {
		other := base()
		change(other)
		if engine.Equal(base(), other) || engine.Equal(other, base()) {
			t.Errorf("pods of another %s are equal", name)
		}
	}
}
