package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// TestRejectionsWithRulesCostRelevantChanges wakes many unschedulable pods, of a few
// shapes with rules about counts, again and again after a change. A change that concerns
// no rule costs each shape a look at the changed node. A change that does costs one
// decision for each such shape. The other pods of a shape cost nothing.
func TestRejectionsWithRulesCostRelevantChanges(t *testing.T) {
	const nodes, shapes, each = 900, 6, 30
	zone, host := v1.LabelTopologyZone, v1.LabelHostname
	b := newBench(t, nodes)
	var err error
	if b.engine, err = engine.New(engine.Config{Profiles: []*plugin.Profile{b.profile}, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	of := func(shape int) []build.PodOption {
		app := fmt.Sprint("app=app-", shape)
		return append([]build.PodOption{build.Labels(app)}, [][]build.PodOption{
			{build.DoNotSchedule(zone, app)},
			{build.DoNotSchedule(host, app), build.DoNotSchedule(zone, app, build.MaxSkew(2))},
			// rejected for that alone
			{build.RequiredAntiAffinity(build.Term(zone, app))},
		}[shape%3]...)
	}
	pod := func(name, requests string, options ...build.PodOption) *model.Pod {
		p := build.Pod(append(options, build.Container(requests))...)
		p.Name, p.UID = name, types.UID(name)
		return b.compiled(p)
	}
	var waiting []*model.Pod
	for i := range shapes * each {
		waiting = append(waiting, pod(fmt.Sprint("waiting-", i), []string{"cpu=64", "cpu=64", "cpu=1"}[i%shapes%3], of(i%shapes)...))
	}
	// wave decides about all pods. It returns the number of decisions that were not
	// remembered, of visited slots and of plugin calls.
	wave := func() (decided, visited, asked int64) {
		before := b.engine.Counters()
		for _, p := range waiting {
			if d := b.engine.Decide(b.state.View(), plan.Alone(p)); d.Outcome != plan.Unschedulable {
				t.Fatalf("%+v", d)
			}
		}
		after := b.engine.Counters()
		return after.Decisions - before.Decisions - (after.Recalled - before.Recalled), after.Visited - before.Visited, after.Asked - before.Asked
	}
	set := func(p *model.Pod, node string) {
		b.state.Assume(plan.Placement{Pod: p, NodeName: node})
	}
	for i := range 3 * shapes { // one in each zone
		set(pod(fmt.Sprint("running-", i), "cpu=1", of(i/3)...), benchNode(i).Name)
	}
	wave()
	set(pod("another", "cpu=1"), benchNode(20).Name)
	wave() // the shapes follow changes from here on
	const few = 10
	for step := range 20 {
		unrelated := pod(fmt.Sprint("unrelated-", step), "cpu=1", build.Labels("app=other"))
		set(unrelated, benchNode(30+step).Name)
		if decided, visited, asked := wave(); decided > 0 || visited > 0 || asked > few*shapes {
			t.Errorf("step %d, a pod that no rule is about: %d decisions, %d slots visited, %d nodes asked about", step, decided, visited, asked)
		}
		set(pod(fmt.Sprint("related-", step), "cpu=1", build.Labels(fmt.Sprint("app=app-", step%shapes))), benchNode(60+step).Name)
		if decided, visited, _ := wave(); decided != 1 || visited > 2*nodes {
			t.Errorf("step %d, a pod of one app: %d decisions, %d slots visited, want one decision", step, decided, visited)
		}
		b.state.Apply([]model.Change{{Kind: model.PodGone, Key: unrelated.Key()}})
		if decided, _, _ := wave(); decided > 0 {
			t.Errorf("step %d, a pod that no rule is about is gone: %d decisions", step, decided)
		}
	}
	if err := b.engine.Audit(); err != nil {
		t.Error(err)
	}
	// A node that leaves its zone concerns every rule about zones.
	moved := benchNode(100)
	moved.Labels[zone] = "zone-a"
	b.state.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(moved)}})
	if decided, _, _ := wave(); decided < shapes*2/3 || decided > shapes {
		t.Errorf("a node in another zone: %d decisions", decided)
	}
}

// TestRejectionsWithRulesAreThoseDecidedAgain changes a small cluster step by step, in
// inputs of rules about counts. Each time it decides about pods that mostly fit nowhere
// because of such rules. The engine decides again about each remembered rejection.
func TestRejectionsWithRulesAreThoseDecidedAgain(t *testing.T) {
	build.NotRaced(t)
	const nodes, steps = 6, 150
	zone := v1.LabelTopologyZone
	var recalled, decided int64
	for seed := range uint64(5 * *seeds) {
		r := rand.New(rand.NewPCG(seed, 2))
		b := newBench(t, 0)
		var err error
		if b.engine, err = engine.New(engine.Config{Profiles: []*plugin.Profile{b.profile}, Seed: 1, Audit: true}); err != nil {
			t.Fatal(err)
		}
		pod := func(name string, options ...build.PodOption) *model.Pod {
			p := build.Pod(append(options, build.Container("cpu=100m"))...)
			p.Name, p.UID = name, types.UID(name)
			return b.compiled(p)
		}
		apart := build.RequiredAntiAffinity(build.Term(zone, "app=a"))
		waiting := []*model.Pod{
			pod("spread", build.Labels("app=a"), build.DoNotSchedule(zone, "app=a", build.MinDomains(int32(1+seed%4)))),
			pod("spread-elsewhere", build.Labels("app=a"), build.Container("cpu=100m"), build.DoNotSchedule(zone, "app=a", build.NodeTaintsPolicy(v1.NodeInclusionPolicyHonor))),
			pod("apart", build.Labels("app=a"), apart),
			pod("near", build.Labels("app=b"), build.RequiredAffinity(build.Term(zone, "app=a"))),
			pod("repelled", build.Labels("app=a")),
			pod("repelled-and-spread", build.Labels("app=a"), build.DoNotSchedule(zone, "app=b")),
		}
		node := func(i int) *v1.Node {
			cpu, labels := []string{"cpu=8 pods=110", "cpu=50m pods=110"}[r.IntN(8)/7], ""
			if z := r.IntN(13); z > 0 {
				labels = fmt.Sprint(zone, "=z", 1+z%3)
			}
			n := build.Node(fmt.Sprint("n", i), build.Allocatable(cpu), build.NodeLabels(labels))
			if r.IntN(4) == 0 {
				n.Spec.Taints = []v1.Taint{{Key: "spot", Effect: v1.TaintEffectNoSchedule}}
			}
			return n
		}
		for step := range steps {
			name := fmt.Sprint("pod-", r.IntN(8))
			switch change := r.IntN(8); {
			case step < nodes || change == 0:
				b.state.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(node(step % nodes))}})
			case change == 1:
				b.state.Apply([]model.Change{{Kind: model.NodeGone, Name: fmt.Sprint("n", r.IntN(nodes))}})
			case change < 4:
				b.state.Apply([]model.Change{{Kind: model.PodGone, Key: model.PodKey{Namespace: v1.NamespaceDefault, Name: name}}})
			default:
				options := []build.PodOption{build.Labels([]string{"app=a", "app=b", "app=c"}[r.IntN(3)])}
				if r.IntN(2) == 0 {
					options = append(options, apart)
				}
				if on := fmt.Sprint("n", r.IntN(nodes)); r.IntN(6) == 0 {
					options = append(options, build.NominatedNodeName(on))
				} else {
					options = append(options, build.NodeName(on))
				}
				b.state.Apply([]model.Change{{Kind: model.PodSet, Pod: pod(name, options...)}})
			}
			for range 2 {
				for _, p := range waiting {
					b.engine.Decide(b.state.View(), plan.Alone(p))
				}
			}
			if err := b.engine.Audit(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
		}
		recalled += b.engine.Counters().Recalled
		decided += b.engine.Counters().Decisions
	}
	if recalled < decided/10 {
		t.Errorf("%d of %d decisions were remembered: too few to prove anything", recalled, decided)
	}
}

// TestTaintedNodeLeavesItsDomain taints the only node of an empty zone, which has no
// room. The zone no longer counts, so the other zones are not too full. Their nodes have
// not changed.
func TestTaintedNodeLeavesItsDomain(t *testing.T) {
	b := newBench(t, 0)
	set := func(name string, options ...build.NodeOption) {
		options = append([]build.NodeOption{build.Allocatable("cpu=4 pods=110"), build.NodeLabels(v1.LabelTopologyZone + "=z" + name)}, options...)
		b.state.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(build.Node(name, options...))}})
	}
	full := build.Allocatable("cpu=50m")
	set("a")
	set("b")
	set("c", full)
	for _, on := range []string{"a", "b"} {
		p := build.Pod(build.Labels("app=web"), build.NodeName(on))
		p.Name, p.UID = "on-"+on, types.UID("on-"+on)
		b.state.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(p)}})
	}
	honor := build.NodeTaintsPolicy(v1.NodeInclusionPolicyHonor)
	waiting := b.compiled(build.Pod(build.Labels("app=web"), build.Container("cpu=1"), build.DoNotSchedule(v1.LabelTopologyZone, "app=web", honor)))
	for i := range 3 {
		set("a", build.Allocatable(fmt.Sprint("cpu=", 4-i%2)))
		if d := b.engine.Decide(b.state.View(), plan.Alone(waiting)); d.Outcome != plan.Unschedulable {
			t.Fatalf("%+v", d)
		}
	}
	if recalled := b.engine.Counters().Recalled; recalled == 0 {
		t.Error("nothing was remembered")
	}
	set("c", full, build.Taints("spot:NoSchedule"))
	if d := b.engine.Decide(b.state.View(), plan.Alone(waiting)); d.Outcome != plan.Placed {
		t.Errorf("%+v", d.Rejection)
	}
}

// TestRuleAppearsWithTheFirstNodeOfItsKey has a pod that no node takes for two reasons:
// its claim is allocated elsewhere, and, once a node has the topology key of its
// anti-affinity, the pod that runs there. The remembered rejection follows the change of
// the node. InterPodAffinity must reject the node now, because it comes before
// DynamicResources.
func TestRuleAppearsWithTheFirstNodeOfItsKey(t *testing.T) {
	const rack = "rack"
	b := newBench(t, 0)
	set := func(name string, options ...build.NodeOption) {
		options = append([]build.NodeOption{build.Allocatable("cpu=4 pods=110")}, options...)
		b.state.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(build.Node(name, options...))}})
	}
	for i := range 8 {
		set(fmt.Sprint("n", i))
	}
	running := build.Pod(build.Labels("app=web"), build.NodeName("n1"))
	running.Name, running.UID = "running", "running"
	elsewhere := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: "c", UID: "c"}}
	elsewhere.Status.Allocation = &resourcev1.AllocationResult{NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchFields: []v1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{"elsewhere"}}},
	}}}}
	b.state.Apply([]model.Change{
		{Kind: model.PodSet, Pod: model.NewPod(running)}, {Kind: model.ObjectSet, Compiled: model.NewResourceClaim(elsewhere)},
	})
	object := build.Pod(build.Container("cpu=1"), build.RequiredAntiAffinity(build.Term(rack, "app=web")))
	object.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c", ResourceClaimName: &elsewhere.Name}}
	waiting := b.compiled(object)
	decide := func() []string {
		d := b.engine.Decide(b.state.View(), plan.Alone(waiting))
		if d.Outcome != plan.Unschedulable {
			t.Fatalf("%+v", d)
		}
		return d.Rejection.Plugins
	}
	for i := range 4 {
		set("n0", build.Allocatable(fmt.Sprint("cpu=", 4+i%2, " pods=110")))
		decide()
	}
	if b.engine.Counters().Recalled == 0 {
		t.Error("nothing was remembered")
	}
	set("n1", build.NodeLabels("rack=r1"))
	if got := fmt.Sprint(decide()); got != "[DynamicResources InterPodAffinity]" {
		t.Errorf("rejected by %s", got)
	}
}
