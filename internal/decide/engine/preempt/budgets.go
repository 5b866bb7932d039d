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

// maxLabelSets bounds the label sets in budgetsOf.
const maxLabelSets = 1 << 14

// of returns the budgets that protect a pod by the rules. Selectors are matched once for
// each label set.
func (b *budgetsOf) of(v state.View, pod *model.Pod, rules model.BudgetRules) []*state.Budget {
	if !rules.Protects(pod) || len(v.Budgets(pod.Namespace)) == 0 {
		return nil
	}
	if now := v.BudgetSelections(); b.by == nil || b.selections != now || len(b.by) >= maxLabelSets {
		b.by, b.selections = map[model.LabelSet][]*state.Budget{}, now
	}
	selecting, known := b.by[pod.LabelSet()]
	if !known {
		selecting = v.BudgetsOf(pod, rules)
		b.by[pod.LabelSet()] = selecting
	}
	return selecting
}

// split splits pods, in the order of importance, into two lists. The first list has the
// pods whose eviction would violate a PodDisruptionBudget if all pods before them were
// evicted, too. The budgets are the cluster's; possible victims on other nodes do not
// count.
func (m *Memory) split(v state.View, pods []*model.Pod) (violating, rest []*model.Pod) {
	if !v.HasBudgets() {
		return nil, pods
	}
	m.left = m.left[:0]
	m.violating, m.rest = m.violating[:0], m.rest[:0]
	for _, pod := range pods {
		if m.violates(m.budgets.of(v, pod, m.rules.Budgets), pod) {
			m.violating = append(m.violating, pod)
		} else {
			m.rest = append(m.rest, pod)
		}
	}
	return m.violating, m.rest
}

// left is the rest of a budget.
type left struct {
	budget *state.Budget
	n      int32
}

// violates charges a pod's eviction to its budgets. The first exhausted budget makes it a
// violation; later budgets are not charged.
func (m *Memory) violates(budgets []*state.Budget, pod *model.Pod) bool {
	for _, budget := range budgets {
		if budget.Counts(pod) && m.take(budget) < 0 {
			return true
		}
	}
	return false
}

// take charges one eviction to a budget and returns the rest.
func (m *Memory) take(budget *state.Budget) int32 {
	for i := range m.left { // short, since a node's pods have few budgets
		if l := &m.left[i]; l.budget == budget {
			l.n--
			return l.n
		}
	}
	m.left = append(m.left, left{budget, budget.Allowed - 1})
	return budget.Allowed - 1
}
