package state

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// numbered and named are values of holds.
type (
	numbered int
	named    string
)

func (numbered) IsHeld() {}
func (named) IsHeld()    {}

// everything prints a state's pods: their use, their nodes, the counts, nominations and
// holds.
func (s *State) everything() string {
	var b strings.Builder
	for slot := range s.alive {
		fmt.Fprintf(&b, "%s uses %+v %+v ports %v:", s.name[slot], s.used[slot], s.nonZero[slot], s.ports[slot])
		for _, p := range s.pods[slot] {
			fmt.Fprintf(&b, " %s", p.pod)
		}
		for _, band := range s.bands[slot] {
			fmt.Fprintf(&b, " priority %d: %d pods, %d unstarted, %+v", band.Priority, band.Pods, band.Unstarted, band.Used)
		}
		fmt.Fprintln(&b)
	}
	fmt.Fprintln(&b, len(s.placed), "placed", s.assumed, "assumed", len(s.assumption), "events")
	for _, name := range slices.Sorted(maps.Keys(s.nominations.byNode)) {
		fmt.Fprintln(&b, "nominated", name, s.nominations.byNode[name])
	}
	for _, t := range s.tallies.byKey {
		fmt.Fprint(&b, "tally ", t.counts.total)
		t.counts.each(func(domain, pods int32) { fmt.Fprintf(&b, " %d:%d", domain, pods) })
		fmt.Fprintln(&b)
	}
	for key, t := range s.terms.byKey {
		fmt.Fprintln(&b, "term", key, t.pods, s.SumCarriers([]*TermCounts{t}))
	}
	fmt.Fprintln(&b, "held", s.held)
	return b.String()
}

// TestUnassume assumes random pods with everything that Assume changes, and undoes it.
// The state equals the state before, no event is returned, and the journal has the nodes.
func TestUnassume(t *testing.T) {
	build.NotRaced(t)
	random := rand.New(rand.NewPCG(1, 2))
	s := New()
	zones := map[string]string{"a": "x", "b": "x", "c": "y"}
	for _, name := range slices.Sorted(maps.Keys(zones)) {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": zones[name]}}}
		s.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(n)}})
	}
	term, err := model.NewTerm("ns", &v1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}, TopologyKey: "zone"})
	if err != nil {
		t.Fatal(err)
	}
	tally := s.Tally(PodSet{Text: "x", Terms: []*model.Term{term}}, TopologyKey{Label: "zone"}, NodeSet{})
	number := 0
	pending := func() *model.Pod {
		number++
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: fmt.Sprint("p", number), UID: types.UID(fmt.Sprint("p", number)), Labels: map[string]string{"app": "x"},
		}}
		pod.Status.NominatedNodeName = []string{"", "a", "b"}[random.IntN(3)]
		pod.Spec.Containers = []v1.Container{{Ports: []v1.ContainerPort{{HostPort: int32(number)}}, Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(1+random.Int64N(3), resource.DecimalSI)},
		}}}
		pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "y"}}, TopologyKey: "zone",
		}}}}
		compiled := model.NewPod(pod)
		s.Apply([]model.Change{{Kind: model.PodSet, Pod: compiled}})
		return compiled
	}
	place := func() plan.Placement {
		p := plan.Placement{Pod: pending(), NodeName: []string{"a", "b", "c"}[random.IntN(3)]}
		for range random.IntN(3) {
			p.Holds = append(p.Holds, plan.Hold{Plugin: "Volumes", Object: model.Ref{Name: fmt.Sprint("v", random.IntN(3))}, Value: numbered(number)})
		}
		return p
	}
	for range 200 {
		group := make([]plan.Placement, 1+random.IntN(5))
		for i := range group {
			group[i] = place()
		}
		before, version := s.everything(), s.Version()
		s.Assume(group...)
		if tally.Total() == 0 || s.everything() == before {
			t.Fatal("Assume changed nothing")
		}
		audited(t, s)
		s.Unassume(group...)
		if diff := cmp.Diff(before, s.everything()); diff != "" {
			t.Fatalf("after %d pods (-before +after):\n%s", number, diff)
		}
		if _, ok := s.Since(version); !ok || s.Version() == version {
			t.Fatal("the journal has no new entry")
		}
		audited(t, s)
		if delta := s.Apply(nil); len(delta.Events)+len(delta.Left)+len(delta.Failed)+len(delta.Arrived) > 0 {
			t.Fatalf("unexpected events: %+v", delta)
		}
		// Some pods stay, so that later rounds do not start from an empty cluster.
		if random.IntN(2) == 0 {
			s.Assume(group...)
			s.Apply(nil)
		}
	}
}

// TestHolds ends an assumption in every way: the holds are released when the pod is
// forgotten, and not before.
func TestHolds(t *testing.T) {
	volume := model.Ref{Name: "v"}
	for _, row := range []struct {
		name string
		then model.Change
		held int
	}{
		{"bound", bindDone(podOn("p", "u", "", 1).Pod, "a", nil), 2},
		{"shown on its node", podOn("p", "u", "a", 1), 2},
		{"not bound", bindDone(podOn("p", "u", "", 1).Pod, "a", errors.New("no")), 1},
		{"gone", podGone("p"), 1},
		{"replaced", podOn("p", "other", "", 1), 1},
		{"on another node", podOn("p", "u", "b", 1), 1},
		{"another pod's answer", bindDone(podOn("p", "other", "", 1).Pod, "a", errors.New("no")), 2},
	} {
		s := New()
		s.Apply([]model.Change{node("a"), node("b")})
		for _, name := range []string{"p", "q"} {
			s.Assume(plan.Placement{
				Pod: podOn(name, map[string]string{"p": "u", "q": "q"}[name], "", 1).Pod, NodeName: "a",
				Holds: []plan.Hold{{Plugin: "Volumes", Object: volume, Value: named(name)}},
			})
		}
		if held := s.View().Holders(volume); len(held) != 2 || held[0].Pod.Name != "p" || held[0].Plugin != "Volumes" || held[1].Value != named("q") {
			t.Fatalf("%s: held by %+v", row.name, held)
		}
		s.Apply([]model.Change{row.then})
		audited(t, s)
		if held := s.View().Holders(volume); len(held) != row.held || held[len(held)-1].Pod.Name != "q" {
			t.Errorf("%s: held by %+v", row.name, held)
		}
		if s.Held() != 1 {
			t.Errorf("%s: %d objects are held", row.name, s.Held())
		}
		s.Apply([]model.Change{podGone("p"), podGone("q")})
		if s.Held() != 0 {
			t.Errorf("%s: holds without a pod: %+v", row.name, s.held)
		}
	}
}
