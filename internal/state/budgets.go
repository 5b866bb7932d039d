package state

import (
	"cmp"
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
)

// budgets are the PodDisruptionBudgets, which preemption prefers not to violate.
//
// Invariant: each is listed once, under its namespace, in the order of names; no list is empty.
type budgets struct {
	byNamespace map[string][]*model.DisruptionBudget
	// version changes with every version of a budget.
	version uint64
}

func (b *budgets) find(ref model.Ref) (at int, found bool) {
	return slices.BinarySearchFunc(b.byNamespace[ref.Namespace], ref.Name, func(have *model.DisruptionBudget, name string) int {
		return cmp.Compare(have.Object.Name, name)
	})
}

// setBudget stores a budget. It wakes no pod, as in kube-scheduler.
func (s *State) setBudget(budget *model.DisruptionBudget) {
	s.budgets.version++
	at, found := s.budgets.find(budget.Ref())
	in := s.budgets.byNamespace[budget.Namespace]
	if found {
		in[at] = budget
		return
	}
	s.budgets.byNamespace[budget.Namespace] = slices.Insert(in, at, budget)
}

func (s *State) removeBudget(ref model.Ref) {
	at, found := s.budgets.find(ref)
	if !found {
		return
	}
	s.budgets.version++
	if in := slices.Delete(s.budgets.byNamespace[ref.Namespace], at, at+1); len(in) > 0 {
		s.budgets.byNamespace[ref.Namespace] = in
	} else {
		delete(s.budgets.byNamespace, ref.Namespace)
	}
}

// Budgets returns the PodDisruptionBudgets of a namespace, by name. The slice is the state's own and valid until the next change.
func (v View) Budgets(namespace string) []*model.DisruptionBudget {
	return v.s.budgets.byNamespace[namespace]
}

// HasBudgets reports whether there is any PodDisruptionBudget.
func (v View) HasBudgets() bool { return len(v.s.budgets.byNamespace) > 0 }

// BudgetsVersion changes with every version of a PodDisruptionBudget.
func (v View) BudgetsVersion() uint64 { return v.s.budgets.version }
