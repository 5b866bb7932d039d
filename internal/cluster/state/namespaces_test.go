package state

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

func namespaceChange(name, text string) model.Change {
	ref := model.Ref{Kind: model.NamespaceKind, Name: name}
	return model.Change{Kind: model.ObjectSet, Ref: ref, Object: build.Namespace(name, text)}
}

// TestNamespacesSelected compares the namespaces that are found by label with a scan,
// over random labels and selectors.
func TestNamespacesSelected(t *testing.T) {
	s, r := New(), rand.New(rand.NewPCG(1, 1))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	known := map[string]labels.Set{}
	for range 2000 {
		name := fmt.Sprint("ns-", r.IntN(30))
		if r.IntN(5) == 0 {
			s.Apply([]model.Change{{Kind: model.ObjectGone, Ref: model.Ref{Kind: model.NamespaceKind, Name: name}}})
			delete(known, name)
		} else {
			text := pick("", "team=", "team=a", "team=b", "team=a tier=7", "tier=5", "team=b tier=7 env=x")
			s.Apply([]model.Change{namespaceChange(name, text)})
			known[name] = build.Namespace(name, text).Labels
		}
		text := pick("team", "!team", "team=a", "team in (a,)", "team in (a,b)", "team notin (a)", "team=a,tier=7",
			"tier>6", "team,env", "")
		by, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		most := r.IntN(20)
		var want []string
		for name, of := range known {
			if by.Matches(of) {
				want = append(want, name)
			}
		}
		got, ok := s.NamespacesSelected(by, most)
		slices.Sort(got)
		slices.Sort(want)
		if ok != (len(want) <= most) || ok && !slices.Equal(got, want) {
			t.Fatalf("%q selects %v, %t; want %v, at most %d", text, got, ok, want, most)
		}
		audited(t, s)
	}
}

// TestManyNamespaces counts the work for the tallies of many pods beside 5,000
// namespaces, when they are first counted and after the labels of a namespace have
// changed.
func TestManyNamespaces(t *testing.T) {
	const namespaces, sets = 5000, 1000
	s := New()
	changes := []model.Change{{Kind: model.NodeSet, Node: model.NewNode(build.Node("node"))}}
	for i := range namespaces {
		name := fmt.Sprint("ns-", i)
		pod := build.Pod(build.Named("p"), build.InNamespace(name), build.NodeName("node"),
			build.Labels(fmt.Sprint("app=web id=", i)))
		changes = append(changes, namespaceChange(name, fmt.Sprint("team=", i%10, " name=", name)),
			model.Change{Kind: model.PodSet, Pod: model.NewPod(pod)})
	}
	s.Apply(changes)
	count := func() (work int64) {
		before := s.NamespacesMatched() + s.TallyVisits()
		for i := range sets {
			id, team := build.Selector(fmt.Sprint("app=web id=", i)), build.Selector(fmt.Sprint("team=", i%10))
			for what, term := range map[string]v1.PodAffinityTerm{
				"all":   {LabelSelector: id, NamespaceSelector: &metav1.LabelSelector{}},
				"team":  {LabelSelector: id, NamespaceSelector: team},
				"named": {LabelSelector: build.Selector("app=web"), NamespaceSelector: build.Selector(fmt.Sprint("name=ns-", i))},
			} {
				if total := s.Tally(setOfTerms(t, fmt.Sprint(what, i), term), TopologyKey{}, NodeSet{}).Total(); total != 1 && i != 7 {
					t.Fatalf("%s %d counts %d pods, want 1", what, i, total)
				}
			}
		}
		return s.NamespacesMatched() + s.TallyVisits() - before
	}
	first := count()
	before := s.NamespacesMatched()
	s.Apply([]model.Change{namespaceChange("ns-7", "team=x name=ns-7")})
	changed, again := s.NamespacesMatched()-before, count()
	if most := int64(4 * 3 * sets); first > most || changed > 0 || again > most {
		t.Errorf("%d sets take %d steps, a namespace takes %d, and the sets thereafter %d; want at most %d, 0 and %d",
			3*sets, first, changed, again, most, most)
	}
	before = s.NamespacesMatched()
	for i := range 100 {
		s.NamespacesSelected(labels.SelectorFromSet(labels.Set{"name": fmt.Sprint("ns-", i)}), 64)
	}
	if n := s.NamespacesMatched() - before; n != 100 {
		t.Errorf("100 namespaces are found by name among %d", n)
	}
}
