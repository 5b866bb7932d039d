package state

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

func node(name string) model.Change {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("8"), v1.ResourcePods: resource.MustParse("110")}
	n.Status.Images = []v1.ContainerImage{{Names: []string{"img"}, SizeBytes: 1 << 20}}
	return model.Change{Kind: model.NodeSet, Node: model.NewNode(n)}
}

func nodeGone(name string) model.Change { return model.Change{Kind: model.NodeGone, Name: name} }

func podOn(name, uid, nodeName string, cpu int64) model.Change {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid)}}
	p.Spec.NodeName = nodeName
	p.Spec.Containers = []v1.Container{{
		Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(cpu, resource.DecimalSI)}},
		Ports:     []v1.ContainerPort{{HostPort: 80}},
	}}
	return model.Change{Kind: model.PodSet, Pod: model.NewPod(p)}
}

func podGone(name string) model.Change {
	return model.Change{Kind: model.PodGone, Key: model.PodKey{Namespace: "ns", Name: name}}
}

func bindDone(pod *model.Pod, nodeName string, err error) model.Change {
	return model.Change{Kind: model.BindDone, Bind: &model.BindingResult{Pod: pod, NodeName: nodeName, Err: err}}
}

func (s *State) usedOn(t *testing.T, name string) (cpuMilli int64, pods int) {
	t.Helper()
	slot, ok := s.Slot(name)
	if !ok {
		t.Fatalf("no node %s", name)
	}
	return s.Node(slot).Used().CPUMilli, s.Node(slot).PodCount()
}

func words(d Delta) string {
	return fmt.Sprintf("failed %d left %d arrived %d events %d", len(d.Failed), len(d.Left), len(d.Arrived), len(d.Events))
}

// TestLifeOfAPod covers every way in which a pod can be placed on a node and leave it;
// each row starts from a state with node n1.
func TestLifeOfAPod(t *testing.T) {
	pending := podOn("p", "1", "", 2).Pod
	assume := func(s *State) { s.Assume(plan.Placement{Pod: pending, NodeName: "n1"}) }
	refused := errors.New("refused")
	for _, row := range []struct {
		name    string
		assume  bool
		changes []model.Change
		delta   string // of the last change
		cpu     int64
		assumed int
	}{
		{"pending pod arrives", false, []model.Change{{Kind: model.PodSet, Pod: pending}}, "failed 0 left 0 arrived 1 events 0", 0, 0},
		{"assumed", true, []model.Change{node("n2")}, "failed 0 left 0 arrived 0 events 1", 2000, 1},
		{"confirmed by the answer", true, []model.Change{bindDone(pending, "n1", nil)}, "failed 0 left 1 arrived 0 events 1", 2000, 0},
		{"watch after the answer", true, []model.Change{bindDone(pending, "n1", nil), podOn("p", "1", "n1", 2)}, "failed 0 left 0 arrived 0 events 1", 2000, 0},
		{"confirmed by the watch", true, []model.Change{podOn("p", "1", "n1", 2)}, "failed 0 left 1 arrived 0 events 1", 2000, 0},
		{"answer after the watch", true, []model.Change{podOn("p", "1", "n1", 2), bindDone(pending, "n1", refused)}, "failed 0 left 0 arrived 0 events 0", 2000, 0},
		{"old version after the decision", true, []model.Change{{Kind: model.PodSet, Pod: pending}}, "failed 0 left 0 arrived 0 events 0", 2000, 1},
		{"binding failed", true, []model.Change{bindDone(pending, "n1", refused)}, "failed 1 left 0 arrived 0 events 1", 0, 0},
		{"deleted while assumed", true, []model.Change{podGone("p")}, "failed 0 left 1 arrived 0 events 1", 0, 0},
		{"answer after deletion", true, []model.Change{podGone("p"), bindDone(pending, "n1", refused)}, "failed 0 left 0 arrived 0 events 0", 0, 0},
		{"created again while assumed", true, []model.Change{podOn("p", "2", "", 2)}, "failed 0 left 0 arrived 1 events 1", 0, 0},
		{"answer for the one before", true, []model.Change{podOn("p", "2", "", 2), bindDone(pending, "n1", refused)}, "failed 0 left 0 arrived 0 events 0", 0, 0},
		{"bound elsewhere by somebody", true, []model.Change{node("n2"), podOn("p", "1", "n2", 2)}, "failed 0 left 1 arrived 0 events 1", 0, 0},
		{"bound by somebody", false, []model.Change{podOn("p", "1", "n1", 2)}, "failed 0 left 1 arrived 0 events 1", 2000, 0},
		{"no longer bound", false, []model.Change{podOn("p", "1", "n1", 2), podOn("p", "1", "", 2)}, "failed 0 left 0 arrived 1 events 1", 0, 0},
		{"old version after the answer", true, []model.Change{bindDone(pending, "n1", nil), {Kind: model.PodSet, Pod: pending}}, "failed 0 left 0 arrived 0 events 0", 2000, 0},
		{"no longer bound, after the answer", true, []model.Change{bindDone(pending, "n1", nil), podOn("p", "1", "n1", 2), podOn("p", "1", "", 2)}, "failed 0 left 0 arrived 1 events 1", 0, 0},
		{"no longer bound, after a move", false, []model.Change{podOn("p", "1", "n1", 2), podOn("p", "1", "n2", 2), podOn("p", "1", "", 2)}, "failed 0 left 0 arrived 1 events 1", 0, 0},
		{"resized", false, []model.Change{podOn("p", "1", "n1", 2), podOn("p", "1", "n1", 3)}, "failed 0 left 0 arrived 0 events 1", 3000, 0},
		{"deleted", false, []model.Change{podOn("p", "1", "n1", 2), podGone("p")}, "failed 0 left 1 arrived 0 events 1", 0, 0},
		{"node goes and comes back", false, []model.Change{podOn("p", "1", "n1", 2), nodeGone("n1"), node("n1")}, "failed 0 left 0 arrived 0 events 1", 2000, 0},
		{"pod before its node", false, []model.Change{nodeGone("n1"), podOn("p", "1", "n1", 2), node("n1")}, "failed 0 left 0 arrived 0 events 1", 2000, 0},
		{"heartbeat", false, []model.Change{node("n1")}, "failed 0 left 0 arrived 0 events 0", 0, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := New()
			s.Apply([]model.Change{node("n1")})
			if row.assume {
				assume(s)
			}
			var delta Delta
			for _, c := range row.changes {
				delta = s.Apply([]model.Change{c})
			}
			if got := words(delta); got != row.delta {
				t.Errorf("delta: %s, want %s", got, row.delta)
			}
			if cpu, _ := s.usedOn(t, "n1"); cpu != row.cpu || s.Assumed() != row.assumed {
				t.Errorf("cpu %d, assumed %d; want %d, %d", cpu, s.Assumed(), row.cpu, row.assumed)
			}
			audited(t, s)
		})
	}
}

// audited fails the test if an invariant of the state is violated.
func audited(t *testing.T, s *State) {
	t.Helper()
	if err := s.Audit(); err != nil {
		t.Fatal(err)
	}
}

// TestSumsSurviveRandomHistory applies random changes and recounts.
func TestSumsSurviveRandomHistory(t *testing.T) {
	build.NotRaced(t)
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		s := New()
		for range 400 {
			name, on := fmt.Sprintf("p%d", r.IntN(12)), fmt.Sprintf("n%d", r.IntN(5))
			uid := fmt.Sprint(r.IntN(2))
			switch r.IntN(7) {
			case 0:
				s.Apply([]model.Change{node(on)})
			case 1:
				s.Apply([]model.Change{nodeGone(on)})
			case 2:
				s.Apply([]model.Change{podOn(name, uid, on, r.Int64N(4))})
			case 3:
				s.Apply([]model.Change{podGone(name)})
			case 4, 5:
				pod := podOn(name, uid, "", 1).Pod
				_, _, placed := s.NodeOf(pod.Key())
				if _, ok := s.Slot(on); ok && !placed {
					s.Assume(plan.Placement{Pod: pod, NodeName: on})
				}
			case 6:
				var err error
				if r.IntN(2) == 0 {
					err = errors.New("refused")
				}
				s.Apply([]model.Change{bindDone(podOn(name, uid, "", 1).Pod, on, err)})
			}
			audited(t, s)
		}
		for slot := range s.Slots() {
			if s.alive[slot] {
				s.Apply([]model.Change{nodeGone(s.node[slot].Name)})
			}
		}
		for key := range s.placed {
			s.Apply([]model.Change{{Kind: model.PodGone, Key: key}})
		}
		if len(s.free) != s.Slots() || len(s.slotOf)+len(s.placed)+len(s.images) != 0 {
			t.Errorf("seed %d: the state of an empty cluster is not empty", seed)
		}
	}
}

// TestTalliesAreEvictedAndBuiltAgainAlike requests many tallies of a state that may keep
// few.
func TestTalliesAreEvictedAndBuiltAgainAlike(t *testing.T) {
	s := New()
	for i := range 30 {
		s.Apply([]model.Change{node(fmt.Sprintf("n%d", i))})
	}
	for i := range 90 {
		pod := podOn(fmt.Sprintf("p%d", i), fmt.Sprint(i), fmt.Sprintf("n%d", i%7), 0)
		pod.Pod.Labels = map[string]string{"app": fmt.Sprint(i % 20)}
		s.Apply([]model.Change{pod})
	}
	ask := func(app int) *Tally {
		term := &model.Term{Namespaces: []string{"ns"}, Selector: labels.SelectorFromSet(labels.Set{"app": fmt.Sprint(app)})}
		return s.Tally(PodSet{Text: fmt.Sprint(app), Terms: []*model.Term{term}}, TopologyKey{}, NodeSet{})
	}
	first := ask(0)
	s.tallies.maxBytes = s.tallies.bytes + 4*first.bytes()
	want, total := slices.Clone(s.View().Expanded(first)), first.Total()
	for app := range 20 {
		ask(app)
		if have := len(s.tallies.byKey); have > 6 {
			t.Fatalf("%d tallies are kept, of which 5 have room", have)
		}
	}
	if !first.dropped {
		t.Error("the least recently used tally is still updated")
	}
	again := ask(0)
	if again == first || !slices.Equal(s.View().Expanded(again), want) || again.Total() != total {
		t.Errorf("built again: %v, before: %v", s.View().Expanded(again), want)
	}
	s.dropTallies(func(*Tally) bool { return true })
	if len(s.tallies.byKey)+len(s.tallies.bySet)+len(s.tallies.memberships)+s.tallies.index.index.under.Len()+s.tallies.bytes != 0 {
		t.Error("dropped tallies are still referenced")
	}
}

// TestUnusedTopologiesAreRemoved adds and removes pods with many topology keys.
func TestUnusedTopologiesAreRemoved(t *testing.T) {
	s := New()
	labels := map[string]string{}
	for i := range 500 {
		labels[fmt.Sprintf("example.com/key-%d", i)] = "x"
	}
	n := build.Node("n1")
	n.Labels = labels
	s.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(n)}})
	for i := range 500 {
		pod := podOn("p", fmt.Sprint(i), "n1", 0)
		pod.Pod.Object.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
			{TopologyKey: fmt.Sprintf("example.com/key-%d", i), LabelSelector: &metav1.LabelSelector{}},
		}}}
		pod.Pod = model.NewPod(pod.Pod.Object)
		s.Apply([]model.Change{pod})
		if _, ok := s.topologies[TopologyKey{Label: fmt.Sprintf("example.com/key-%d", i)}]; !ok {
			t.Fatalf("key %d has no topology although a pod has a term with it", i)
		}
	}
	if have := len(s.topologies); have > fewTopologies+1 {
		t.Errorf("%d topologies are kept for one pod", have)
	}
}

// TestNodeOfTheSameName replaces a node by another with the same name and another UID.
// For pods that wait for either event, it is deleted and added, whether or not the
// deletion was seen. Its pods stay, as they do if the deletion is seen.
func TestNodeOfTheSameName(t *testing.T) {
	with := func(uid, zone string, size int64) model.Change {
		n := node("n1").Node.Object.DeepCopy()
		n.UID, n.Labels = types.UID(uid), map[string]string{"zone": zone}
		n.Status.Images[0].SizeBytes = size
		return model.Change{Kind: model.NodeSet, Node: model.NewNode(n)}
	}
	labels := func(d Delta) (all []string) {
		for i := range d.Events {
			all = append(all, d.Events[i].Label())
		}
		return all
	}
	term, err := model.NewTerm("ns", &v1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, seen := range []bool{false, true} {
		s := New()
		s.Apply([]model.Change{with("1", "a", 1), podOn("p", "p", "n1", 2)})
		tally := s.Tally(PodSet{Text: "all", Terms: []*model.Term{term}}, TopologyKey{Label: "zone"}, NodeSet{})
		changes := []model.Change{with("2", "b", 2)}
		if seen {
			changes = []model.Change{nodeGone("n1"), changes[0]}
		}
		if got, want := labels(s.Apply(changes)), []string{"NodeDelete", "NodeAdd"}; !slices.Equal(got, want) {
			t.Errorf("deletion seen: %t: events %v, want %v", seen, got, want)
		}
		if cpu, pods := s.usedOn(t, "n1"); cpu != 2000 || pods != 1 || s.Nodes() != 1 || tally.Total() != 1 {
			t.Errorf("deletion seen: %t: %d mCPU of %d pods on %d nodes, %d counted", seen, cpu, pods, s.Nodes(), tally.Total())
		}
		slot, _ := s.Slot("n1")
		if size, nodes := s.View().ImageSpread("img"); size != 2 || nodes != 1 || s.Node(slot).Object().UID != "2" {
			t.Errorf("deletion seen: %t: image of %d bytes on %d nodes, node %s", seen, size, nodes, s.Node(slot).Object().UID)
		}
		audited(t, s)
	}
}

// TestSizeOfAnImage changes the size that nodes report of an image. The first size counts
// as long as any node has the image.
func TestSizeOfAnImage(t *testing.T) {
	with := func(name string, sizes ...int64) model.Change {
		n := node(name).Node.Object.DeepCopy()
		n.Status.Images = nil
		for _, size := range sizes {
			n.Status.Images = append(n.Status.Images, v1.ContainerImage{Names: []string{"img"}, SizeBytes: size})
		}
		return model.Change{Kind: model.NodeSet, Node: model.NewNode(n)}
	}
	s := New()
	for _, step := range []struct {
		change model.Change
		size   int64
	}{
		{with("a", 10), 10}, {with("a", 20), 20}, {with("b", 30), 20}, {with("a", 40), 20}, {with("a"), 20}, {with("b", 50, 60), 50}, {nodeGone("b"), 0},
		{with("a", 70), 70},
	} {
		s.Apply([]model.Change{step.change})
		if size, _ := s.View().ImageSpread("img"); size != step.size {
			t.Errorf("%v: %d bytes, want %d", step.change.Node, size, step.size)
		}
		audited(t, s)
	}
}
