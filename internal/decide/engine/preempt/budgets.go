package preempt

import (
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
)

// budgetsOf are the PodDisruptionBudgets that select the pods of a label set.
type budgetsOf struct {
	selections uint64
	by         map[model.LabelSet][]*state.Budget
}

// mostLabelSets bounds the memory for label sets whose budgets are known.
const mostLabelSets = 1 << 14

// of returns the budgets that select a pod. Selectors are matched once for each label set.
func (b *budgetsOf) of(v state.View, pod *model.Pod) []*state.Budget {
	if len(pod.Labels) == 0 || len(v.Budgets(pod.Namespace)) == 0 {
		return nil
	}
	if now := v.BudgetSelections(); b.by == nil || b.selections != now || len(b.by) >= mostLabelSets {
		b.by, b.selections = map[model.LabelSet][]*state.Budget{}, now
	}
	selecting, known := b.by[pod.LabelSet()]
	if !known {
		selecting = v.BudgetsOf(pod)
		b.by[pod.LabelSet()] = selecting
	}
	return selecting
}

// split splits pods, in the order of importance, into those whose eviction would violate a PodDisruptionBudget if all before them were evicted, and the
// rest. The budgets are those of the cluster: what other nodes' victims would take is not counted.
func (m *memory) split(v state.View, pods []*model.Pod) (violating, rest []*model.Pod) {
	if !v.HasBudgets() {
		return nil, pods
	}
	m.left = m.left[:0]
	m.violating, m.rest = m.violating[:0], m.rest[:0]
	for _, pod := range pods {
		if m.violates(m.budgets.of(v, pod), pod) {
			m.violating = append(m.violating, pod)
		} else {
			m.rest = append(m.rest, pod)
		}
	}
	return m.violating, m.rest
}

// left is what is left of a budget.
type left struct {
	budget *state.Budget
	n      int32
}

// violates takes a pod's eviction from what is left of the budgets. The first budget that has nothing left makes it a violation, and those after it
// are not asked.
func (m *memory) violates(budgets []*state.Budget, pod *model.Pod) bool {
	for _, budget := range budgets {
		if budget.Counts(pod) && m.take(budget) < 0 {
			return true
		}
	}
	return false
}

// take takes one eviction from a budget. It returns what is left.
func (m *memory) take(budget *state.Budget) int32 {
	for i := range m.left { // a node's pods have few
		if l := &m.left[i]; l.budget == budget {
			l.n--
			return l.n
		}
	}
	m.left = append(m.left, left{budget, budget.Allowed - 1})
	return budget.Allowed - 1
}
