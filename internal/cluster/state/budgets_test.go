package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
)

// budgetOf is a budget with a selector in kubectl's notation; empty means none.
func budgetOf(namespace, name, selector string, allowed int32) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	b.Status.DisruptionsAllowed = allowed
	switch selector {
	case "": // absent
		return b
	case "{}":
		b.Spec.Selector = &metav1.LabelSelector{}
		return b
	}
	var err error
	if b.Spec.Selector, err = metav1.ParseToLabelSelector(selector); err != nil {
		panic(err)
	}
	return b
}

func setBudget(s *State, b *policyv1.PodDisruptionBudget) Delta {
	return s.Apply([]model.Change{compiled(model.NewDisruptionBudget(b))})
}

// TestBudgets sets, replaces and removes budgets: they are listed by namespace, in the
// order of names, in their newest versions.
func TestBudgets(t *testing.T) {
	s := New()
	set := func(namespace, name string, allowed int32) {
		if delta := setBudget(s, budgetOf(namespace, name, "app=web", allowed)); len(delta.Events) > 0 {
			t.Errorf("a budget raises the events %+v", delta.Events)
		}
	}
	gone := func(namespace, name string) {
		s.Apply([]model.Change{{Kind: model.ObjectGone, Ref: model.Ref{Kind: model.PodDisruptionBudgetKind, Namespace: namespace, Name: name}}})
	}
	for _, step := range []struct {
		do    func()
		want  string
		moves bool
	}{
		{func() {}, "", false},
		{func() { set("x", "b", 1) }, "b=1", true},
		{func() { set("x", "c", 0) }, "b=1 c=0", true},
		{func() { set("x", "a", 2) }, "a=2 b=1 c=0", true},
		{func() { set("y", "a", 9) }, "a=2 b=1 c=0", true},
		{func() { set("x", "b", 3) }, "a=2 b=3 c=0", true},
		{func() { gone("x", "a") }, "b=3 c=0", true},
		{func() { gone("x", "a") }, "b=3 c=0", false},
		{func() { gone("z", "a") }, "b=3 c=0", false},
		{func() { gone("x", "c") }, "b=3", true},
		{func() { gone("x", "b") }, "", true},
	} {
		before := s.View().BudgetsVersion()
		step.do()
		audited(t, s)
		var got []string
		for _, b := range s.View().Budgets("x") {
			got = append(got, fmt.Sprintf("%s=%d", b.Object.Name, b.Allowed))
		}
		if text := strings.Join(got, " "); text != step.want || (s.View().BudgetsVersion() != before) != step.moves {
			t.Errorf("budgets %q, want %q; the version went from %d to %d", text, step.want, before, s.View().BudgetsVersion())
		}
	}
	if !s.View().HasBudgets() {
		t.Error("no budget is left")
	}
}

// TestBudgetsOfAPod finds the budgets that select a pod, in the order of names, for all
// kinds of selectors.
func TestBudgetsOfAPod(t *testing.T) {
	s := New()
	for i, selector := range []string{"app in (web, db)", "app=web,tier=front", "app=db", "tier", "!other", "{}", ""} {
		setBudget(s, budgetOf("x", fmt.Sprint(i), selector, 0))
	}
	setBudget(s, budgetOf("y", "elsewhere", "app=web", 0))
	audited(t, s)
	rules := model.BudgetRules{}
	find := func(namespace string, labels map[string]string) string {
		p := podOn("p", "p", "n", 1).Pod.Object.DeepCopy()
		p.Namespace, p.Labels = namespace, labels
		var names []string
		for _, b := range s.View().BudgetsOf(model.NewPod(p), rules) {
			names = append(names, b.Object.Name)
		}
		return strings.Join(names, " ")
	}
	check := func(want string, namespace string, labels map[string]string) {
		t.Helper()
		if got := find(namespace, labels); got != want {
			t.Errorf("budgets of a pod in %s with %v: %q, want %q", namespace, labels, got, want)
		}
	}
	front := map[string]string{"app": "web", "tier": "front"}
	check("0 1 3 4", "x", front)
	check("elsewhere", "y", front)
	check("0 2", "x", map[string]string{"app": "db", "other": "1"})
	check("", "x", nil)
	rules.EmptySelector = true
	check("0 1 3 4 5", "x", front)
	check("", "x", nil)
	rules.UnlabelledPods = true
	check("4 5", "x", nil)
	rules.EmptySelector = false
	check("4", "x", nil)
	rules = model.BudgetRules{}

	before, selections := s.View().Budgets("x")[0], s.View().BudgetSelections()
	setBudget(s, budgetOf("x", "0", "app in (web, db)", 7))
	if after := s.View().Budgets("x")[0]; after != before || after.Allowed != 7 || s.View().BudgetSelections() != selections {
		t.Errorf("a budget that allows more is %+v; selections went from %d to %d", after, selections, s.View().BudgetSelections())
	}
	setBudget(s, budgetOf("x", "0", "app=db", 7))
	check("1 3 4", "x", front)
	audited(t, s)
	s.Apply([]model.Change{{Kind: model.ObjectGone, Ref: model.Ref{Kind: model.PodDisruptionBudgetKind, Namespace: "x", Name: "3"}}})
	check("1 4", "x", front)
	audited(t, s)
}

// TestBudgetedSince changes budgets: the result has the nodes with selected pods. It
// omits nodes with so few pods that their evictions could violate the budget neither
// before nor after.
func TestBudgetedSince(t *testing.T) {
	s := New()
	const nodes = 6
	for i := range nodes {
		s.Apply([]model.Change{node(fmt.Sprint("n", i))})
		for j := range 2 {
			p := podOn(fmt.Sprint(i, "-", j), fmt.Sprint(i, "-", j), fmt.Sprint("n", i), 1).Pod.Object.DeepCopy()
			p.Labels = map[string]string{"app": []string{"web", "db"}[i%2]}
			s.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(p)}})
		}
	}
	disrupted := budgetOf("ns", "a", "app=db", 1)
	disrupted.Status.DisruptedPods = map[string]metav1.Time{"1-0": {}}
	later := disrupted.DeepCopy()
	later.Status.DisruptedPods["1-0"] = metav1.Now()
	for i, step := range []struct {
		budget *policyv1.PodDisruptionBudget
		want   string
	}{
		{budgetOf("ns", "a", "app=web", 1), "n0 n2 n4"},
		{budgetOf("ns", "a", "app=web", 1), ""}, // another version of the object
		{budgetOf("ns", "a", "app=web", 0), "n0 n2 n4"},
		{budgetOf("ns", "a", "app=web", 9), "n0 n2 n4"},
		{budgetOf("ns", "a", "app=web", 2), ""}, // no node has more than two
		{budgetOf("ns", "a", "app=web", 0), "n0 n2 n4"},
		{budgetOf("ns", "a", "app=db", 1), "n0 n1 n2 n3 n4 n5"},
		{disrupted, "n1 n3 n5"},
		{later, ""},
		// The budget is found by the namespace, which has other pods.
		{budgetOf("ns", "a", "app notin (web)", 1), "n1 n3 n5"},
		{budgetOf("other", "a", "app=db", 1), ""},
		// The change of the selector names the pods that were selected before.
		{budgetOf("ns", "a", "{}", 1), "n1 n3 n5"},
		{budgetOf("ns", "a", "{}", 0), ""},
	} {
		before := s.View().BudgetsVersion()
		setBudget(s, step.budget)
		named := map[string]bool{}
		if !s.View().BudgetedSince(before, model.BudgetRules{}, func(slot int32) { named[s.View().Node(slot).Name()] = true }) {
			t.Errorf("step %d: too much has changed", i)
		}
		if step.budget.Namespace == "ns" && model.NewDisruptionBudget(step.budget).SelectsAll {
			all := map[string]bool{}
			if !s.View().BudgetedSince(before, model.AllSelected(), func(slot int32) { all[s.View().Node(slot).Name()] = true }) || len(all) != nodes {
				t.Errorf("step %d: with all rules %v, want all nodes", i, all)
			}
		}
		if got := strings.Join(slices.Sorted(maps.Keys(named)), " "); got != step.want {
			t.Errorf("step %d names %q, want %q", i, got, step.want)
		}
	}
	last := s.View().BudgetsVersion()
	want := len(s.budgets.changes)
	for i := range 3 * 512 {
		setBudget(s, budgetOf("other", "a", "app=db", int32(i%2)))
		if want++; want > 2*512 {
			want = 512 + 1
		}
		if n := len(s.budgets.changes); n != want {
			t.Fatalf("%d changes are kept, want %d", n, want)
		}
	}
	if s.View().BudgetedSince(last, model.BudgetRules{}, func(int32) {}) {
		t.Error("the first change is still known")
	}
	if now := s.View().BudgetsVersion(); !s.View().BudgetedSince(now-512, model.BudgetRules{}, func(int32) {}) || !s.View().BudgetedSince(now, model.BudgetRules{}, func(int32) {}) {
		t.Error("not even the last changes are known")
	}
	for i := range 10 * nodes {
		setBudget(s, budgetOf("ns", "a", "app=db", int32(i%2)))
	}
	if s.View().BudgetedSince(s.View().BudgetsVersion()-10*nodes, model.BudgetRules{}, func(int32) {}) {
		t.Error("every node is visited many times")
	}
}

// TestBudgetedSinceIsNotForMany checks the limit of four pods to visit per slot, where
// each label set counts like a pod: beyond it, any slot may be affected.
func TestBudgetedSinceIsNotForMany(t *testing.T) {
	for _, row := range []struct {
		web, others int
		known       bool
	}{{3, 0, true}, {4, 0, false}, {2, 1, true}, {0, 5, true}} {
		s := New()
		s.Apply([]model.Change{node("n")})
		for i := range row.web + row.others {
			p := podOn(fmt.Sprint(i), fmt.Sprint(i), "n", 1).Pod.Object
			p.Labels = map[string]string{"app": "web"}
			if i >= row.web {
				p.Labels["canary"] = "yes"
			}
			s.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(p)}})
		}
		setBudget(s, budgetOf("ns", "a", "app=web,!canary", 0))
		visited := 0
		if known := s.View().BudgetedSince(0, model.BudgetRules{}, func(slot int32) { visited++ }); known != row.known || known && visited != row.web {
			t.Errorf("%d pods that a budget selects and %d that it does not: known: %t, %d visited", row.web, row.others, known, visited)
		}
	}
}

// TestBudgetSelections sets, changes and removes budgets: only a change of the selected
// pods changes the version of selections.
func TestBudgetSelections(t *testing.T) {
	s := New()
	for i, step := range []struct {
		do      func()
		changes bool
	}{
		{func() { setBudget(s, budgetOf("ns", "a", "app=web", 1)) }, true},
		{func() { setBudget(s, budgetOf("ns", "a", "app=web", 2)) }, false},
		{func() { setBudget(s, budgetOf("ns", "a", "app=db", 2)) }, true},
		{func() {
			s.Apply([]model.Change{{Kind: model.ObjectGone, Ref: model.Ref{Kind: model.PodDisruptionBudgetKind, Namespace: "ns", Name: "a"}}})
		}, true},
		{func() {
			s.Apply([]model.Change{{Kind: model.ObjectGone, Ref: model.Ref{Kind: model.PodDisruptionBudgetKind, Namespace: "ns", Name: "a"}}})
		}, false},
	} {
		before := s.View().BudgetSelections()
		if step.do(); (s.View().BudgetSelections() != before) != step.changes {
			t.Errorf("step %d: selections went from %d to %d", i, before, s.View().BudgetSelections())
		}
	}
}
