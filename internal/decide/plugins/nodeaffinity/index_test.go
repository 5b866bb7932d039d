package nodeaffinity

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	affinity "k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// pick returns a random value.
func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// randomTerm has few keys and values, so that terms share them and repeat them.
func randomTerm(r *rand.Rand, values int) v1.NodeSelectorTerm {
	var t v1.NodeSelectorTerm
	for range r.IntN(4) {
		x := v1.NodeSelectorRequirement{Key: pick(r, "a", "b", "c", "d"), Operator: pick(r, v1.NodeSelectorOpIn, v1.NodeSelectorOpIn,
			v1.NodeSelectorOpNotIn, v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist, v1.NodeSelectorOpGt, v1.NodeSelectorOpLt)}
		switch x.Operator {
		case v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn:
			for range 1 + r.IntN(4) {
				x.Values = append(x.Values, fmt.Sprint(r.IntN(values)))
			}
		case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt:
			x.Values = []string{fmt.Sprint(r.IntN(values))}
		}
		t.MatchExpressions = append(t.MatchExpressions, x)
	}
	if r.IntN(4) == 0 {
		t.MatchFields = append(t.MatchFields, v1.NodeSelectorRequirement{Key: pick(r, nameField, nameField, nameField, "metadata.uid"),
			Operator: pick(r, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn), Values: []string{pick(r, "n0", "n1", "n2", "")}})
	}
	return t
}

func randomNode(r *rand.Rand, values int) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", r.IntN(4)), Labels: map[string]string{}}}
	for range r.IntN(6) {
		n.Labels[pick(r, "a", "b", "c", "d", "e", "f")] = pick(r, fmt.Sprint(r.IntN(values)), "other", "")
	}
	return n
}

// TestIndexAgreesWithTheLibrary compares an index with the library: the matching nodes,
// and the sums of weights. Some indexes have few terms, others enough terms for sets in
// place of lists.
func TestIndexAgreesWithTheLibrary(t *testing.T) {
	matched, unmatched := 0, 0
	for seed := range 400 {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		values := pick(r, 2, 5, 40)
		source := &v1.NodeSelector{}
		var weighted []v1.PreferredSchedulingTerm
		for range pick(r, 1, 3, 20, 90, 700) {
			term := randomTerm(r, values)
			if isEmpty(&term) || r.IntN(3) == 0 && len(source.NodeSelectorTerms) > 3 {
				term = randomTerm(r, 1000) // with values that few terms share
			}
			source.NodeSelectorTerms = append(source.NodeSelectorTerms, term)
			weighted = append(weighted, v1.PreferredSchedulingTerm{Weight: pick[int32](r, 0, 1, 7, 100, -3), Preference: term})
		}
		if r.IntN(2) == 0 { // so that some nodes meet no term
			source.NodeSelectorTerms = source.NodeSelectorTerms[:1]
		}
		library := affinity.NewLazyErrorNodeSelector(source)
		scores, err := affinity.NewPreferredSchedulingTerms(weighted)
		if err != nil {
			t.Fatal(err)
		}
		var terms, rated []term
		var weights []int32
		for i := range source.NodeSelectorTerms {
			if !isEmpty(&source.NodeSelectorTerms[i]) {
				terms = append(terms, termOf(&source.NodeSelectorTerms[i]))
			}
		}
		for _, w := range weightedTermsOf(weighted) {
			rated, weights = append(rated, w.term), append(weights, w.weight)
		}
		m, s := matcherOf(indexOf(terms, nil)), matcherOf(indexOf(rated, weights))
		for range 40 {
			n := randomNode(r, values)
			want, _ := library.Match(n)
			if got := m.matches(n); got != want {
				t.Fatalf("seed %d: node %s %v matches = %t, want %t", seed, n.Name, n.Labels, got, want)
			}
			if want {
				matched++
			} else {
				unmatched++
			}
			if got, want := int64(s.weight(n)), scores.Score(n); got != want {
				t.Fatalf("seed %d: node %s %v scores %d, want %d", seed, n.Name, n.Labels, got, want)
			}
		}
	}
	if matched < 1000 || unmatched < 1000 {
		t.Errorf("%d nodes matched and %d did not: the test says little", matched, unmatched)
	}
}

// stepsFor counts the words and verdicts that a matcher reads for the labels of a node.
func (m *matcher) stepsFor(node *v1.Node) (steps int) {
	m.look(node)
	for _, at := range m.present {
		k := &m.byKey[at]
		steps += len(k.objecting.few) + len(k.objecting.all)
		if number, listed := k.listed[node.Labels[k.name]]; listed {
			steps += len(k.verdicts[number])
			if all := k.objectors[number]; all != nil {
				steps += len(all) - len(k.verdicts[number])
			}
		}
		if len(k.ranged) <= sparse(m.terms) {
			steps += len(k.ranged)
		} else {
			steps += len(m.met)
		}
	}
	return steps
}

// TestManyTermsCostANodeItsLabels: 10,000 terms cost a node a few hundred steps for each
// of its labels. This holds for any operator, even if all terms judge the value of the
// node.
func TestManyTermsCostANodeItsLabels(t *testing.T) {
	const terms = 10_000
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"pool": "7", "zone": "a", "host": "n"}}}
	for name, values := range map[string]func(i int) []string{
		"In": func(i int) []string { return []string{fmt.Sprint("x", i)} }, "NotIn": func(i int) []string { return []string{fmt.Sprint("x", i)} },
		"In with the node's": func(i int) []string { return []string{fmt.Sprint("x", i), "7"} }, "NotIn with the node's": func(i int) []string { return []string{fmt.Sprint("x", i), "7"} },
		"Exists": func(int) []string { return nil }, "DoesNotExist": func(int) []string { return nil },
		"Gt": func(i int) []string { return []string{fmt.Sprint(i)} }, "Lt": func(i int) []string { return []string{fmt.Sprint(i)} },
	} {
		operator, _, _ := strings.Cut(name, " ")
		var all []term
		for i := range terms {
			all = append(all, termOf(&v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{
				{Key: "pool", Operator: v1.NodeSelectorOperator(operator), Values: values(i)}, {Key: fmt.Sprint("k", i), Operator: v1.NodeSelectorOpDoesNotExist},
			}}))
		}
		if steps := matcherOf(indexOf(all, nil)).stepsFor(n); steps > 600 {
			t.Errorf("%s: %d steps for one node", name, steps)
		}
	}
}
