package state

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
)

// budgets are the PodDisruptionBudgets, which preemption prefers not to violate.
//
// Invariant: each is listed once, under its namespace, in the order of names; no list is
// empty. index has exactly the budgets that select any pod.
type budgets struct {
	byNamespace map[string][]*Budget
	index       selectionIndex[*Budget]
	// version changes whenever the input of preemption changes. selections changes when a
	// budget selects other pods.
	version, selections uint64
	// changes are the last changes, the newest at version.
	changes []budgetChange
}

// Budget is a PodDisruptionBudget in its newest version. Its address stays the same for
// as long as it selects the same pods.
type Budget struct {
	*model.DisruptionBudget
	term  *model.Term // selects the same pods
	filed filing[labelKey]
}

func (b *Budget) filing() *filing[labelKey] { return &b.filed }

// budgetChange affects the pods that a term selects, on nodes with more than enough pods.
// Evicting up to enough pods neither violated the budget before nor does so now.
type budgetChange struct {
	term       *model.Term
	selectsAll bool // by the selector {}
	enough     int32
}

// maxBudgetChanges is the minimum number of changes kept; the maximum is twice that.
const maxBudgetChanges = 512

func (b *budgets) find(ref model.Ref) (at int, found bool) {
	return slices.BinarySearchFunc(b.byNamespace[ref.Namespace], ref.Name, func(have *Budget, name string) int {
		return cmp.Compare(have.Object.Name, name)
	})
}

func (b *budgets) changed(budget *Budget, enough int32) {
	b.version++
	if len(b.changes) >= 2*maxBudgetChanges {
		b.changes = append(b.changes[:0], b.changes[maxBudgetChanges:]...)
	}
	b.changes = append(b.changes, budgetChange{budget.term, budget.SelectsAll, enough})
}

func (b *budgets) add(budget *Budget) {
	if _, selectable := budget.Selector.Requirements(); selectable {
		b.index.add(budget.term, budget)
	}
	b.selections++
	b.changed(budget, budget.Allowed)
}

func (b *budgets) remove(budget *Budget) {
	b.index.remove(budget)
	b.selections++
	b.changed(budget, budget.Allowed)
}

// setBudget stores a budget. It wakes no pod, as in kube-scheduler.
func (s *State) setBudget(budget *model.DisruptionBudget) {
	at, found := s.budgets.find(budget.Ref())
	in := s.budgets.byNamespace[budget.Namespace]
	if found {
		have := in[at]
		if equality.Semantic.DeepEqual(have.Object.Spec.Selector, budget.Object.Spec.Selector) {
			before := have.DisruptionBudget
			have.DisruptionBudget = budget
			if before.Allowed != budget.Allowed || !sameDisrupted(before.Object.Status.DisruptedPods, budget.Object.Status.DisruptedPods) {
				s.budgets.changed(have, min(before.Allowed, budget.Allowed))
			}
			return
		}
		s.budgets.remove(have)
	} else {
		in = slices.Insert(in, at, nil)
		s.budgets.byNamespace[budget.Namespace] = in
	}
	in[at] = &Budget{DisruptionBudget: budget, term: &model.Term{Namespaces: []string{budget.Namespace}, Selector: budget.Selector}}
	s.budgets.add(in[at])
}

// sameDisrupted reports whether two statuses name the same pods. The times may differ.
func sameDisrupted(a, b map[string]metav1.Time) bool {
	return maps.EqualFunc(a, b, func(_, _ metav1.Time) bool { return true })
}

func (s *State) removeBudget(ref model.Ref) {
	at, found := s.budgets.find(ref)
	if !found {
		return
	}
	in := s.budgets.byNamespace[ref.Namespace]
	s.budgets.remove(in[at])
	if in = slices.Delete(in, at, at+1); len(in) > 0 {
		s.budgets.byNamespace[ref.Namespace] = in
	} else {
		delete(s.budgets.byNamespace, ref.Namespace)
	}
}

// Budgets returns the PodDisruptionBudgets of a namespace, by name. The slice is the
// state's own and valid until the next change.
func (v View) Budgets(namespace string) []*Budget { return v.s.budgets.byNamespace[namespace] }

// BudgetsOf returns the PodDisruptionBudgets that protect a pod by the rules, by name,
// whether or not they count its disruption.
func (v View) BudgetsOf(pod *model.Pod, rules model.BudgetRules) []*Budget {
	if !rules.Protects(pod) {
		return nil
	}
	var selecting []*Budget
	v.s.budgets.index.candidates(pod, func(b *Budget) {
		if rules.Include(b.DisruptionBudget) && b.Selector.Matches(pod.Labels) {
			selecting = append(selecting, b)
		}
	})
	slices.SortFunc(selecting, func(a, b *Budget) int { return cmp.Compare(a.Object.Name, b.Object.Name) })
	return selecting
}

// HasBudgets reports whether any PodDisruptionBudget exists.
func (v View) HasBudgets() bool { return len(v.s.budgets.byNamespace) > 0 }

// BudgetsVersion changes with the input of preemption in any PodDisruptionBudget: its
// selector, its allowed disruptions and its disrupted pods.
func (v View) BudgetsVersion() uint64 { return v.s.budgets.version }

// BudgetSelections changes when the result of BudgetsOf changes for some pod.
func (v View) BudgetSelections() uint64 { return v.s.budgets.selections }

// BudgetedSince calls yield with the slots where evictions may violate other budgets than
// at the given version, by the rules. A slot is repeated if several of its pods are
// affected. It returns false if any slot may be affected: the version is too old, or more
// than four pods per slot would have to be checked. Then it may have called yield for
// some slots already.
func (v View) BudgetedSince(version uint64, rules model.BudgetRules, yield func(slot int32)) bool {
	s := v.s
	since := s.budgets.version - version
	if since > uint64(len(s.budgets.changes)) {
		return false
	}
	visits := 4 * s.Slots()
	for _, change := range s.budgets.changes[len(s.budgets.changes)-int(since):] {
		if change.selectsAll && !rules.EmptySelector {
			continue
		}
		for _, key := range s.population.fewest(change.term.Namespaces, model.Demands(change.term.Selector)) {
			for _, l := range s.population.index.under.Get(key) {
				if visits--; !change.term.Selector.Matches(l.labels) {
					continue
				}
				if visits -= len(l.pods); visits < 0 {
					return false
				}
				for _, p := range l.pods {
					if int32(len(s.pods[p.slot])) > change.enough {
						yield(p.slot)
					}
				}
			}
		}
	}
	return true
}
