package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// verdict is the part of a decision that must not depend on remembered rejections.
type verdict struct {
	Outcome     plan.Outcome
	Rejection   *plan.Rejection
	Node, Err   string
	Nominations []plan.Nomination
}

func verdictOf(d plan.Decision) verdict {
	v := verdict{Outcome: d.Outcome, Rejection: d.Rejection, Nominations: d.Nominations}
	if d.Outcome == plan.Placed {
		v.Node = d.Placement.NodeName
	}
	if d.Err != nil {
		v.Err = d.Err.Error()
	}
	return v
}

// TestRememberedRejectionsAreThoseDecidedAgain changes random clusters step by step and
// decides about pods of a few shapes, over and over, with an engine that remembers
// rejections and with one that does not. The shapes come with other names, priorities and
// nominations each time.
func TestRememberedRejectionsAreThoseDecidedAgain(t *testing.T) {
	var recalled, followed, beside atomic.Int64
	t.Cleanup(func() {
		if *seed == 0 && *seeds >= 20 && (recalled.Load() < 100 || followed.Load() < 100 || beside.Load() < 20) {
			t.Errorf("%d rejections were remembered, %d of them after a change, %d beside nominated pods: too few to prove anything",
				recalled.Load(), followed.Load(), beside.Load())
		}
	})
	random.EverySeed(t, "./internal/decide/engine", *seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n)
		size := random.Size{Nodes: 1 + r.IntN([]int{2, 4, 20}[r.IntN(3)]), Placed: r.IntN(60), Pending: 8}
		cluster, profile, change := random.TopologyCluster(r, size), random.TopologyProfile(r), random.TopologyChange
		if r.IntN(2) == 0 {
			cluster, profile, change = random.Cluster(r, size), random.Profile(r), random.Change
		}
		config := engine.Config{Seed: n, RejectionBytes: []int{2_000, 10_000, 1 << 20, 1 << 20}[r.IntN(4)]}
		pair := enginetest.NewPair(t, cluster, profile, config)
		forgetful, err := engine.New(engine.Config{Seed: n, Profiles: []*plugin.Profile{pair.Profile}, RejectionBytes: 1})
		if err != nil {
			t.Fatal(err)
		}
		likes, undo := shapesOf(r, cluster), []random.Mutation(nil)
		for step := range 80 {
			for i := range likes {
				if r.IntN(3) > 0 {
					continue // to have more to follow the next time
				}
				before := pair.Engine.Counters().Recalled
				for again := range 3 {
					pod := pair.Compile(another(r, likes[i], fmt.Sprintf("like-%d-%d-%d", step, i, again), pair.Cluster))
					got, want := pair.Engine.Decide(pair.State.View(), plan.Alone(pod)), forgetful.Decide(pair.State.View(), plan.Alone(pod))
					if diff := cmp.Diff(verdictOf(got), verdictOf(want), cmp.Comparer(func(a, b *model.Pod) bool { return a == b })); diff != "" {
						t.Fatalf("step %d, pod %s: remembering (-) and not (+) differ:\n%s", step, pod, diff)
					}
					n := pair.Engine.Counters().Recalled - before
					recalled.Add(n)
					if again == 0 {
						followed.Add(n)
					}
					if pair.State.Nominated() > 0 {
						beside.Add(n)
					}
					before += n
				}
			}
			if err := pair.Engine.Audit(); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			mutation := change(r, pair.Cluster)
			// changes are undone more often than by chance
			if len(undo) > 0 && r.IntN(2) == 0 {
				mutation, undo = undo[len(undo)-1], undo[:len(undo)-1]
			} else {
				undo = append(undo, random.Mutation{
					After: pair.Cluster, OldNode: mutation.NewNode, NewNode: mutation.OldNode,
					OldPod: mutation.NewPod, NewPod: mutation.OldPod, Old: mutation.New, New: mutation.Old,
				})
			}
			pair.Cluster = mutation.After
			pair.State.Apply(enginetest.MutationChanges(mutation))
		}
		if c := forgetful.Counters(); c.Recalled != 0 {
			t.Errorf("an engine without memory remembers %d rejections", c.Recalled)
		}
	})
}

// shapesOf returns pods to repeat: the cluster's pending pods, and copies with requests
// that hardly any node can meet.
func shapesOf(r *rand.Rand, c oracle.Cluster) []*v1.Pod {
	var all []*v1.Pod
	for _, p := range enginetest.Pending(c) {
		large := p.DeepCopy()
		large.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: *cpuMilli(int64(4000 + 1000*r.IntN(8)))}
		all = append(all, p, large)
	}
	return all
}

// another returns a pod of the same shape.
func another(r *rand.Rand, like *v1.Pod, name string, c oracle.Cluster) *v1.Pod {
	p := like.DeepCopy()
	p.Name, p.UID, p.Status.NominatedNodeName = name, types.UID(name), ""
	if r.IntN(3) == 0 {
		priority := int32(r.IntN(3) * 500)
		p.Spec.Priority = &priority
	}
	if r.IntN(20) == 0 && len(c.Nodes) > 0 {
		p.Status.NominatedNodeName = c.Nodes[r.IntN(len(c.Nodes))].Name
	}
	return p
}

// numbered is a node filter that objects to every node with a code of its own, so that
// objections are as many as nodes.
type numbered struct{}

func (numbered) Name() string                            { return "Numbered" }
func (numbered) FilterReads() model.Aspect               { return model.Usage }
func (numbered) FilterNeed(*model.Pod) plugin.FilterNeed { return numbered{} }
func (numbered) AppendText(text []byte) []byte           { return append(text, 'n') }
func (numbered) Compile() *plugin.Verdicts               { return &plugin.Verdicts{NodeVerdicts: numbered{}} }
func (numbered) Reasons(code reason.Code) []string       { return []string{fmt.Sprintf("number %d", code)} }
func (numbered) Filter(node state.Node) reason.Code {
	return reason.Code(1 + 10*int(node.Slot()) + node.PodCount())
}

// TestManyDifferentObjections rejects a pod on nodes that all object for different
// reasons: more than a remembered rejection can keep by slot, and exactly as many.
func TestManyDifferentObjections(t *testing.T) {
	build.NotRaced(t)
	for _, nodes := range []int{20, 250, 255, 256, 600} {
		b := withPlugins(t, nodes, func(p *plugin.Profile) { p.Filters = plugintest.Filters(numbered{}) })
		usage := b.pod(0, shapes["plain"])
		for i := range 20 {
			d := b.engine.Decide(b.state.View(), plan.Alone(b.pod(1+i, shapes["plain"])))
			if len(d.Rejection.Counts) != nodes {
				t.Fatalf("%d nodes: %d reasons", nodes, len(d.Rejection.Counts))
			}
			want := "number 1"
			if i%2 == 1 {
				want = "number 2"
			}
			if !slices.Contains(d.Rejection.Counts, reason.Count{Nodes: 1, Reason: want}) {
				t.Errorf("%d nodes, decision %d: no %q", nodes, i, want)
			}
			if err := b.engine.Audit(); err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				b.state.Assume(plan.Placement{Pod: usage, NodeName: "node-00000"})
			} else {
				b.state.Apply([]model.Change{{Kind: model.PodGone, Key: usage.Key()}})
			}
		}
		if recalled := b.engine.Counters().Recalled; nodes < 250 && recalled < 15 || nodes > 255 && recalled > 0 {
			t.Errorf("%d nodes: %d of 20 rejections were remembered", nodes, recalled)
		}
	}
}

// TestRejectionsCostWhatChanged decides about pods of many shapes that fit nowhere, after
// one node has changed. Each costs a look at that node and visits no other.
func TestRejectionsCostWhatChanged(t *testing.T) {
	const nodes, different, changes = 2000, 50, 10
	b := newBench(t, nodes)
	var pods []*model.Pod
	for i := range different {
		pods = append(pods, b.pod(i, wants(int64(33_000+i))))
	}
	decide := func() {
		for _, pod := range pods {
			if d := b.engine.Decide(b.state.View(), plan.Alone(pod)); d.Outcome != plan.Unschedulable {
				t.Fatalf("%+v", d)
			}
		}
	}
	usage := b.pod(different, wants(1000))
	decide()
	b.changeOneNode(usage)
	decide()
	before := b.engine.Counters()
	for range changes {
		b.changeOneNode(usage)
		decide()
	}
	after := b.engine.Counters()
	if recalled := after.Recalled - before.Recalled; recalled != changes*different {
		t.Errorf("%d of %d rejections were remembered", recalled, changes*different)
	}
	// Three filters run on the node, up to the first that objects.
	if asked, visited := after.Asked-before.Asked, after.Visited-before.Visited; asked > 3*changes*different || visited > 0 {
		t.Errorf("%d changes of one node, %d shapes: plugins were asked %d times, and %d slots were visited", changes, different, asked, visited)
	}
}

// TestPodsOfAStatefulSetShareARejection decides about pods that differ in a label, which
// the anti-affinity of other pods could select but does not.
func TestPodsOfAStatefulSetShareARejection(t *testing.T) {
	b := newBench(t, 20)
	for i := range 10 {
		pod := b.pod(i, func(p *v1.Pod) {
			wants(64_000)(p)
			p.Labels = map[string]string{"apps.kubernetes.io/pod-index": fmt.Sprint(i)}
		})
		b.engine.Decide(b.state.View(), plan.Alone(pod))
	}
	if recalled := b.engine.Counters().Recalled; recalled != 9 {
		t.Errorf("%d rejections were remembered, want 9", recalled)
	}
}

// TestRejectionsStayWithinTheirBudget rejects pods of many shapes with an engine that may
// remember few.
func TestRejectionsStayWithinTheirBudget(t *testing.T) {
	full := newBench(t, 200)
	e, err := engine.New(engine.Config{Profiles: []*plugin.Profile{full.profile}, RejectionBytes: 20_000})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		for i := range 100 {
			e.Decide(full.state.View(), plan.Alone(full.pod(i, wants(int64(64_000+i%30)))))
			if err := e.Audit(); err != nil { // checks the budget
				t.Fatalf("round %d, pod %d: %v", round, i, err)
			}
		}
		full.changeOneNode(full.pod(0, wants(1000)))
	}
	if rejections, bytes := e.Rejections(); rejections < 5 || bytes > 20_000 {
		t.Errorf("%d rejections are remembered in %d bytes", rejections, bytes)
	}
}

// TestNominatedPodIsDecidedAbout rejects a pod because the only node must leave space for
// a nominated one. Then it decides about the nominated pod, which has the same shape: it
// does not leave space for itself.
func TestNominatedPodIsDecidedAbout(t *testing.T) {
	b := newBench(t, 1)
	withUID := func(p *v1.Pod) {
		wants(20_000)(p)
		p.UID = types.UID(p.Name)
	}
	nominated := b.pod(0, withUID)
	nominated.NominatedNode = "node-00000"
	b.state.Apply([]model.Change{{Kind: model.PodSet, Pod: nominated}})
	for i := 1; i < 4; i++ {
		if d := b.engine.Decide(b.state.View(), plan.Alone(b.pod(i, withUID))); d.Outcome != plan.Unschedulable {
			t.Fatalf("%+v", d)
		}
	}
	if recalled := b.engine.Counters().Recalled; recalled != 2 {
		t.Errorf("%d rejections were remembered, want 2", recalled)
	}
	if d := b.engine.Decide(b.state.View(), plan.Alone(nominated)); d.Outcome != plan.Placed {
		t.Errorf("the nominated pod: %+v", d)
	}
	older := b.pod(0, withUID) // its version before the nomination
	if d := b.engine.Decide(b.state.View(), plan.Alone(older)); d.Outcome != plan.Placed {
		t.Errorf("an older version of the nominated pod: %+v", d)
	}
}

// TestChangedDefaultSelector rejects a pod for a default spread constraint, and then
// changes the selector of its service. The journal does not record this change, but other
// pods count now.
func TestChangedDefaultSelector(t *testing.T) {
	o := oracle.DefaultProfile()
	o.Spread.DefaultingType = configv1.ListDefaulting
	o.Spread.DefaultConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule}}
	nodes := build.NodesInZones("a=za b=zb", build.Allocatable("cpu=4"))
	nodes = build.With(nodes, "b", build.Allocatable("cpu=1"))
	cluster := oracle.Cluster{Nodes: nodes, Services: []*v1.Service{build.Service("web", build.LabelSet("app=web"))}}
	on := build.Pod(build.Labels("app=web"), build.NodeName("a"))
	on.Name, on.UID = "on", "on"
	cluster.Pods = []*v1.Pod{on}
	pair := enginetest.NewPair(t, cluster, o, engine.Config{})
	pod := pair.Compile(build.Pod(build.Labels("app=web tier=front"), build.Container("cpu=2")))
	decide := func() plan.Outcome { return pair.Engine.Decide(pair.State.View(), plan.Alone(pod)).Outcome }
	if first, again := decide(), decide(); first != plan.Unschedulable || again != first || pair.Engine.Counters().Recalled != 1 {
		t.Errorf("%s, then %s, of which %d is remembered", first, again, pair.Engine.Counters().Recalled)
	}
	ref := model.Ref{Kind: model.ServiceKind, Namespace: "default", Name: "web"}
	pair.State.Apply([]model.Change{{Kind: model.ObjectSet, Ref: ref, Object: build.Service("web", build.LabelSet("tier=front"))}})
	if outcome := decide(); outcome != plan.Placed {
		t.Errorf("with a service that selects others: %s", outcome)
	}
}

// TestFollowingStopsHalfway changes two nodes, the second of which no longer objects. The
// pod needs a decision, although the objection to the first node has been counted anew.
// When the second objects again as before, the rejection must still have the first node's
// new reason.
func TestFollowingStopsHalfway(t *testing.T) {
	b := newBench(t, 2)
	pod := b.pod(0, wants(33_000))
	set := func(at int, change func(*v1.Node)) {
		object := benchNode(at)
		change(object)
		b.state.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(object)}})
	}
	as := func(*v1.Node) {}
	decide := func(want plan.Outcome, reasons ...reason.Count) {
		t.Helper()
		d := b.engine.Decide(b.state.View(), plan.Alone(pod))
		if d.Outcome != want || d.Rejection != nil && !slices.Equal(d.Rejection.Counts, reasons) {
			t.Errorf("%s: %+v, want %s: %v", d.Outcome, d.Rejection, want, reasons)
		}
	}
	decide(plan.Unschedulable, reason.Count{Nodes: 2, Reason: "Insufficient cpu"})
	set(0, func(n *v1.Node) { n.Status.Allocatable[v1.ResourceCPU] = *cpuMilli(31_000) })
	decide(plan.Unschedulable, reason.Count{Nodes: 2, Reason: "Insufficient cpu"})
	set(0, func(n *v1.Node) { n.Spec.Unschedulable = true })
	set(1, func(n *v1.Node) { n.Status.Allocatable[v1.ResourceCPU] = *cpuMilli(64_000) })
	decide(plan.Placed)
	set(1, as)
	decide(plan.Unschedulable, reason.Count{Nodes: 1, Reason: "Insufficient cpu"}, reason.Count{Nodes: 1, Reason: "node(s) were unschedulable"})
}

// TestRejectionsFollowNodesThatMove removes most nodes of a large cluster and creates
// some again. Meanwhile the state moves nodes to other slots and cuts slots off.
// Remembered rejections follow, and must equal new decisions.
func TestRejectionsFollowNodesThatMove(t *testing.T) {
	build.NotRaced(t)
	const nodes, left = 3000, 40
	b := newBench(t, nodes)
	var err error
	if b.engine, err = engine.New(engine.Config{Profiles: []*plugin.Profile{b.profile}, Audit: true}); err != nil {
		t.Fatal(err)
	}
	shapes := []*model.Pod{b.pod(0, wants(64_000)), b.pod(1, func(p *v1.Pod) { shapes["selective"](p); wants(64_000)(p) })}
	decide := func(what string) {
		t.Helper()
		for _, pod := range shapes {
			b.engine.Decide(b.state.View(), plan.Alone(pod))
		}
		if err := b.engine.Audit(); err != nil {
			t.Fatalf("%s, with %d slots: %v", what, b.state.Slots(), err)
		}
	}
	decide("at first")
	b.changeOneNode(b.pod(2, wants(1000)))
	decide("after a change")
	before, fewest := b.engine.Counters().Recalled, b.state.Slots()
	steps := 0
	for i, node := range rand.New(rand.NewPCG(5, 6)).Perm(nodes)[left:] {
		b.state.Apply([]model.Change{{Kind: model.NodeGone, Name: benchNode(node).Name}})
		if i%10 == 0 {
			decide("while nodes go")
			steps++
		}
	}
	for b.state.Slots() > 1024 {
		b.state.Apply(nil)
		decide("while slots are cut off")
		steps++
	}
	fewest = min(fewest, b.state.Slots())
	for i := range 1500 {
		b.state.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(benchNode(i))}})
		if i%10 == 0 {
			decide("while nodes come")
			steps++
		}
	}
	if recalled := b.engine.Counters().Recalled - before; fewest >= nodes || b.state.Slots() <= fewest || recalled < int64(steps) {
		t.Errorf("%d slots became %d and then %d; %d rejections were remembered in %d steps", nodes, fewest, b.state.Slots(), recalled, steps)
	}
}
