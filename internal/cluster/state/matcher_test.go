package state

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/model"
)

// TestMatcherAgreesWithItsTerms adds random terms to matchers and compares, for random
// pods in known and unknown namespaces, with a check of each term.
func TestMatcherAgreesWithItsTerms(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		m, terms := NewMatcher(), []*model.Term(nil)
		effects := []Effect{EffectOf(model.RequiredAntiAffinity, 0), EffectOf(model.RequiredAffinity, 0), EffectOf(model.PreferredAffinity, 3), EffectOf(model.PreferredAntiAffinity, 7)}
		for i := range r.IntN(40) {
			term, err := model.NewTerm("a", randomTerm(r))
			if err != nil {
				t.Fatal(err)
			}
			terms = append(terms, term)
			m.Add(term, effects[i%4])
		}
		for range 30 {
			in := inNamespace{name: string("abc"[r.IntN(3)]), byName: r.IntN(3) == 0}
			if !in.byName {
				in.labels = randomLabels(r)
			}
			of := randomLabels(r)
			var want Effect
			for i, term := range terms {
				if in.selectedBy(term) && term.Selector.Matches(of) {
					want = want.plus(effects[i%4], +1)
				}
			}
			if have, _ := m.effect(in, of); have != want {
				t.Fatalf("seed %d: terms that select %v in %+v have the effect %+v, want %+v", seed, of, in, have, want)
			}
		}
		if m.size != len(terms) {
			t.Errorf("seed %d: a matcher of %d terms counts %d", seed, len(terms), m.size)
		}
	}
}

func randomLabels(r *rand.Rand) labels.Set {
	set := labels.Set{}
	for _, key := range []string{"app", "tier", "team"} {
		if r.IntN(2) == 0 {
			set[key] = fmt.Sprint(r.IntN(3))
		}
	}
	return set
}

func randomTerm(r *rand.Rand) *v1.PodAffinityTerm {
	term := &v1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: randomSelector(r)}
	switch r.IntN(4) {
	case 0:
		term.Namespaces = []string{"b", "c"}[:1+r.IntN(2)]
	case 1:
		term.NamespaceSelector = &metav1.LabelSelector{}
	case 2:
		if term.NamespaceSelector = randomSelector(r); r.IntN(2) == 0 {
			term.Namespaces = []string{"b"}
		}
	}
	return term
}

func randomSelector(r *rand.Rand) *metav1.LabelSelector {
	if r.IntN(12) == 0 {
		return nil
	}
	s := &metav1.LabelSelector{}
	if r.IntN(4) == 0 {
		s.MatchLabels = map[string]string{"app": fmt.Sprint(r.IntN(3))}
	}
	operators := []metav1.LabelSelectorOperator{metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpDoesNotExist, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpExists}
	for range r.IntN(4) {
		of := metav1.LabelSelectorRequirement{Key: []string{"app", "tier", "team"}[r.IntN(3)], Operator: operators[r.IntN(2+r.IntN(3))]}
		if of.Operator == metav1.LabelSelectorOpIn || of.Operator == metav1.LabelSelectorOpNotIn {
			for range 1 + r.IntN(3) {
				of.Values = append(of.Values, fmt.Sprint(r.IntN(3)))
			}
		}
		s.MatchExpressions = append(s.MatchExpressions, of)
	}
	return s
}

// TestMatcherLooksAtFewTerms has 10,000 terms that select nearly every pod, or none: the
// cost of a pod depends on its own labels.
func TestMatcherLooksAtFewTerms(t *testing.T) {
	for _, row := range []struct {
		name     string
		selector func(i int) *metav1.LabelSelector
		want     Effect
	}{
		{"every pod", func(int) *metav1.LabelSelector { return &metav1.LabelSelector{} }, Effect{Repelling: 10_000}},
		{"without a label", expression(metav1.LabelSelectorOpDoesNotExist, "k%d"), Effect{Repelling: 10_000}},
		{"with another value", expression(metav1.LabelSelectorOpNotIn, "app", "v%d"), Effect{Repelling: 9999}},
		{"with one of many values", expression(metav1.LabelSelectorOpIn, "app", "v%d"), Effect{Repelling: 1}},
		{"with a label", expression(metav1.LabelSelectorOpExists, "k%d"), Effect{}},
		{"no pod", func(int) *metav1.LabelSelector { return nil }, Effect{}},
	} {
		m := NewMatcher()
		for i := range 10_000 {
			term, err := model.NewTerm("a", &v1.PodAffinityTerm{LabelSelector: row.selector(i), NamespaceSelector: &metav1.LabelSelector{}})
			if err != nil {
				t.Fatal(err)
			}
			m.Add(term, EffectOf(model.RequiredAntiAffinity, 0))
		}
		have, asked := m.effect(inNamespace{name: "other"}, labels.Set{"app": "v7", "tier": "x"})
		if have != row.want || asked > 2 {
			t.Errorf("%s: the effect is %+v, want %+v; %d terms are asked", row.name, have, row.want, asked)
		}
		if allocs := testing.AllocsPerRun(10, func() { m.effect(inNamespace{name: "other"}, labels.Set(nil)) }); allocs != 0 {
			t.Errorf("%s: %v allocations", row.name, allocs)
		}
	}
}

func expression(operator metav1.LabelSelectorOperator, key string, values ...string) func(i int) *metav1.LabelSelector {
	return func(i int) *metav1.LabelSelector {
		of := metav1.LabelSelectorRequirement{Key: key, Operator: operator}
		if len(values) == 0 {
			of.Key = fmt.Sprintf(key, i)
		}
		for _, value := range values {
			of.Values = append(of.Values, fmt.Sprintf(value, i))
		}
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{of}}
	}
}
