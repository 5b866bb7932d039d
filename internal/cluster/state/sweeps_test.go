package state

import (
	"fmt"
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// The tests of this file have the bounds as numbers: each bound is a decision about
// memory, which a change must make again.

// appsOf uses the tallies of n apps, numbered from first on.
func appsOf(s *State, first, n int) {
	for i := range n {
		app := fmt.Sprint(first + i)
		term := &model.Term{Namespaces: []string{"ns"}, Selector: labels.SelectorFromSet(labels.Set{"app": app})}
		s.Tally(PodSet{Text: app, Terms: []*model.Term{term}}, TopologyKey{}, NodeSet{})
	}
}

// podOfApp is a pod of a numbered app on the node a.
func podOfApp(app int) model.Change {
	pod := podOn(fmt.Sprint("p", app), fmt.Sprint(app), "a", 0)
	pod.Pod.Object.Labels = map[string]string{"app": fmt.Sprint(app)}
	return model.Change{Kind: model.PodSet, Pod: model.NewPod(pod.Pod.Object)}
}

// TestTalliesThatCountNothingAreSwept uses the tallies of apps with and without pods.
// Once the tallies without pods are more than twice the number to keep, 64 plus the
// number of the others stay: the most recently used.
func TestTalliesThatCountNothingAreSwept(t *testing.T) {
	for _, row := range []struct{ others, idle, left int }{{0, 128, 128}, {0, 129, 64}, {10, 148, 148}, {10, 149, 74}, {10, 1000, 74}} {
		s := New()
		s.Apply([]model.Change{node("a")})
		for app := range row.others {
			s.Apply([]model.Change{podOfApp(app)})
		}
		appsOf(s, 0, row.others)
		appsOf(s, 5000, row.idle)
		appsOf(s, 5000, 1) // the first one again
		if s.Apply(nil); s.Tallies() != row.others+row.left {
			t.Errorf("%d tallies that count pods and %d that do not: %d are left, want %d", row.others, row.idle, s.Tallies(), row.others+row.left)
		}
		_, before := s.TallyWork()
		appsOf(s, 5000, 1)
		appsOf(s, 5000+row.idle-row.left+1, row.left-1)
		appsOf(s, 0, row.others)
		if _, built := s.TallyWork(); built != before {
			t.Errorf("%d tallies that count pods and %d that do not: %d of those that were asked for last are built again", row.others, row.idle, built-before)
		}
		audited(t, s)
	}
}

// TestTalliesMakeRoom uses one tally more than fits: more than an eighth of the existing
// ones are dropped, the least recently used.
func TestTalliesMakeRoom(t *testing.T) {
	if most := New().tallies.maxBytes; most != 256<<20 {
		t.Errorf("tallies may use %d bytes", most)
	}
	for _, row := range []struct{ tallies, room, left int }{{0, 0, 1}, {1, 0, 1}, {7, 0, 7}, {16, 0, 14}, {16, 1, 17}, {16, -1, 14}} {
		s := New()
		s.Apply([]model.Change{node("a")})
		appsOf(s, 0, row.tallies)
		s.tallies.maxBytes = s.TallyBytes() + row.room
		appsOf(s, 0, min(row.tallies, 1)) // the first one again, which exists
		if appsOf(s, 100, 1); s.Tallies() != row.left {
			t.Errorf("%d tallies with room for %d bytes more: there are %d after the next, want %d", row.tallies, row.room, s.Tallies(), row.left)
		}
		if row.tallies > 1 {
			_, before := s.TallyWork()
			appsOf(s, 0, 1)
			if _, built := s.TallyWork(); built != before {
				t.Errorf("%d tallies with room for %d bytes more: the one that was asked for last is built again", row.tallies, row.room)
			}
		}
		audited(t, s)
	}
}

// TestLabelSetsWithoutPodsAreSwept removes the pods of many apps. Up to 64 label sets
// without pods are kept, and up to the number of the others.
func TestLabelSetsWithoutPodsAreSwept(t *testing.T) {
	for _, row := range []struct{ full, empty, left int }{{10, 64, 74}, {10, 65, 10}, {100, 100, 200}, {100, 101, 100}, {0, 65, 0}} {
		s := New()
		s.Apply([]model.Change{node("a")})
		for app := range row.full + row.empty {
			s.Apply([]model.Change{podOfApp(app)})
		}
		for app := range row.empty {
			s.Apply([]model.Change{podGone(fmt.Sprint("p", app))})
		}
		if s.Apply(nil); len(s.population.sets) != row.left || s.Sizes().LabelSets != row.full {
			t.Errorf("%d with pods and %d without: %d are left, %d with pods, want %d", row.full, row.empty, len(s.population.sets), s.Sizes().LabelSets, row.left)
		}
		audited(t, s)
	}
}

// TestTopologiesAreSwept uses the domains of many keys. The keys of tallies and terms
// stay. The others are removed once more than 64 exist, and then once twice as many exist
// as were left before.
func TestTopologiesAreSwept(t *testing.T) {
	s := New()
	n := build.Node("a")
	n.Labels = map[string]string{}
	for _, prefix := range []string{"first-", "65th-", "tally-", "term-", "more-", "last-"} {
		for i := range 80 {
			n.Labels[fmt.Sprint(prefix, i)] = "x"
		}
	}
	s.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(n)}})
	ask := func(prefix string, n int) {
		for i := range n {
			s.Domains(TopologyKey{Label: fmt.Sprint(prefix, i)})
		}
	}
	expect := func(when string, want int) {
		t.Helper()
		if s.Apply(nil); len(s.topologies) != want {
			t.Errorf("%s: %d topologies are kept, want %d", when, len(s.topologies), want)
		}
		audited(t, s)
	}
	ask("first-", 64)
	expect("64 keys", 64)
	ask("65th-", 1)
	expect("one more", 0)
	set := setOfTerms(t, "all", v1.PodAffinityTerm{LabelSelector: build.Selector("everything")})
	var carriers []model.Change
	for i := range 40 {
		s.Tally(set, TopologyKey{Label: fmt.Sprint("tally-", i)}, NodeSet{})
		p := build.Pod(build.Named(fmt.Sprint("p", i)), build.InNamespace("ns"), build.NodeName("a"), build.RequiredAntiAffinity(build.Term(fmt.Sprint("term-", i), "everything")))
		carriers = append(carriers, model.Change{Kind: model.PodSet, Pod: model.NewPod(p)})
	}
	s.Apply(carriers)
	expect("40 of tallies, 40 of terms", 80)
	ask("more-", 80)
	expect("80 more", 160)
	ask("last-", 1)
	expect("81 more", 80)
}

// TestExpandedCountsFollowTheState expands the counts of a set with pods on few of many
// nodes. When a pod comes, and when a node moves to another domain, they are expanded
// again.
func TestExpandedCountsFollowTheState(t *testing.T) {
	s := New()
	host := func(i int, host string) model.Change {
		return model.Change{Kind: model.NodeSet, Node: model.NewNode(build.Node(fmt.Sprint("n", i), build.NodeLabels("host="+host)))}
	}
	for i := range 100 {
		s.Apply([]model.Change{host(i, fmt.Sprint(i))})
	}
	pod := func(i int) model.Change {
		p := build.Pod(build.Named(fmt.Sprint("p", i)), build.InNamespace("ns"), build.NodeName(fmt.Sprint("n", i)))
		return model.Change{Kind: model.PodSet, Pod: model.NewPod(p)}
	}
	s.Apply([]model.Change{pod(3)})
	tally := s.Tally(setOfTerms(t, "all", v1.PodAffinityTerm{LabelSelector: build.Selector("everything")}), TopologyKey{Label: "host"}, NodeSet{})
	s.BeginTurn()
	for _, step := range []struct {
		what   string
		change model.Change
		want   map[int32]int32
	}{
		{"nothing", host(0, "0"), map[int32]int32{3: 1}},
		{"a pod", pod(5), map[int32]int32{3: 1, 5: 1}},
		{"a node moves to a domain that has pods", host(5, "3"), map[int32]int32{3: 2}},
		{"a node moves to one that has none", host(5, "7"), map[int32]int32{3: 1, 7: 1}},
		{"a node goes", nodeGone("n3"), map[int32]int32{7: 1}},
	} {
		s.Apply([]model.Change{step.change})
		got := map[int32]int32{}
		for domain, n := range s.View().Expanded(tally) {
			if n != 0 {
				got[int32(domain)] = n
			}
		}
		if !maps.Equal(got, step.want) {
			t.Errorf("%s: pods by domain are %v, want %v", step.what, got, step.want)
		}
		audited(t, s)
	}
	if tally.counts.dense != nil {
		t.Error("the counts are an array, and nothing was expanded")
	}
}
