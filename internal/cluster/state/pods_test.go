package state

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// placementOf is a placement without holds.
func placementOf(pod *model.Pod, node string) plan.Placement {
	return plan.Placement{Pod: pod, NodeName: node}
}

// TestEventsOfPods lists the events of each change of a pod on a node. Only the first
// confirmation of an assumed pod is an addition: later versions are updates.
func TestEventsOfPods(t *testing.T) {
	pending := podOn("p", "1", "", 1).Pod
	labelled := podOn("p", "1", "n1", 1).Pod.Object
	labelled.Labels = map[string]string{"app": "web"}
	larger := podOn("p", "1", "n1", 2).Pod.Object.DeepCopy()
	larger.Labels = labelled.Labels
	set := func(p *v1.Pod) model.Change { return model.Change{Kind: model.PodSet, Pod: model.NewPod(p)} }
	for _, row := range []struct {
		name   string
		assume bool
		steps  []model.Change
		want   string // events of each step
	}{
		{"shown on its node", true, []model.Change{podOn("p", "1", "n1", 1), podOn("p", "1", "n1", 1)}, "AssignedPodAdd; AssignedPodUpdate"},
		{"shown on another node", true, []model.Change{podOn("p", "1", "n2", 1)}, "AssignedPodAdd"},
		{"bound, then shown", true, []model.Change{bindDone(pending, "n1", nil), podOn("p", "1", "n1", 1)}, "AssignedPodAdd; AssignedPodUpdate"},
		{"not bound", true, []model.Change{bindDone(pending, "n1", errors.New("refused"))}, "AssignedPodDelete"},
		{"changed", false, []model.Change{podOn("p", "1", "n1", 1), set(labelled), set(larger)}, "AssignedPodAdd; AssignedPodUpdatePodLabel; AssignedPodUpdatePodScaleUp"},
		{"changed in two ways", false, []model.Change{podOn("p", "1", "n1", 1), set(larger)}, "AssignedPodAdd; AssignedPodUpdatePodLabel AssignedPodUpdatePodScaleUp"},
		{"moved", false, []model.Change{podOn("p", "1", "n1", 1), podOn("p", "1", "n2", 1)}, "AssignedPodAdd; AssignedPodUpdate"},
		{"gone", false, []model.Change{podOn("p", "1", "n1", 1), podGone("p"), podGone("p")}, "AssignedPodAdd; AssignedPodDelete; "},
		{"created again", false, []model.Change{podOn("p", "1", "n1", 1), podOn("p", "2", "n1", 1)}, "AssignedPodAdd; AssignedPodDelete AssignedPodAdd"},
	} {
		s := New()
		s.Apply([]model.Change{node("n1"), node("n2")})
		if row.assume {
			s.Assume(placementOf(pending, "n1"))
		}
		var got []string
		for _, c := range row.steps {
			var events []string
			for _, e := range s.Apply([]model.Change{c}).Events {
				events = append(events, e.Label())
				if (e.OldPod == nil) != (e.Action == model.Add) || (e.Pod == nil) != (e.Action == model.Delete) {
					t.Errorf("%s: %s is from %v to %v", row.name, e.Label(), e.OldPod, e.Pod)
				}
			}
			got = append(got, strings.Join(events, " "))
		}
		if text := strings.Join(got, "; "); text != row.want {
			t.Errorf("%s: %s, want %s", row.name, text, row.want)
		}
	}
}

// TestUnassumedPodIsNotLeaving unassumes a pod that was to be evicted: it is on no node
// that it could leave.
func TestUnassumedPodIsNotLeaving(t *testing.T) {
	s := New()
	s.Apply([]model.Change{node("a")})
	pod := podOn("p", "1", "", 1).Pod
	s.Assume(placementOf(pod, "a"))
	s.Evict(plan.Eviction{Pod: pod, NodeName: "a"})
	s.Unassume(placementOf(pod, "a"))
	if audited(t, s); s.View().IsLeaving(pod) {
		t.Error("a pod that is on no node is leaving it")
	}
}

// apart is a pod of the app web with anti-affinity to the app by zone.
func apart(name, node string) *model.Pod {
	return model.NewPod(build.Pod(build.Named(name), build.NodeName(node), build.Labels("app=web"), build.RequiredAntiAffinity(build.Term("zone", "app=web"))))
}

// inZone is a node in a zone.
func inZone(name, zone string) model.Change {
	return model.Change{Kind: model.NodeSet, Node: model.NewNode(build.Node(name, build.NodeLabels("zone="+zone)))}
}

// TestVersionOfATerm adds and removes pods that carry a term. The version of all terms
// changes when the first carrier comes and the last goes. The version of the term changes
// with each carrier, and with the zones of nodes.
func TestVersionOfATerm(t *testing.T) {
	s := New()
	s.Apply([]model.Change{inZone("a", "x"), inZone("b", "y")})
	set := func(p *model.Pod) model.Change { return model.Change{Kind: model.PodSet, Pod: p} }
	gone := func(name string) model.Change {
		return model.Change{Kind: model.PodGone, Key: model.PodKey{Namespace: metav1.NamespaceDefault, Name: name}}
	}
	asks := apart("asks", "")
	var term *TermCounts
	for _, step := range []struct {
		what          string
		change        model.Change
		terms, counts bool // the versions that change
		carriers      string
	}{
		{"the first", set(apart("p", "a")), true, true, "x=1 y=0"},
		{"the same again", set(apart("p", "a")), false, false, "x=1 y=0"},
		{"another", set(apart("q", "b")), false, true, "x=1 y=1"},
		{"a pod without terms", set(model.NewPod(build.Pod(build.Named("r"), build.NodeName("a")))), false, false, "x=1 y=1"},
		{"a node without pods", inZone("c", "x"), false, true, "x=1 y=1"},
		{"the zone of a node", inZone("a", "y"), false, true, "y=2 y=2"},
		{"back", inZone("a", "x"), false, true, "x=1 y=1"},
		{"another label of it", model.Change{Kind: model.NodeSet, Node: model.NewNode(build.Node("a", build.NodeLabels("zone=x disk=ssd")))}, false, false, "x=1 y=1"},
		{"one is gone", gone("p"), false, true, "x=0 y=1"},
		{"the last is gone", gone("q"), true, true, ""},
	} {
		before, version := s.View().TermsVersion(), uint64(0)
		if term != nil {
			version = term.Version()
		}
		asked := s.TermsAsked()
		s.Apply([]model.Change{step.change})
		text := ""
		if matching := s.View().TermsMatching(asks); len(matching) == 1 {
			term = matching[0].TermCounts
			sums := s.Sums(TopologyKey{Label: "zone"})
			term.AddTo(sums, 3)
			for i, name := range []string{"a", "b"} {
				slot, _ := s.Slot(name)
				domain := term.Domains()[slot]
				text += fmt.Sprintf("%s=%d ", s.node[slot].Object.Labels["zone"], sums[domain]/3)
				if sums[domain]%3 != 0 || int32(i) != slot {
					t.Errorf("%s: the sums are %v", step.what, sums)
				}
			}
			if s.TermsAsked() != asked+1 || !term.InState() {
				t.Errorf("%s: %d terms were asked, the state has it: %t", step.what, s.TermsAsked()-asked, term.InState())
			}
		} else if term.InState() || term.Total() != 0 {
			t.Errorf("%s: a term that no pod carries is in the state, with %d carriers", step.what, term.Total())
		}
		if text = strings.TrimSpace(text); text != step.carriers {
			t.Errorf("%s: carriers by zone are %q, want %q", step.what, text, step.carriers)
		}
		if terms, counts := s.View().TermsVersion() != before, term.Version() != version; terms != step.terms || counts != step.counts {
			t.Errorf("%s: the version of the terms has changed: %t, that of the term: %t", step.what, terms, counts)
		}
	}
}

// TestTermsThatCannotBeParsed has a pod carry a term that the API server would reject,
// beside a valid one: it selects no pod, on a node and in a draft.
func TestTermsThatCannotBeParsed(t *testing.T) {
	s := New()
	s.Apply([]model.Change{inZone("a", "x")})
	broken := build.Term("zone", "app Near web")
	carrier := func(name, node string) *model.Pod {
		return model.NewPod(build.Pod(build.Named(name), build.NodeName(node), build.Labels("app=web"), build.RequiredAntiAffinity(broken, build.Term("zone", "app=web"), broken)))
	}
	s.Apply([]model.Change{{Kind: model.PodSet, Pod: carrier("p", "a")}})
	audited(t, s)
	if n := len(s.TermsMatching(carrier("asks", ""))); n != 1 || s.Sizes().Terms != 1 {
		t.Errorf("%d terms select a pod, %d are kept", n, s.Sizes().Terms)
	}
	d := s.View().Draft()
	d.Add(carrier("q", ""), 0)
	differences := 0
	d.View().TermDifferences(carrier("asks", ""), func(term Matching, some []Difference) {
		if differences++; len(some) != 1 || some[0].Pods != 1 || term.TotalWith(some) != 2 {
			t.Errorf("the draft has %v more carriers of a term", some)
		}
	})
	if differences != 1 {
		t.Errorf("the draft has other carriers of %d terms, want 1", differences)
	}
	s.Apply([]model.Change{{Kind: model.PodGone, Key: model.PodKey{Namespace: metav1.NamespaceDefault, Name: "p"}}})
	if audited(t, s); s.Sizes().Terms != 0 {
		t.Errorf("%d terms are kept", s.Sizes().Terms)
	}
}

// TestLabelsWithoutAKey has pods with a label that the API server would reject. No
// selector can demand it. The pods are found by their other labels and their namespace,
// and counted once, whether they or the tally came first.
func TestLabelsWithoutAKey(t *testing.T) {
	pod := func(name string, of map[string]string) model.Change {
		p := build.Pod(build.Named(name), build.InNamespace("ns"), build.NodeName("a"))
		p.Labels = of
		return model.Change{Kind: model.PodSet, Pod: model.NewPod(p)}
	}
	for _, podsFirst := range []bool{false, true} {
		s := New()
		s.Apply([]model.Change{node("a")})
		pods := func() {
			s.Apply([]model.Change{pod("p", map[string]string{"": "", "app": "web"}), pod("q", map[string]string{"": "x"})})
			audited(t, s)
		}
		if podsFirst {
			pods()
		}
		var tallies []*Tally
		for _, selector := range []string{"app=web", "everything"} {
			tallies = append(tallies, s.Tally(setOfTerms(t, selector, v1.PodAffinityTerm{LabelSelector: build.Selector(selector)}), TopologyKey{}, NodeSet{}))
		}
		if !podsFirst {
			pods()
		}
		if tallies[0].Total() != 1 || tallies[1].Total() != 2 {
			t.Errorf("pods first: %t: %d and %d pods are counted, want 1 and 2", podsFirst, tallies[0].Total(), tallies[1].Total())
		}
		s.Apply([]model.Change{podGone("p"), podGone("q")})
		audited(t, s)
	}
}

// TestHashOfAName checks that choices by hash are the same in every process and in every
// version of the program.
func TestHashOfAName(t *testing.T) {
	for name, want := range map[string]uint64{"": 0xcbf29ce484222325, "a": 0xaf63dc4c8601ec8c} {
		if got := HashName(name); got != want {
			t.Errorf("%q: %#x, want %#x, which is FNV-1a", name, got, want)
		}
	}
	s := New()
	s.Apply([]model.Change{node("a"), node("b")})
	if h := s.NameHashes(); len(h) != 2 || h[0] == h[1] {
		t.Errorf("two names have the hashes %#x", h)
	}
}
