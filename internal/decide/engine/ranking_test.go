package engine_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// TestRunsDecideAsTheScan decides, in random clusters with all plugins, about series of
// equal pods by a Run and one by one. The decisions must be the same, including
// rejections. Some pods stay placed, so that the next series starts elsewhere.
func TestRunsDecideAsTheScan(t *testing.T) {
	var ranked atomic.Int64
	t.Cleanup(func() { // when all seeds have run
		if *seed == 0 && ranked.Load() < int64(20**seeds) {
			t.Errorf("only %d decisions were made without a scan", ranked.Load())
		}
	})
	random.EverySeed(t, "./internal/decide/engine", 4**seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n)
		cluster, profile := random.TopologyCluster(r, random.Size{Nodes: 1 + r.IntN(14), Placed: r.IntN(40), Pending: 6}), random.TopologyProfile(r)
		if r.IntN(3) == 0 {
			cluster, profile = random.Cluster(r, random.Size{Nodes: 1 + r.IntN(40), Placed: r.IntN(80), Pending: 6}), random.Profile(r)
		}
		p, scan := newPair(t, r, n, cluster, profile), newPair(t, r, n, cluster, profile)
		scan.Engine.ScanOnly()
		if r.IntN(4) == 0 {
			p.Engine.SetMostGroups(1 + r.Int32N(9))
		}
		for _, pod := range enginetest.Pending(cluster) {
			ranked.Add(equalPods(t, r, p, scan, pod))
		}
		if err := p.Engine.Audit(); err != nil {
			t.Fatal(err)
		}
	})
}

// equalPods decides about a series of pods that are equal except for their names. It
// returns the number of decisions without a scan.
func equalPods(t *testing.T, r *rand.Rand, p, scan *enginetest.Pair, of *v1.Pod) int64 {
	before := p.Engine.Counters().Ranked
	run := p.Engine.NewRun()
	only := restriction(r, p.State)
	var kept []plan.Placement
	for i := range 25 {
		object := of.DeepCopy()
		object.Name = fmt.Sprintf("%s-%d", of.Name, i)
		object.UID = types.UID(object.Name)
		work := plan.Alone(p.Compile(object))
		work.Group = &model.PodGroup{} // prevents preemption for the single pod
		got, want := run.Decide(p.State.View().Restricted(only), work, 100), scan.Engine.Decide(p.State.View().Restricted(only), work)
		if textOf(&got) != textOf(&want) {
			t.Fatalf("pod %d like %s: in a run\n%s, by the scan\n%s", i, of.Name, textOf(&got), textOf(&want))
		}
		if got.Outcome == plan.Placed {
			assume(p.State, got)
			kept = append(kept, got.Placement)
		}
	}
	if r.IntN(2) == 0 {
		p.State.Unassume(kept...)
	}
	return p.Engine.Counters().Ranked - before
}

// restriction returns a restriction to some of the nodes, or nil.
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

// textOf writes all fields of a decision.
func textOf(d *plan.Decision) string {
	text := fmt.Sprintf("%s, %d of %d nodes, error %v, nominations %+v", d.Outcome, d.Feasible, d.Nodes, d.Err, d.Nominations)
	if d.Rejection != nil {
		text += fmt.Sprintf(", rejection %+v", *d.Rejection)
	}
	if p := d.Placement; d.Outcome == plan.Placed {
		text += fmt.Sprintf(", on %s with %d, %d of %d, %d holds, %d steps", p.NodeName, p.Total, p.Feasible, p.Nodes, len(p.Holds), len(p.Steps))
	}
	return text
}

// The relations between equal pods for which rankings are measured.
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

// TestRankingsAreTheScan changes random clusters with all plugins step by step. In
// between it decides in turns about several kinds of equal pods, some of which stay
// placed. Rankings, which follow all changes, and an engine without rankings must make
// the same decisions.
func TestRankingsAreTheScan(t *testing.T) {
	var ranked, all atomic.Int64
	t.Cleanup(func() {
		if *seed == 0 && ranked.Load()*10 < all.Load() {
			t.Errorf("only %d of %d decisions were made without a scan", ranked.Load(), all.Load())
		}
	})
	random.EverySeed(t, "./internal/decide/engine", 3**seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n)
		cluster, profile, change := random.TopologyCluster(r, random.Size{Nodes: 1 + r.IntN(30), Placed: r.IntN(40), Pending: 3}), random.TopologyProfile(r), random.TopologyChange
		if r.IntN(3) == 0 {
			cluster, profile, change = random.Cluster(r, random.Size{Nodes: 1 + r.IntN(60), Placed: r.IntN(80), Pending: 3}), random.Profile(r), random.Change
		}
		if r.IntN(2) == 0 {
			for _, node := range cluster.Nodes { // in the others some share a host name
				if node.Labels = maps.Clone(node.Labels); node.Labels == nil {
					node.Labels = map[string]string{}
				}
				node.Labels[v1.LabelHostname] = node.Name
			}
		}
		p, scan := newPair(t, r, n, cluster, profile), newPair(t, r, n, cluster, profile)
		scan.Engine.ScanOnly()
		templates := likeOthers(r, enginetest.Pending(cluster))
		for step := range 150 {
			if len(templates) == 0 {
				break
			}
			object := templates[r.IntN(len(templates))].DeepCopy()
			object.Name = fmt.Sprintf("%s-%d", object.Name, step)
			object.UID = types.UID(object.Name)
			work := plan.Alone(p.Compile(object))
			work.Group = &model.PodGroup{} // prevents preemption
			got, want := p.Engine.Decide(p.State.View(), work), scan.Engine.Decide(p.State.View(), work)
			if textOf(&got) != textOf(&want) {
				t.Fatalf("step %d, pod %s: by a ranking\n%s, by the scan\n%s", step, object.Name, textOf(&got), textOf(&want))
			}
			if got.Outcome == plan.Placed && r.IntN(2) == 0 {
				assume(p.State, got)
			}
			if r.IntN(3) == 0 {
				mutation := change(r, p.Cluster)
				p.Cluster = mutation.After
				p.State.Apply(enginetest.MutationChanges(mutation))
			}
		}
		if err := p.Engine.Audit(); err != nil {
			t.Fatal(err)
		}
		ranked.Add(p.Engine.Counters().Ranked)
		all.Add(p.Engine.Counters().Decisions)
	})
}

// likeOthers returns the pods, and copies of them with labels, terms or the namespace of
// another.
func likeOthers(r *rand.Rand, pods []*v1.Pod) []*v1.Pod {
	all := slices.Clone(pods)
	for range 2 * len(pods) {
		of, other := pods[r.IntN(len(pods))].DeepCopy(), pods[r.IntN(len(pods))]
		of.Name += fmt.Sprint("-like-", len(all))
		switch r.IntN(4) {
		case 0:
			of.Labels = other.Labels
		case 1:
			of.Spec.Affinity = other.Spec.Affinity
		case 2:
			of.Spec.TopologySpreadConstraints = other.Spec.TopologySpreadConstraints
		default:
			of.Namespace = other.Namespace
		}
		all = append(all, of)
	}
	return all
}

// TestRankingCostsWhatChanged places equal pods, with and without a run, in clusters of
// two sizes. Nodes are visited a few times at first, and then one for each placed pod.
// The number of visited groups does not depend on the number of nodes.
func TestRankingCostsWhatChanged(t *testing.T) {
	build.NotRaced(t)
	const pods = 200
	for name, relate := range relations {
		var grouped [2]int64
		for size, nodes := range []int{1000, 4000} {
			for _, runs := range []bool{true, false} {
				b := newBench(t, nodes)
				run := b.engine.NewRun()
				for i := range pods {
					pod := b.pod(i, func(p *v1.Pod) {
						p.Labels = map[string]string{"app": "equal"}
						relate(p)
					})
					following := 0
					if runs {
						following = pods - i - 1
					}
					d := run.Decide(b.state.View(), plan.Alone(pod), following)
					if d.Outcome != plan.Placed {
						t.Fatalf("%s: pod %d: %+v", name, i, d)
					}
					assume(b.state, d)
				}
				work, scans := b.engine.Counters(), int64(2)
				if !runs {
					// a pod on a node adds an axis, so scans must pay for a table again
					scans = 20
				}
				if most := scans*int64(nodes) + 2*pods; work.Visited > most || work.Ranked < pods-scans {
					t.Errorf("%s, %d nodes, in a run: %t: %d decisions without a scan of %d, %d nodes visited, want at most %d", name, nodes, runs, work.Ranked, pods, work.Visited, most)
				}
				if most := int64(pods*26 + 12*nodes); work.Asked > most {
					t.Errorf("%s: plugins were asked about %d nodes, want at most %d", name, work.Asked, most)
				}
				grouped[size] = work.Grouped
			}
		}
		if grouped[1] > 2*grouped[0] || grouped[1] > 40*pods {
			t.Errorf("%s: %d groups were looked at with 1,000 nodes, %d with 4,000", name, grouped[0], grouped[1])
		}
	}
}

// TestRunStaysInItsRestriction changes nodes outside the restriction while those inside
// are ranked.
func TestRunStaysInItsRestriction(t *testing.T) {
	const nodes, inside, pods = 100, 10, 40
	b := newBench(t, nodes)
	var slots []int32
	for slot := range int32(inside) {
		slots = append(slots, slot)
	}
	only, run := state.RestrictTo(slots), b.engine.NewRun()
	equal := func(p *v1.Pod) { p.Labels = map[string]string{"app": "equal"} }
	for i := range pods {
		work := plan.Alone(b.pod(i, equal))
		v := b.state.View().Restricted(only)
		d, scanned := run.Decide(v, work, pods-i-1), b.engine.Decide(v, work)
		if d.Outcome != plan.Placed || d.Placement.NodeName != scanned.Placement.NodeName || d.Feasible != scanned.Feasible {
			t.Fatalf("pod %d: %+v, by a scan %+v", i, d, scanned)
		}
		assume(b.state, d)
		other := b.engine.Decide(b.state.View().Restricted(state.RestrictTo([]int32{inside + int32(i)})), plan.Alone(b.pod(pods+i, equal)))
		assume(b.state, other)
	}
	if ranked := b.engine.Counters().Ranked; ranked < pods/2 {
		t.Errorf("%d decisions without a scan, want at least %d", ranked, pods/2)
	}
	keys := b.engine.RankingKeys()
	if tables, _ := b.engine.Rankings(); keys+tables > 0 {
		t.Errorf("%d rankings outlive the run, %d with a table; those of a restriction must not", keys, tables)
	}
}

// TestTablesMustPay decides about pods of which few are equal. A table is built when
// scans have cost as much as building it, or when enough pods follow. After tables of
// little use it is built later and later.
func TestTablesMustPay(t *testing.T) {
	build.NotRaced(t)
	const nodes = 100
	b := newBench(t, nodes)
	run := b.engine.NewRun()
	next := 0
	decide := func(following int, shape func(*v1.Pod)) int64 {
		before := b.engine.Counters().Ranked
		d := run.Decide(b.state.View(), plan.Alone(b.pod(next, shape)), following)
		assume(b.state, d)
		next++
		return b.engine.Counters().Ranked - before
	}
	if n := decide(15, shapes["plain"]); n != 0 {
		t.Error("15 pods follow: nodes were ranked")
	}
	if n := decide(16, shapes["plain"]); n != 1 {
		t.Error("16 pods follow: nodes were not ranked")
	}
	if n := decide(0, shapes["plain"]); n != 1 {
		t.Error("the last of some equal pods was scanned for")
	}
	for i := range 10 {
		if n := decide(0, shapes["selective"]); n != int64(i/8) {
			t.Errorf("of other pods that are not said to be followed, the one at %d: ranked %d", i, n)
		}
	}
	for i := range 20 { // each has a need of its own, and announces many followers
		if n := decide(100, pinnedTo(fmt.Sprintf("node-%05d", i), "node-00099")); n != 0 {
			t.Error("nodes were ranked for a pod that names two")
		}
	}
	before := b.engine.Counters()
	const rounds = 300
	for range rounds { // too many changes in between to follow a table
		decide(0, shapes["plain"])
		for range 80 {
			b.changeOneNode(b.pod(1_000_000, shapes["plain"]))
		}
	}
	made := b.engine.Counters()
	if ranked := made.Ranked - before.Ranked; ranked > 8 {
		t.Errorf("tables were made %d times for %d pods, to be used once", ranked, rounds)
	}
}

// TestAppsThatAreAlike decides in turns about pods of two applications that differ in
// labels alone. If axes count pods on each node, each application has its own table;
// otherwise they share one. The decisions equal the scan's.
func TestAppsThatAreAlike(t *testing.T) {
	for name, tables := range map[string]int{"plain": 1, "hard spread over zones": 1, "soft spread over zones and hosts": 2, "anti-affinity on hosts": 2} {
		b := newBench(t, 300)
		scan, err := engine.New(engine.Config{Profiles: []*plugin.Profile{b.profile}, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		scan.ScanOnly()
		for i := range 80 {
			app := fmt.Sprint("app-", i%2)
			work := plan.Alone(b.pod(i, func(p *v1.Pod) {
				relations[name](p)
				p.Labels = map[string]string{"app": app}
				for j := range p.Spec.TopologySpreadConstraints {
					p.Spec.TopologySpreadConstraints[j].LabelSelector = &metav1.LabelSelector{MatchLabels: p.Labels}
				}
				if p.Spec.Affinity != nil {
					p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector = &metav1.LabelSelector{MatchLabels: p.Labels}
				}
			}))
			got, want := b.engine.Decide(b.state.View(), work), scan.Decide(b.state.View(), work)
			if textOf(&got) != textOf(&want) {
				t.Fatalf("%s, pod %d: by a ranking\n%s, by the scan\n%s", name, i, textOf(&got), textOf(&want))
			}
			assume(b.state, got)
		}
		if got, _ := b.engine.Rankings(); got != tables || b.engine.Counters().Ranked < 50 {
			t.Errorf("%s: %d tables for two applications, want %d; %d decisions by them", name, got, tables, b.engine.Counters().Ranked)
		}
	}
}

// TestRankingsAreOfThePodsThatAreRepelled has pods on nodes repel pods of one
// application, of another, or of one namespace. Pods that differ in labels or namespace
// alone must not be judged by the same counts, in whatever order they come.
func TestRankingsAreOfThePodsThatAreRepelled(t *testing.T) {
	b := newBench(t, 40)
	scan, err := engine.New(engine.Config{Profiles: []*plugin.Profile{b.profile}, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	scan.ScanOnly()
	for i := range 20 {
		app := fmt.Sprint("app=app-", i%2)
		p := build.Pod(build.Named(fmt.Sprint("repelling-", i)), build.InNamespace("bench"), build.NodeName(benchNode(2*i).Name), build.RequiredAntiAffinity(build.Term(v1.LabelHostname, app)))
		b.state.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(p)}})
	}
	for i := range 120 {
		work := plan.Alone(b.pod(i, func(p *v1.Pod) {
			p.Labels = map[string]string{"app": fmt.Sprint("app-", i/3%2)}
			if i%5 == 0 {
				p.Namespace = "other"
			}
		}))
		got, want := b.engine.Decide(b.state.View(), work), scan.Decide(b.state.View(), work)
		if textOf(&got) != textOf(&want) {
			t.Fatalf("pod %d: by a ranking\n%s, by the scan\n%s", i, textOf(&got), textOf(&want))
		}
		assume(b.state, got)
	}
	if ranked := b.engine.Counters().Ranked; ranked < 60 {
		t.Errorf("%d of 120 decisions were made without a scan", ranked)
	}
}

// TestConstraintsOnOneKey spreads pods over zones by two selectors. The zones form a
// single axis, and tables decide.
func TestConstraintsOnOneKey(t *testing.T) {
	b := newBench(t, 60)
	for i := range 20 {
		p := benchPreemptor(fmt.Sprint("pod-", i), 9, 200)
		p.Labels = map[string]string{"app": "a"}
		for _, app := range []string{"a", "b"} {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, build.Constraint(v1.DoNotSchedule, v1.LabelTopologyZone))
			p.Spec.TopologySpreadConstraints[len(p.Spec.TopologySpreadConstraints)-1].LabelSelector = build.Selector("app=" + app)
		}
		d := b.engine.Decide(b.state.View(), plan.Alone(b.compiled(p)))
		assume(b.state, d)
	}
	if ranked := b.engine.Counters().Ranked; ranked < 10 {
		t.Errorf("%d of 20 decisions by tables", ranked)
	}
}

// TestOneNominatedPodWithAPort has recurring pods with a host port. Tables decide about
// them while no pod is nominated. With a nominated pod, filters read more than its
// resource usage.
func TestOneNominatedPodWithAPort(t *testing.T) {
	b := newBench(t, 60)
	for i, isNominated := range []bool{false, true} {
		if isNominated {
			b.nominate(3, 9, 1000)
		}
		before := b.engine.Counters().Ranked
		for j := range 20 {
			p := benchPreemptor(fmt.Sprint("pod-", i, "-", j), 9, 200)
			withHostPort(p)
			d := b.engine.Decide(b.state.View(), plan.Alone(b.compiled(p)))
			assume(b.state, d)
		}
		if ranked := b.engine.Counters().Ranked - before; (ranked == 0) != isNominated {
			t.Errorf("a pod is nominated: %t, %d decisions by tables", isNominated, ranked)
		}
	}
}

// TestRankingsLeaveRoom decides in turns about pods that are equal except for their
// priority. Pods are nominated to nodes, come to others, and lose their nominations. The
// priority decides which nodes must be left. Half of the pods have host ports, and need
// scans.
func TestRankingsLeaveRoom(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	b := newBench(t, 60)
	scan, err := engine.New(engine.Config{Profiles: []*plugin.Profile{b.profile}, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	scan.ScanOnly()
	var nominated []*model.Pod
	for i := range 400 {
		if r.IntN(3) == 0 {
			nominated = append(nominated, b.nominate(r.IntN(60), 9+r.Int32N(3), []int64{1000, 31_900}[r.IntN(2)]))
		}
		if len(nominated) > 0 && r.IntN(4) == 0 {
			at := r.IntN(len(nominated))
			b.state.Apply([]model.Change{{Kind: model.PodGone, Key: nominated[at].Key()}})
			nominated = slices.Delete(nominated, at, at+1)
		}
		p := benchPreemptor(fmt.Sprint("pod-", i), 9+r.Int32N(3), 200)
		if r.IntN(2) == 0 {
			withHostPort(p)
		}
		work := plan.Alone(b.compiled(p))
		got, want := b.engine.Decide(b.state.View(), work), scan.Decide(b.state.View(), work)
		if textOf(&got) != textOf(&want) {
			t.Fatalf("pod %d: by a ranking\n%s, by the scan\n%s", i, textOf(&got), textOf(&want))
		}
		if r.IntN(2) == 0 {
			assume(b.state, got)
		}
	}
	if ranked := b.engine.Counters().Ranked; ranked < 100 || ranked > 220 {
		t.Errorf("%d of 400 decisions were made without a scan; half of the pods read ports of nominated pods", ranked)
	}
}

// TestRankingsSeeTheSecondChange changes a node twice between two decisions, first in an
// aspect that no plugin reads. The second change counts.
func TestRankingsSeeTheSecondChange(t *testing.T) {
	b := newBench(t, 30)
	on := func(name, node, cpu, app string) *model.Pod {
		p := build.Pod(build.Named(name), build.NodeName(node), build.Container("cpu="+cpu), build.Labels("app="+app))
		return model.NewPod(p)
	}
	set := func(p *model.Pod) { b.state.Apply([]model.Change{{Kind: model.PodSet, Pod: p}}) }
	for i := range 30 {
		set(on(fmt.Sprint("small-", i), benchNode(i).Name, "1", "a"))
	}
	work := plan.Alone(b.pod(0, func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}} }))
	b.settle(work)
	for i := range 30 {
		node := benchNode(i).Name
		set(on(fmt.Sprint("small-", i), node, "1", "b"))
		set(on(fmt.Sprint("large-", i), node, "31", "a"))
		if d := b.engine.Decide(b.state.View(), work); d.Feasible != 29-i {
			t.Fatalf("%d nodes are full; %d are feasible, want %d", i+1, d.Feasible, 29-i)
		}
	}
}

// TestRankingsFollowSharedDevices gives pods devices of pools that twenty nodes share,
// until none is left. The last device fills all these nodes, and the journal lists only
// one of them.
func TestRankingsFollowSharedDevices(t *testing.T) {
	const nodes, share, devices = 40, 20, 2 * 40
	b := newWideBench(t, nodes, share)
	scan, err := engine.New(engine.Config{Profiles: []*plugin.Profile{b.profile}, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	scan.ScanOnly()
	for i := range devices + 5 {
		b.claim(i)
		work := plan.Alone(b.podOf(i))
		got, want := b.engine.Decide(b.state.View(), work), scan.Decide(b.state.View(), work)
		if textOf(&got) != textOf(&want) {
			t.Fatalf("pod %d: by a ranking\n%s, by the scan\n%s", i, textOf(&got), textOf(&want))
		}
		if placed := got.Outcome == plan.Placed; placed != (i < devices) {
			t.Fatalf("pod %d of %d devices: %s", i, devices, got.Outcome)
		}
		assume(b.state, got)
	}
}

// TestRankingsAreBounded decides about pods of very many kinds, several times each.
func TestRankingsAreBounded(t *testing.T) {
	build.NotRaced(t)
	b := newBench(t, 50)
	kind := func(i int) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = *resource.NewMilliQuantity(int64(1+i), resource.DecimalSI)
		}
	}
	for i := range 3000 {
		b.engine.Decide(b.state.View(), plan.Alone(b.pod(i, kind(i))))
		if i < 400 {
			for range 9 {
				b.engine.Decide(b.state.View(), plan.Alone(b.pod(i, kind(i))))
			}
		}
		keys := b.engine.RankingKeys()
		if tables, bytes := b.engine.Rankings(); keys > 256 || tables > 64 || bytes > 64*10_000 {
			t.Fatalf("after %d kinds: %d rankings, %d with a table", i, keys, tables)
		}
	}
	for range 6000 {
		b.engine.Decide(b.state.View(), plan.Alone(b.pod(1, shapes["selective"])))
	}
	keys := b.engine.RankingKeys()
	if tables, _ := b.engine.Rankings(); keys != 1 || tables != 1 {
		t.Errorf("after 6,000 pods of one kind %d rankings are kept, %d with a table", keys, tables)
	}
	small, err := engine.New(engine.Config{Profiles: []*plugin.Profile{b.profile}, RankingBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		small.Decide(b.state.View(), plan.Alone(b.pod(i, kind(i/10))))
		if tables, _ := small.Rankings(); tables > 1 {
			t.Fatalf("%d tables in no memory", tables)
		}
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

// TestTablesOfAppsInTurn places pods of two requests in turns, app by app. During one
// turn more nodes change for the other request than a scan would visit. A table that has
// saved many scans is updated, and not built again.
func TestTablesOfAppsInTurn(t *testing.T) {
	build.NotRaced(t)
	const nodes, apps, pods = 1000, 20, 120
	b := newBench(t, nodes)
	for app := range apps {
		for i := range pods {
			d := b.engine.Decide(b.state.View(), plan.Alone(b.pod(app*pods+i, func(p *v1.Pod) {
				p.Labels = map[string]string{"app": fmt.Sprint("app-", app)}
				p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(int64(10+app%2), resource.DecimalSI)}
			})))
			if d.Outcome != plan.Placed {
				t.Fatalf("app %d, pod %d: %+v", app, i, d)
			}
			assume(b.state, d)
		}
	}
	// For the first request eight scans and a table, for the second one fewer scans; then
	// a visit for each pod in each of the two tables.
	work := b.engine.Counters()
	if most := int64(2*9*nodes + 2*apps*pods); work.Visited > most || work.Ranked < apps*pods-16 {
		t.Errorf("%d nodes were visited, want at most %d; %d of %d decisions by tables", work.Visited, most, work.Ranked, apps*pods)
	}
}

// TestLaterAppsAreRankedSooner places app after app, each with a table of its own. After
// tables that paid off, the next app gets its table sooner; after others it does not.
func TestLaterAppsAreRankedSooner(t *testing.T) {
	b := newBench(t, 200)
	next := 0
	scans := func(app string, pods int) int64 {
		before := b.engine.Counters()
		for range pods {
			d := b.engine.Decide(b.state.View(), plan.Alone(b.pod(next, func(p *v1.Pod) {
				relations["anti-affinity on hosts"](p)
				p.Labels = map[string]string{"app": app}
				p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector = &metav1.LabelSelector{MatchLabels: p.Labels}
			})))
			if d.Outcome != plan.Placed {
				t.Fatalf("pod %d: %+v", next, d)
			}
			assume(b.state, d)
			next++
		}
		after := b.engine.Counters()
		return after.Decisions - before.Decisions - (after.Ranked - before.Ranked)
	}
	var each []int64
	for app := range 6 {
		each = append(each, scans(fmt.Sprint("app-", app), 40))
	}
	// The first pod of each app meets no other pods of the app. So it shares a key with
	// all first pods, which has a table in the end.
	if want := []int64{9, 5, 2, 1, 1, 1}; !slices.Equal(each, want) {
		t.Errorf("scans for each app: %d, want %d", each, want)
	}
	for app := range 80 { // tables for a single pod, dropped when they are too many
		scans(fmt.Sprint("small-", app), 4)
	}
	if n := scans("last", 40); n < 6 {
		t.Errorf("%d scans for an app after many small ones, want at least 6", n)
	}
}
