package state_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

var seeds = flag.Uint64("seeds", 40, "how many random histories to count")

// question is a count that plugins use.
type question struct {
	pods  state.PodSet
	key   state.TopologyKey
	nodes state.NodeSet
}

// questions cover the vocabulary of the random clusters.
func questions(t *testing.T) []question {
	t.Helper()
	term := func(namespaces []string, namespaceSelector, selector *metav1.LabelSelector) *model.Term {
		parsed, err := model.NewTerm("default", &v1.PodAffinityTerm{
			Namespaces: namespaces, NamespaceSelector: namespaceSelector, LabelSelector: selector, TopologyKey: "any",
		})
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	app := func(value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": value}}
	}
	exists := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}}
	sets := []state.PodSet{
		{Text: "web", Terms: []*model.Term{term(nil, nil, app("web"))}},
		{Text: "staying", Staying: true, Terms: []*model.Term{term(nil, nil, exists)}},
		{Text: "everywhere", Terms: []*model.Term{term(nil, &metav1.LabelSelector{}, exists)}},
		{Text: "by namespace", Terms: []*model.Term{term(nil, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "team", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"x"}},
		}}, exists)}},
		{Text: "both", Terms: []*model.Term{term(nil, &metav1.LabelSelector{}, exists), term(nil, &metav1.LabelSelector{}, app("web"))}},
	}
	var all []question
	for _, pods := range sets {
		for _, key := range []state.TopologyKey{{}, {Label: v1.LabelTopologyZone}, {Label: v1.LabelHostname}, {Label: v1.LabelTopologyZone, AbsentIsEmpty: true}} {
			for _, nodes := range []state.NodeSet{{}, {Text: "untainted", Match: func(n state.Node) bool { return len(n.Object().Spec.Taints) == 0 }}} {
				all = append(all, question{pods, key, nodes})
			}
		}
	}
	return all
}

// byNode lists a tally's counts by node name, since every state numbers domains
// differently.
func byNode(s *state.State, tally *state.Tally) map[string]string {
	answers := map[string]string{"total": fmt.Sprint(tally.Total())}
	for slot, alive := range s.Alive() {
		if !alive {
			continue
		}
		domain, counts, members := tally.Domains()[slot], int32(0), int32(0)
		if expanded := s.View().Expanded(tally); domain >= 0 && int(domain) < len(expanded) {
			counts = expanded[domain]
		}
		if domain >= 0 && int(domain) < len(tally.Members()) {
			members = tally.Members()[domain]
		}
		answers[s.Node(int32(slot)).Name()] = fmt.Sprintf("domain %t, %d pods on %d nodes", domain >= 0, counts, members)
	}
	return answers
}

// termsOf lists the terms that select a pod, and the number of their carriers in each
// node's domain.
func termsOf(s *state.State, pod *model.Pod) []string {
	var all []string
	for _, g := range s.TermsMatching(pod) {
		if !s.View().Carried(g.Key()) {
			continue // these stay while a topology stays that was used before
		}
		carriers := map[int32]int32{}
		g.Each(func(domain, pods int32) { carriers[domain] = pods })
		around := map[string]int32{}
		for slot, alive := range s.Alive() {
			if domain := g.Domains()[slot]; alive && domain >= 0 && carriers[domain] != 0 {
				around[s.Node(int32(slot)).Name()] = carriers[domain]
			}
		}
		text := fmt.Sprintf("%d %d %s %s %v %v:", g.Kind, g.Weight, g.Term.Key, g.Term.Selector, g.Term.Namespaces, g.Term.NamespaceSelector)
		for _, name := range slices.Sorted(maps.Keys(around)) {
			text += fmt.Sprintf(" %s=%d", name, around[name])
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

// TestCountsFollowRandomHistories compares incrementally updated counts with the counts
// of a new state.
func TestCountsFollowRandomHistories(t *testing.T) {
	build.NotRaced(t)
	asked := questions(t)
	for seed := uint64(1); seed <= *seeds; seed++ {
		r := random.New(seed)
		cluster := random.TopologyCluster(r, random.Size{Nodes: 1 + r.IntN(12), Placed: r.IntN(40), Pending: 5})
		followed := state.New()
		followed.Apply(enginetest.Changes(cluster))
		for step := range 80 {
			recounted := state.New()
			recounted.Apply(enginetest.Changes(cluster))
			for i := range 6 {
				q := asked[(step*6+i+int(seed))%len(asked)]
				got := byNode(followed, followed.Tally(q.pods, q.key, q.nodes))
				want := byNode(recounted, recounted.Tally(q.pods, q.key, q.nodes))
				if diff := cmp.Diff(got, want); diff != "" {
					t.Fatalf("seed %d, step %d, pods %q by %+v on nodes %q: followed (-) and recounted (+) differ:\n%s", seed, step, q.pods.Text, q.key, q.nodes.Text, diff)
				}
			}
			for _, p := range enginetest.Pending(cluster) {
				pod := model.NewPod(p)
				if diff := cmp.Diff(termsOf(followed, pod), termsOf(recounted, pod)); diff != "" {
					t.Fatalf("seed %d, step %d, terms that select %s: followed (-) and recounted (+) differ:\n%s", seed, step, pod, diff)
				}
			}
			m := random.TopologyChange(r, cluster)
			cluster = m.After
			followed.Apply(enginetest.MutationChanges(m))
			if err := followed.Audit(); err != nil {
				t.Fatalf("seed %d, after step %d: %v", seed, step, err)
			}
		}
	}
}
