package podtopologyspread_test

import (
	"fmt"
	"runtime"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// manyKeys are shapes of a pod with n spread constraints, each with a key of its own.
var manyKeys = map[string]func(p *v1.Pod, n int){
	"hard": func(p *v1.Pod, n int) { spreadOver(p, n, v1.DoNotSchedule, func(*v1.TopologySpreadConstraint, int) {}) },
	"soft": func(p *v1.Pod, n int) {
		spreadOver(p, n, v1.ScheduleAnyway, func(*v1.TopologySpreadConstraint, int) {})
	},
	"hard and soft": func(p *v1.Pod, n int) {
		spreadOver(p, n/2, v1.DoNotSchedule, func(*v1.TopologySpreadConstraint, int) {})
		spreadOver(p, n/2, v1.ScheduleAnyway, func(*v1.TopologySpreadConstraint, int) {})
	},
	"minDomains": func(p *v1.Pod, n int) {
		spreadOver(p, n, v1.DoNotSchedule, func(c *v1.TopologySpreadConstraint, k int) { c.MinDomains = new(int32(1 + k)) })
	},
	"matchLabelKeys": func(p *v1.Pod, n int) {
		spreadOver(p, n, v1.DoNotSchedule, func(c *v1.TopologySpreadConstraint, _ int) { c.MatchLabelKeys = []string{"a", "b"} })
	},
	"selectors of their own": func(p *v1.Pod, n int) {
		spreadOver(p, n, v1.ScheduleAnyway, func(c *v1.TopologySpreadConstraint, k int) {
			c.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint(k)}}
		})
	},
	"policies and a large affinity": func(p *v1.Pod, n int) {
		honor, ignore := v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore
		spreadOver(p, n, v1.DoNotSchedule, func(c *v1.TopologySpreadConstraint, k int) {
			c.NodeAffinityPolicy, c.NodeTaintsPolicy = &ignore, &ignore
			if k%4 < 2 {
				c.NodeAffinityPolicy = &honor
			}
			if k%2 == 0 {
				c.NodeTaintsPolicy = &honor
			}
		})
		var terms []v1.NodeSelectorTerm
		for k := range n {
			p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: fmt.Sprint("taint-", k), Operator: v1.TolerationOpExists})
			terms = append(terms, v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: fmt.Sprint("k", k), Operator: v1.NodeSelectorOpDoesNotExist}}})
		}
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: terms}}}
	},
}

func spreadOver(p *v1.Pod, n int, action v1.UnsatisfiableConstraintAction, change func(c *v1.TopologySpreadConstraint, k int)) {
	for k := range n {
		c := v1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: fmt.Sprintf("example.com/key-%d", k), WhenUnsatisfiable: action,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}},
		}
		change(&c, k)
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
	}
}

// TestManyKeysCostInProportion decides, for the first time and again, about pods with
// some spread constraints and with four times as many. The decision allocates at most
// five times the bytes. No node has any of the keys, so the state keeps nothing for them.
func TestManyKeysCostInProportion(t *testing.T) {
	build.NotRaced(t)
	for name, shape := range manyKeys {
		for _, again := range []bool{false, true} {
			var bytes [2]uint64
			for i, n := range []int{500, 2000} {
				b := large(t, 300)
				p := pod(wearing("app=x a=1 b=2"))
				shape(p, n)
				have, tallies := b.state.Sizes().Topologies, b.state.Tallies()
				decide := func() { b.engine.Decide(b.state.View(), plan.Alone(b.compile(p))) }
				if again {
					decide()
				}
				bytes[i] = allocated(decide)
				if grown := b.state.Sizes().Topologies - have; grown > 0 || b.state.Tallies() > tallies {
					t.Errorf("%s, %d keys: %d more topologies and %d more tallies are kept", name, n, grown, b.state.Tallies()-tallies)
				}
			}
			if bytes[1] > 5*bytes[0]+64<<10 {
				t.Errorf("%s, decided again: %t: 500 keys allocate %d bytes, 2,000 keys %d", name, again, bytes[0], bytes[1])
			}
		}
	}
}

// TestManyKeysAreCompiledWithThePod decides for the first time about compiled pods with
// thousands of constraints. The constraints were compiled with the pod, so the loop
// parses no selector and formats no text.
func TestManyKeysAreCompiledWithThePod(t *testing.T) {
	build.NotRaced(t)
	for name, shape := range manyKeys {
		b := large(t, 300)
		p := pod(wearing("app=x a=1 b=2"))
		shape(p, 4000)
		work := plan.Alone(b.compile(p))
		if bytes := allocated(func() { b.engine.Decide(b.state.View(), work) }); bytes > 2<<20 {
			t.Errorf("%s: the first decision allocates %d bytes", name, bytes)
		}
	}
}

// TestEventsFindManyKeys has a compiled pod with many hard constraints, each with a key
// and a selector of its own. Events find and help it by any of its selectors, and by
// nodes that have all keys.
func TestEventsFindManyKeys(t *testing.T) {
	const keys = 300
	p, waiting := newPlugin(t, spreadAlone()), pod(wearing("app=x"))
	spreadOver(waiting, keys, v1.DoNotSchedule, func(c *v1.TopologySpreadConstraint, k int) {
		c.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint("app-", k)}}
	})
	compiled := model.NewPod(waiting)
	(&plugin.Profile{Filters: plugintest.Filters(p)}).Compile(compiled)
	if compiled.Prepared == nil {
		t.Fatal("the constraints are not compiled with the pod")
	}
	for k := range keys + 1 {
		e := model.Event{Resource: model.AssignedPodEvent, Action: model.Add, Pod: model.NewPod(pod(on("n"), wearing(fmt.Sprint("app=app-", k))))}
		if got := plugintest.Helped(t, p, compiled, e); got != (k < keys) {
			t.Errorf("helped by a pod that constraint %d selects: %t", k, got)
		}
	}
	for _, has := range []int{keys, keys - 1} {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{}}}
		for k := range has {
			n.Labels[fmt.Sprintf("example.com/key-%d", k)] = "v"
		}
		e := model.Event{Resource: model.NodeEvent, Action: model.Add, Node: model.NewNode(n)}
		if got := plugintest.Helped(t, p, compiled, e); got != (has == keys) {
			t.Errorf("helped by a node with %d of %d keys: %t", has, keys, got)
		}
	}
	for _, x := range p.EventsToRegister() {
		if x.Resource == model.NodeEvent {
			if cause := x.Cause(compiled); len(cause.Keys) > 0 || len(cause.Wants[0]) > 64 {
				t.Errorf("the cause has %d keys and %d clauses", len(cause.Keys), len(cause.Wants[0]))
			}
		}
	}
}

func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestKeysThatNodesHaveShareTheirNodes has a pod with constraints on all keys of the
// nodes. Each node is matched once against the set of nodes that count, whatever the
// number of keys.
func TestKeysThatNodesHaveShareTheirNodes(t *testing.T) {
	const nodes, keys = 30, 40
	b := large(t, nodes)
	var changes []model.Change
	for slot := range int32(nodes) {
		n := b.state.Node(slot).Object().DeepCopy()
		for k := range keys {
			n.Labels[fmt.Sprintf("example.com/key-%d", k)] = fmt.Sprint(k, slot)
		}
		changes = append(changes, model.Change{Kind: model.NodeSet, Node: model.NewNode(n)})
	}
	b.state.Apply(changes)
	before := b.state.NodesMatched()
	p := pod(wearing("app=x"))
	manyKeys["hard and soft"](p, 2*keys)
	d := b.engine.Decide(b.state.View(), plan.Alone(b.compile(p)))
	if d.Outcome != plan.Placed {
		t.Fatalf("the pod is not placed: %+v", d.Rejection)
	}
	if matched := b.state.NodesMatched() - before; matched != nodes {
		t.Errorf("%d nodes are matched %d times", nodes, matched)
	}
	if err := b.state.Audit(); err != nil {
		t.Error(err)
	}
}

// TestAKeyThatComesAndGoes decides about a pod with a key that no node has, that a node
// then gets, and that it loses again.
func TestAKeyThatComesAndGoes(t *testing.T) {
	b := large(t, 20)
	p := pod(wearing("app=x"))
	spreadOver(p, 2, v1.DoNotSchedule, func(*v1.TopologySpreadConstraint, int) {})
	compiled := b.compile(p)
	for i, labels := range []string{"", "01", "0", "01", ""} {
		n := b.state.Node(3).Object().DeepCopy()
		for k := range 2 {
			key := fmt.Sprintf("example.com/key-%d", k)
			if delete(n.Labels, key); k < len(labels) {
				n.Labels[key] = "x"
			}
		}
		b.state.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(n)}})
		for range 3 {
			d := b.engine.Decide(b.state.View(), plan.Alone(compiled))
			if placed := d.Outcome == plan.Placed; placed != (labels == "01") {
				t.Errorf("step %d, keys %q: placed: %t, %+v", i, labels, placed, d.Rejection)
			}
		}
		if err := b.state.Audit(); err != nil {
			t.Errorf("step %d: %v", i, err)
		}
	}
	if v := b.state.View(); v.None(state.TopologyKey{Label: "a"}) != v.None(state.TopologyKey{Label: "b"}) {
		t.Error("keys that no node has do not share one topology")
	}
}

// BenchmarkManyKeys decides for the first time about a pod with 2,000 spread constraints
// at 5,000 nodes.
func BenchmarkManyKeys(b *testing.B) {
	for name, shape := range manyKeys {
		b.Run(name, func(b *testing.B) {
			c := large(b, 5000)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				p := pod(wearing("app=x"))
				shape(p, 2000)
				for k := range p.Spec.TopologySpreadConstraints {
					p.Spec.TopologySpreadConstraints[k].TopologyKey += fmt.Sprint("-", i)
				}
				compiled := c.compile(p)
				b.StartTimer()
				c.engine.Decide(c.state.View(), plan.Alone(compiled))
			}
		})
	}
}
