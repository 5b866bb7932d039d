package state

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// setOfTerms returns the set of pods that each of the terms selects, which belong to pods
// in the namespace ns.
func setOfTerms(t *testing.T, text string, terms ...v1.PodAffinityTerm) PodSet {
	t.Helper()
	set := PodSet{Text: text}
	for i := range terms {
		term, err := model.NewTerm("ns", &terms[i])
		if err != nil {
			t.Fatal(err)
		}
		set.Terms = append(set.Terms, term)
	}
	return set
}

// TestTalliesFollowEachChange counts the pods of several sets by zone after each change
// of pods, namespaces and nodes. The sets differ in the selected namespaces: their own,
// one by its name, those with a label, and all.
func TestTalliesFollowEachChange(t *testing.T) {
	web, team := build.Selector("app=web"), build.Selector("team=a")
	sets := []PodSet{
		setOfTerms(t, "own", v1.PodAffinityTerm{LabelSelector: web}),
		setOfTerms(t, "named", v1.PodAffinityTerm{LabelSelector: web, Namespaces: []string{"other"}}),
		setOfTerms(t, "labelled", v1.PodAffinityTerm{LabelSelector: web, NamespaceSelector: team}),
		setOfTerms(t, "all", v1.PodAffinityTerm{LabelSelector: web, NamespaceSelector: &metav1.LabelSelector{}}),
		setOfTerms(t, "labelled or named", v1.PodAffinityTerm{LabelSelector: web, NamespaceSelector: team, Namespaces: []string{"ns"}}),
		setOfTerms(t, "both", v1.PodAffinityTerm{LabelSelector: web}, v1.PodAffinityTerm{LabelSelector: build.Selector("tier=front")}),
	}
	staying := setOfTerms(t, "staying", v1.PodAffinityTerm{LabelSelector: web})
	staying.Staying = true
	sets = append(sets, staying)
	pod := func(namespace, name, node, labels string, options ...build.PodOption) model.Change {
		options = append(options, build.Named(name), build.InNamespace(namespace), build.NodeName(node), build.Labels(labels))
		return model.Change{Kind: model.PodSet, Pod: model.NewPod(build.Pod(options...))}
	}
	zone := func(node, zone string) model.Change {
		return model.Change{Kind: model.NodeSet, Node: model.NewNode(build.Node(node, build.NodeLabels("zone="+zone)))}
	}
	namespace := func(name, labels string) model.Change {
		return model.Change{Kind: model.ObjectSet, Ref: model.Ref{Kind: model.NamespaceKind, Name: name}, Object: build.Namespace(name, labels)}
	}
	gone := func(namespace, name string) model.Change {
		return model.Change{Kind: model.PodGone, Key: model.PodKey{Namespace: namespace, Name: name}}
	}

	s := New()
	s.Apply([]model.Change{zone("a", "x"), zone("b", "y")})
	ask := func() string { // the counts of node a
		text := ""
		slot, _ := s.Slot("a")
		for _, set := range sets {
			tally := s.Tally(set, TopologyKey{Label: "zone"}, NodeSet{})
			domain, counts := tally.Domains()[slot], s.View().Expanded(tally)
			n := int32(-1)
			if domain >= 0 {
				if n = 0; int(domain) < len(counts) {
					n = counts[domain]
				}
			}
			text += fmt.Sprint(n, "/", tally.Total(), " ")
		}
		return text
	}
	for _, step := range []struct {
		what   string
		change model.Change
		// want lists the pods in the node's zone, and in all, of each set: own, named,
		// labelled, all, labelled or named, both, staying.
		want string
	}{
		{"nothing", zone("a", "x"), "0/0 0/0 0/0 0/0 0/0 0/0 0/0 "},
		{"a pod", pod("ns", "p", "a", "app=web"), "1/1 0/0 0/0 1/1 1/1 0/0 1/1 "},
		{"another elsewhere", pod("ns", "q", "b", "app=web tier=front"), "1/2 0/0 0/0 1/2 1/2 0/1 1/2 "},
		{"one in a namespace that is not known", pod("other", "r", "a", "app=web"), "1/2 1/1 0/0 2/3 1/2 0/1 1/2 "},
		{"the namespace, without the label", namespace("other", ""), "1/2 1/1 0/0 2/3 1/2 0/1 1/2 "},
		{"with the label", namespace("other", "team=a"), "1/2 1/1 1/1 2/3 2/3 0/1 1/2 "},
		{"with another label too", namespace("other", "team=a env=dev"), "1/2 1/1 1/1 2/3 2/3 0/1 1/2 "},
		{"with another value", namespace("other", "team=b"), "1/2 1/1 0/0 2/3 1/2 0/1 1/2 "},
		{"with the label again", namespace("other", "team=a"), "1/2 1/1 1/1 2/3 2/3 0/1 1/2 "},
		{"its own namespace, with the label", namespace("ns", "team=a"), "1/2 1/1 2/3 2/3 2/3 0/1 1/2 "},
		{"a namespace is gone", model.Change{Kind: model.ObjectGone, Ref: model.Ref{Kind: model.NamespaceKind, Name: "other"}}, "1/2 1/1 1/2 2/3 1/2 0/1 1/2 "},
		{"a pod gets a label", pod("ns", "p", "a", "app=web tier=front"), "1/2 1/1 1/2 2/3 1/2 1/2 1/2 "},
		{"and loses one", pod("ns", "p", "a", "tier=front"), "0/1 1/1 0/1 1/2 0/1 0/1 0/1 "},
		{"and gets it back", pod("ns", "p", "a", "app=web"), "1/2 1/1 1/2 2/3 1/2 0/1 1/2 "},
		{"it terminates", pod("ns", "p", "a", "app=web", build.Terminating), "1/2 1/1 1/2 2/3 1/2 0/1 0/1 "},
		{"its node moves to the other zone", zone("a", "y"), "2/2 1/1 2/2 3/3 2/2 1/1 1/1 "},
		{"its node has no zone", model.Change{Kind: model.NodeSet, Node: model.NewNode(build.Node("a"))}, "-1/1 -1/0 -1/1 -1/1 -1/1 -1/1 -1/1 "},
		{"and one again", zone("a", "x"), "1/2 1/1 1/2 2/3 1/2 0/1 0/1 "},
		{"a pod is gone", gone("ns", "p"), "0/1 1/1 0/1 1/2 0/1 0/1 0/1 "},
		{"a node is gone", nodeGone("b"), "0/0 1/1 0/0 1/1 0/0 0/0 0/0 "},
		{"and back", zone("b", "x"), "1/1 1/1 1/1 2/2 1/1 1/1 1/1 "},
		{"a pod moves", pod("ns", "q", "a", "app=web tier=front"), "1/1 1/1 1/1 2/2 1/1 1/1 1/1 "},
	} {
		s.Apply([]model.Change{step.change})
		if got := ask(); got != step.want {
			t.Errorf("%s: %s, want %s", step.what, got, step.want)
		}
		audited(t, s)
	}
}

// TestRepeatedNomination repeats a nomination: nothing changes, so that nothing cached by
// version is computed again.
func TestRepeatedNomination(t *testing.T) {
	s := New()
	s.Apply([]model.Change{node("a"), node("b")})
	pod := nominatedPod("p", "", 5)
	s.Apply([]model.Change{{Kind: model.PodSet, Pod: pod}})
	changed := s.Nominate(plan.Nomination{Pod: pod, Mode: plan.Keep, NodeName: "a"})
	if len(changed) != 0 || s.Nominated() != 0 {
		t.Fatalf("kept: %v", changed)
	}
	if changed = s.Nominate(plan.Nomination{Pod: pod, Mode: plan.Set, NodeName: "a"}); len(changed) != 1 || changed[0].NominatedNode != "a" {
		t.Fatalf("nominated: %v", changed)
	}
	version := s.Version()
	if again := s.Nominate(plan.Nomination{Pod: changed[0], Mode: plan.Set, NodeName: "a"}); len(again) != 0 || s.Version() != version {
		t.Errorf("nominated again: %v, the journal goes from %d to %d", again, version, s.Version())
	}
	if older := s.Nominate(plan.Nomination{Pod: pod, Mode: plan.Set, NodeName: "a"}); len(older) != 1 || older[0].NominatedNode != "a" {
		t.Errorf("an older version that does not have it: %v", older)
	}
	// A pod that is on a node is nominated no longer.
	s.Assume(plan.Placement{Pod: changed[0], NodeName: "a"})
	if placed := s.Nominate(plan.Nomination{Pod: changed[0], Mode: plan.Set, NodeName: "b"}); len(placed) != 0 || s.Nominated() != 0 {
		t.Errorf("a placed pod: %v", placed)
	}
	audited(t, s)
}

// TestUseOfNominatedPods adds the use of a nominated pod if it has at least the priority.
func TestUseOfNominatedPods(t *testing.T) {
	s := New()
	s.Apply([]model.Change{node("a"), node("b")})
	object := podOn("p", "p", "", 3).Pod.Object
	object.Status.NominatedNodeName, object.Spec.Priority = "b", new(int32(5))
	s.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(object)}})
	for _, row := range []struct {
		node     string
		priority int32
		cpu      int64
	}{{"b", 4, 3000}, {"b", 5, 3000}, {"b", 6, 0}, {"a", 5, 0}} {
		slot, _ := s.Slot(row.node)
		var use Use
		use.Reset(s.View().Node(slot))
		s.View().AddNominated(slot, row.priority, &use)
		if got := s.View().NodeWith(slot, &use).Used().CPUMilli; got != row.cpu {
			t.Errorf("%s, from priority %d: %d, want %d", row.node, row.priority, got, row.cpu)
		}
	}
}

// TestPodsOnCanBeLeft stops the iteration over the pods of a node at each of them.
func TestPodsOnCanBeLeft(t *testing.T) {
	s := New()
	s.Apply([]model.Change{node("a"), podOn("p", "1", "a", 1), podOn("q", "2", "a", 1), podOn("r", "3", "a", 1)})
	for stop := range 4 {
		seen := 0
		for range s.PodsOn(0) {
			if seen++; seen == stop {
				break
			}
		}
		if want := map[int]int{0: 3, 1: 1, 2: 2, 3: 3}[stop]; seen != want {
			t.Errorf("stopping at %d: %d were seen, want %d", stop, seen, want)
		}
	}
}

// TestMovedSlotIsInTheJournal checks that both slots of a moved node have changed in
// every aspect.
func TestMovedSlotIsInTheJournal(t *testing.T) {
	s := New()
	nominated := nominatedPod("q", "stays", 0)
	s.Apply([]model.Change{node("gone"), node("stays"), podOn("p", "1", "stays", 1), {Kind: model.PodSet, Pod: nominated}})
	s.Apply([]model.Change{nodeGone("gone")})
	if n := s.View().NominatedNodes(); n != 1 {
		t.Errorf("%d nodes have nominated pods", n)
	}
	before, bands := s.Version(), s.Node(1).BandsVersion()
	s.free = s.free[:0] // the caller of moveSlot has taken the target slot
	s.moveSlot(1, 0)
	entries, ok := s.Since(before)
	aspects := map[int32]model.Aspect{}
	for _, e := range entries {
		aspects[e.Slot] |= e.Aspects
	}
	if !ok || aspects[0] != model.AllAspects || aspects[1] != model.AllAspects || len(aspects) != 2 {
		t.Errorf("the journal has %v", entries)
	}
	if cpu, pods := s.usedOn(t, "stays"); cpu != 1000 || pods != 1 || s.Node(0).Name() != "stays" {
		t.Errorf("%s with %d of cpu by %d pods", s.Node(0).Name(), cpu, pods)
	}
	if here, there := s.Node(0).BandsVersion(), s.Node(1).BandsVersion(); here == there || here == bands || there == bands || here == 0 {
		t.Errorf("the bands had version %d; they have %d where they are, and %d where they were", bands, here, there)
	}
	if s.used[1].CPUMilli != 0 || !s.nonZero[1].Equal(new(model.Sum)) || len(s.ports[1].ports)+len(s.bands[1])+len(s.pods[1]) != 0 {
		t.Errorf("on its former slot are left %+v, %+v, %v, %v, %d pods", s.used[1], s.nonZero[1], s.ports[1], s.bands[1], len(s.pods[1]))
	}
	if slot, ok := s.View().NominatedTo(nominated.Key()); slot != 0 || !ok || len(s.nominatedSlots()) != 1 || s.nominatedSlots()[0] != 0 {
		t.Errorf("a pod is nominated to slot %d, and the slots are %v", slot, s.nominatedSlots())
	}
}

// TestMovedNodeKeepsItsDomains moves a node. It enters its domains before it leaves them,
// so that the domains stay the same and no reader of a tally must look again, even if the
// node is the only one in its domain.
func TestMovedNodeKeepsItsDomains(t *testing.T) {
	s := New()
	named := func(name string) model.Change {
		return model.Change{Kind: model.NodeSet, Node: model.NewNode(build.Node(name, build.NodeLabels("host="+name)))}
	}
	pod := build.Pod(build.Named("p"), build.InNamespace("ns"), build.NodeName("stays"), build.Labels("app=web"))
	s.Apply([]model.Change{named("gone"), named("stays"), named("other"), {Kind: model.PodSet, Pod: model.NewPod(pod)}})
	tally := s.Tally(setOfTerms(t, "web", v1.PodAffinityTerm{LabelSelector: build.Selector("app=web")}), TopologyKey{Label: "host"}, NodeSet{})
	s.Apply([]model.Change{nodeGone("gone")})
	domain, total := tally.Domains()[1], tally.Total()
	s.free = s.free[:0]
	s.moveSlot(1, 0)
	if got := tally.Domains()[0]; got != domain || tally.Domains()[1] != noDomain || tally.Total() != total || tally.counts.of(domain) != 1 {
		t.Errorf("domain %d became %d, the total %d became %d", domain, got, total, tally.Total())
	}
}

// TestSelectedNamespacesAreSorted checks that the result has the same order each time,
// although it comes from a map.
func TestSelectedNamespacesAreSorted(t *testing.T) {
	s := New()
	s.Apply([]model.Change{node("a")})
	var want []string
	for i := range 20 {
		name := fmt.Sprint("ns-", string(rune('a'+i)))
		want = append(want, name)
		s.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(build.Pod(build.InNamespace(name), build.NodeName("a")))}})
	}
	all := setOfTerms(t, "all", v1.PodAffinityTerm{NamespaceSelector: &metav1.LabelSelector{}})
	if got := s.selectedNamespaces(all.Terms[0]); !slices.Equal(got, want) {
		t.Errorf("the namespaces are %v", got)
	}
}
