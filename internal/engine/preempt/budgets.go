package preempt

import (
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/state"
)

// splitByBudgets splits pods, in the order of importance, into those whose eviction would violate a PodDisruptionBudget if all before them were
// evicted, and the rest. The budgets are those of the cluster: what other nodes' victims would take is not counted.
func splitByBudgets(v state.View, pods []*model.Pod) (violating, rest []*model.Pod) {
	if !v.HasBudgets() {
		return nil, pods
	}
	left := map[*model.DisruptionBudget]int32{}
	for _, pod := range pods {
		if violates(left, v.Budgets(pod.Namespace), pod) {
			violating = append(violating, pod)
		} else {
			rest = append(rest, pod)
		}
	}
	return violating, rest
}

// violates takes a pod's eviction from what is left of the budgets. The first budget that has nothing left makes it a violation, and those after it
// are not asked.
func violates(left map[*model.DisruptionBudget]int32, budgets []*model.DisruptionBudget, pod *model.Pod) bool {
	for _, budget := range budgets {
		if !budget.Covers(pod) {
			continue
		}
		n, known := left[budget]
		if !known {
			n = budget.Allowed
		}
		n--
		left[budget] = n
		if n < 0 {
			return true
		}
	}
	return false
}
