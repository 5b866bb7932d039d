package gang

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// slicing is a cluster whose group is decided in rounds with a budget.
type slicing struct {
	*cluster
	state    *state.State
	engine   *engine.Engine
	profile  *plugin.Profile
	searches Searches
	pods     int
}

// text returns the whole content of a decision.
func text(d *plan.Attempt) string {
	s := fmt.Sprintf("%s %q", d.Outcome, d.Message)
	for i := range d.Members {
		m := &d.Members[i]
		s += fmt.Sprintf("\n%s: %s %q of %d", m.Pod.Name, m.Outcome, report.Message(m), m.Nodes)
		if p := m.Placement; m.Outcome == plan.Placed {
			s += fmt.Sprintf(" %s on %s of %d/%d for %d at %s", p.Pod.Name, p.NodeName, p.Feasible, p.Nodes, p.Total, m.Woken.Event)
		}
		for _, n := range m.Nominations {
			s += fmt.Sprintf(" nominated %d %s", n.Mode, n.NodeName)
		}
	}
	return s
}

// round decides about the group in one round with a budget.
func (c *slicing) round(work turn, budget int64) plan.Attempt {
	c.state.Meter().Begin(budget)
	defer c.state.Meter().End()
	return decidedBy(c.searches.Decide, c.state, c.engine, work, nil)
}

// placedIn returns the number of pods on nodes.
func (c *slicing) placedIn() int { return c.state.Pods() }

// change applies a random change that affects no member: a pod is added or deleted, or
// a node is added or updated.
func (c *slicing) change(r *rand.Rand) {
	n := c.nodes[r.IntN(len(c.nodes))]
	switch r.IntN(7) {
	case 0, 1:
		c.pods++
		p := build.Pod(build.Named(fmt.Sprint("new", c.pods)), build.NodeName(n.Name), build.Container(fmt.Sprintf("cpu=%dm", 100+100*r.IntN(10))))
		if r.IntN(4) == 0 {
			p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				TopologyKey: "side", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "gang"}},
			}}}}
		}
		c.state.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(p)}})
	case 2:
		if c.pods > 0 {
			gone := fmt.Sprint("new", 1+r.IntN(c.pods))
			c.state.Apply([]model.Change{{Kind: model.PodGone, Key: model.PodKey{Namespace: v1.NamespaceDefault, Name: gone}}})
		}
	case 3:
		n = n.DeepCopy()
		n.Status.Images = []v1.ContainerImage{{Names: []string{"registry/gang:1"}, SizeBytes: int64(r.IntN(900)) << 20}}
		c.state.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(n)}})
	case 4:
		n = n.DeepCopy()
		n.Labels["rack"] = fmt.Sprint("r", r.IntN(5))
		c.state.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(n)}})
	case 5:
		n = n.DeepCopy()
		n.Name = fmt.Sprint("more", c.pods)
		c.state.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(n)}})
	case 6:
		c.state.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(n)}})
	}
}

// TestSlicedAttemptIsTheWholeOne decides about groups in rounds of one domain placement
// each, while the cluster changes in between. The decision must equal the decision of
// an attempt made at once in the final state.
func TestSlicedAttemptIsTheWholeOne(t *testing.T) {
	var rounds, sliced, placed int
	for seed := range uint64(build.UnlessRaced(700, 100)) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := profileWith(t, 1, 1)
		c := &slicing{cluster: random(r), profile: p, engine: newEngine(t, p)}
		for _, m := range c.members {
			m.Labels = map[string]string{"app": "gang"}
			m.Spec.Containers[0].Image = "registry/gang:1"
			if r.IntN(8) == 0 {
				m.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
					MaxSkew: 1, TopologyKey: "rack", WhenUnsatisfiable: v1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: m.Labels},
				}}
			}
		}
		for i, n := range c.nodes {
			if n.Labels == nil {
				n.Labels = map[string]string{}
			}
			n.Labels["side"] = fmt.Sprint("s", i%2)
		}
		c.state = c.cluster.state(anyNode)
		work := c.work(p)
		churn := r.IntN(3)
		for i := 0; ; i++ {
			if i > 200 {
				t.Fatalf("seed %d: the attempt does not end", seed)
			}
			before := c.placedIn()
			for at := range work.Pods { // a new turn
				work.Pods[at].Woken.Event = fmt.Sprint("turn ", i)
			}
			d := c.round(work, 1)
			if d.Outcome == plan.Unfinished {
				if rounds++; c.placedIn() != before {
					t.Fatalf("seed %d: %d members are assumed between two rounds", seed, c.placedIn()-before)
				}
				for range r.IntN(1 + churn) {
					c.change(r)
				}
				continue
			}
			got := text(&d)
			takeOff(c.state, &d)
			whole := decided(c.state, newEngine(t, p), work, nil)
			if want := text(&whole); got != want {
				t.Fatalf("seed %d: in %d rounds\n%s\nat once\n%s", seed, i, got, want)
			}
			if d.Outcome == plan.Placed {
				placed++
			}
			if i > 0 {
				sliced++
			}
			if len(c.searches.progress) > 0 {
				t.Fatalf("seed %d: the progress of an attempt that has ended is kept", seed)
			}
			break
		}
	}
	t.Logf("%d rounds of %d attempts were not the last; %d groups were placed", rounds, sliced, placed)
	if !build.Raced && (rounds < 100 || sliced < 50 || placed < 100) {
		t.Error("too few")
	}
}

// TestSlicedAttemptEndsWhereAllChanges changes every node between two rounds. The
// attempt must still end.
func TestSlicedAttemptEndsWhereAllChanges(t *testing.T) {
	p := profileWith(t, 1, 1)
	c := &slicing{cluster: newHosts(200, 10), profile: p, engine: newEngine(t, p)}
	c.state = c.cluster.state(anyNode)
	work, units := c.work(p), int64(0)
	for i := 1; ; i++ {
		before := c.state.Meter().Total()
		d := c.round(work, price.Millisecond)
		units += c.state.Meter().Total() - before
		if d.Outcome == plan.Placed || i > 20 {
			if i < 3 || i > 12 {
				t.Errorf("it ended in %d rounds", i)
			}
			break
		}
		for j, n := range c.nodes {
			n = n.DeepCopy()
			n.Status.Allocatable[v1.ResourcePods] = *build.Node("x", build.Allocatable(fmt.Sprint("pods=", 50+(i+j)%10))).Status.Allocatable.Pods()
			c.state.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(n)}})
		}
	}
	t.Logf("%d units", units)
}

// TestWorkOfSlicedAttempt lets a gang try very many domain placements, while other pods
// are placed between its rounds. No round may cost much more than its budget. All
// rounds together may not cost much more than one whole attempt.
func TestWorkOfSlicedAttempt(t *testing.T) {
	const nodes, members, budget = 1000, 30, 20 * price.Millisecond
	p := profileWith(t, 1, 1)
	c := &slicing{cluster: newHosts(nodes, members), profile: p, engine: newEngine(t, p)}
	c.state = c.cluster.state(anyNode)
	work := c.work(p)
	before := c.state.Meter().Total()
	whole := decided(c.state, c.engine, work, nil)
	once := c.state.Meter().Total() - before
	takeOff(c.state, &whole)
	var all, most int64
	rounds := 0
	for {
		before := c.state.Meter().Total()
		d := c.round(work, budget)
		cost := c.state.Meter().Total() - before
		all, most = all+cost, max(most, cost)
		if rounds++; d.Outcome != plan.Unfinished {
			if d.Outcome != plan.Placed {
				t.Errorf("%s: %s", d.Outcome, d.Message)
			}
			break
		}
		for range 5 {
			c.pods++
			n := c.nodes[c.pods*7%nodes]
			other := build.Pod(build.Named(fmt.Sprint("new", c.pods)), build.NodeName(n.Name), build.Container("cpu=100m"))
			c.state.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(other)}})
		}
	}
	t.Logf("%d units at once; %d in %d rounds, at most %d", once, all, rounds, most)
	if rounds < 3 || most > budget*5/4 || all > once*3/2 {
		t.Error("that is too much, or too few rounds")
	}
}

// TestFirstPlacementVanishes removes the first domain placement between two rounds of an
// attempt. The next one is then the first. Its decisions, which were not kept, are made
// again for the report.
func TestFirstPlacementVanishes(t *testing.T) {
	p := profileWith(t, 1, 1)
	all := &cluster{group: newGroup(2, "rack")}
	for i := range 3 {
		all.nodes = append(all.nodes, build.Node(fmt.Sprint("n", i), build.NodeLabels(fmt.Sprint("rack=r", i)), build.Allocatable("cpu=4 memory=8Gi pods=1")))
	}
	all.add(build.Container("cpu=1"))
	all.add(build.Container("cpu=1"))
	c := &slicing{cluster: all, profile: p, engine: newEngine(t, p)}
	c.state = c.cluster.state(anyNode)
	work := c.work(p)
	for range 2 {
		if d := c.round(work, 1); d.Outcome != plan.Unfinished {
			t.Fatalf("%s: %s", d.Outcome, d.Message)
		}
	}
	n := c.nodes[0].DeepCopy()
	delete(n.Labels, "rack")
	c.state.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(n)}})
	var d plan.Attempt
	for d.Outcome = plan.Unfinished; d.Outcome == plan.Unfinished; d = c.round(work, 1) {
	}
	if want := c.round(work, 1<<40); d.Outcome != plan.Unschedulable || d.Message != want.Message {
		t.Errorf("%s: %s, want %s", d.Outcome, d.Message, want.Message)
	}
}
