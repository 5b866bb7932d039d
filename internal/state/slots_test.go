package state

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
)

// numberedNode is a node in one of three zones, with a host name of its own.
func numberedNode(i int) model.Change {
	n := node(fmt.Sprint("node-", i)).Node.Object.DeepCopy()
	n.Labels = map[string]string{"zone": fmt.Sprint(i % 3), "host": n.Name}
	return model.Change{Kind: model.NodeSet, Node: model.NewNode(n)}
}

// webOn is a pod with a label, a port and an affinity term.
func webOn(i int, nodeName string) *model.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("web-", i), UID: types.UID(fmt.Sprint(i)), Labels: map[string]string{"app": "web"}}}
	p.Spec.NodeName = nodeName
	p.Spec.Containers = []v1.Container{{Ports: []v1.ContainerPort{{HostPort: 80}}}}
	p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
		{LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}, TopologyKey: "host"},
	}}}
	return model.NewPod(p)
}

// TestSlotsAreGivenBack removes most nodes of a large cluster, in random order, and creates some again. Nodes, ghosts, pods (an assumed one, too),
// tallies and terms must survive, and the slots and all that is by slot must become few, in steps that are small.
func TestSlotsAreGivenBack(t *testing.T) {
	const nodes, left = 6000, 40
	s := New()
	var changes []model.Change
	for i := range nodes {
		changes = append(changes, numberedNode(i))
	}
	s.Apply(changes)
	r := rand.New(rand.NewPCG(1, 2))
	order := r.Perm(nodes)
	term, err := model.NewTerm("ns", &v1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}})
	if err != nil {
		t.Fatal(err)
	}
	var tallies []*Tally
	for _, key := range []string{"zone", "host", ""} {
		tally := s.Tally(PodSet{Text: "web", Terms: []*model.Term{term}}, TopologyKey{Label: key}, NodeSet{})
		tally.KeepLeast()
		tallies = append(tallies, tally)
	}
	for i, n := range order[:left+10] { // ten of these nodes will leave ghosts
		s.Apply([]model.Change{{Kind: model.PodSet, Pod: webOn(i, fmt.Sprint("node-", n))}})
	}
	s.Assume(plan.Placement{QueuedPod: plan.QueuedPod{Pod: webOn(9999, "")}, NodeName: fmt.Sprint("node-", order[0])})
	audited(t, s)
	compacted := func() {
		t.Helper()
		for s.Slots() > slotsKept {
			before, version := s.Slots(), s.Version()
			s.Apply(nil)
			if s.Slots() == before || before-s.Slots() > cutAtOnce {
				t.Fatalf("%d slots became %d with %d nodes", before, s.Slots(), s.Nodes())
			}
			if moved := (s.Version() - version) / 2; moved > movedAtOnce {
				t.Fatalf("%d nodes moved at once", moved)
			}
		}
		audited(t, s)
	}
	for i, n := range order[left:] {
		s.Apply([]model.Change{nodeGone(fmt.Sprint("node-", n))})
		if i%500 == 0 {
			audited(t, s)
		}
	}
	compacted()
	if s.Nodes() != left || s.Pods() != left+11 || tallies[0].Total() != left+1 || s.Assumed() != 1 {
		t.Errorf("%d nodes, %d pods, %d assumed, %d counted", s.Nodes(), s.Pods(), s.Assumed(), tallies[0].Total())
	}
	if largest := s.largestBySlot(); largest > 4*slotsKept {
		t.Errorf("something by slot has room for %d slots", largest)
	}
	s.Apply(changes) // the cluster grows again
	audited(t, s)
	if s.Nodes() != nodes || tallies[1].Total() != left+11 {
		t.Errorf("%d nodes and %d pods counted after the cluster has grown again", s.Nodes(), tallies[1].Total())
	}
	for _, n := range order[:nodes-left] {
		s.Apply([]model.Change{nodeGone(fmt.Sprint("node-", n))})
	}
	compacted()
}

// largestBySlot returns the most slots that anything by slot has memory for.
func (s *State) largestBySlot() int {
	largest := max(cap(s.alive), cap(s.node), cap(s.name), cap(s.nameHash), cap(s.used), cap(s.nonZero), cap(s.pods), cap(s.ports), cap(s.free))
	for _, t := range s.topologies {
		largest = max(largest, cap(t.of))
	}
	for _, c := range s.tallies.bySet {
		largest = max(largest, cap(c.onNode))
	}
	for _, t := range s.tallies.byKey {
		largest = max(largest, cap(t.in))
	}
	return largest
}

// TestSteadyClustersMoveNothing replaces each node of a large cluster, several times, at most a half at once.
func TestSteadyClustersMoveNothing(t *testing.T) {
	s := New()
	const nodes = 2000
	for i := range nodes {
		s.Apply([]model.Change{numberedNode(i)})
	}
	for rollout := range 4 {
		var gone, come []model.Change
		for i := range nodes / 2 {
			gone = append(gone, nodeGone(fmt.Sprint("node-", rollout*nodes/2+i)))
			come = append(come, numberedNode((rollout+2)*nodes/2+i))
		}
		s.Apply(gone)
		version := s.Version()
		s.Apply(nil)
		if s.Version() != version || s.Slots() != nodes {
			t.Fatalf("nodes moved; there are %d slots", s.Slots())
		}
		s.Apply(come)
	}
	if s.Slots() != nodes {
		t.Errorf("there are %d slots for %d nodes", s.Slots(), nodes)
	}
	audited(t, s)
}

// TestSlotsThatComeBack cuts off slots and grows again by a pod whose node is not known: a reader may still have a value of the slot.
func TestSlotsThatComeBack(t *testing.T) {
	s := New()
	s.cutFrom = 1
	version := s.Version()
	s.Apply([]model.Change{podOn("p", "p", "unknown", 1), podOn("q", "q", "another", 1)})
	entries, _ := s.Since(version)
	var all int
	for _, e := range entries {
		if e.Aspects == model.AllAspects {
			all++
		}
	}
	if all != 1 {
		t.Errorf("the journal names all aspects of %d slots, want the one that was cut off: %v", all, entries)
	}
	audited(t, s)
}

// TestResourcesThatComeAndGo places pods with a thousand extended resources on a node, one after the other. The node's use lists what its pods have.
func TestResourcesThatComeAndGo(t *testing.T) {
	s := New()
	s.Apply([]model.Change{node("n")})
	with := func(name string, i int) model.Change {
		p := podOn(name, name, "n", 1).Pod.Object
		p.Spec.Containers[0].Resources.Requests[v1.ResourceName(fmt.Sprint("example.com/r", i))] = resource.MustParse("1")
		return model.Change{Kind: model.PodSet, Pod: model.NewPod(p)}
	}
	s.Apply([]model.Change{with("stays", 0)})
	for i := range 1000 {
		s.Apply([]model.Change{with("p", i), podGone("p")})
		audited(t, s)
	}
	if used := s.Node(0).Used().Scalars; len(used) != 1 || cap(used) > 4 {
		t.Errorf("%d resources are listed in room for %d, want 1", len(used), cap(used))
	}
}
