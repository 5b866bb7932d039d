package gang

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// unit is the smallest set of pods that can be evicted: a pod, or all members of a group
// whose disruptionMode is all.
type unit struct {
	// pods are sorted by start time, earliest first.
	pods     []*model.Pod
	priority int32
	// grouped means that the pods are members of a group, evicted together or alone.
	// composite means that they are evicted with all groups below a composite group.
	grouped, composite bool
	// started is the start time of the earliest pod.
	started int64
	// back means that the pods have returned to their nodes.
	back bool
}

// unstarted is later than every start time.
const unstarted = math.MaxInt64

func startOf(pod *model.Pod) int64 {
	if seconds, ok := pod.Started(); ok {
		return seconds
	}
	return unstarted
}

func byStart(a, b *model.Pod) int {
	return cmp.Or(cmp.Compare(startOf(a), startOf(b)), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

func (a *attempt) newUnit(v state.View, pods ...*model.Pod) unit {
	slices.SortFunc(pods, byStart)
	return unit{pods: pods, priority: v.PreemptionPriority(pods[0]), grouped: pods[0].Group != (model.GroupKey{}), started: startOf(pods[0])}
}

// kind ranks units: a composite group above a group or one member, and these above a pod
// without a group.
func (u *unit) kind() int { return isTrue(u.composite) + isTrue(u.grouped) }

// byImportance sorts the more important unit first: higher priority, then higher kind,
// then more pods, then earlier start. The rules break ties by the UID of the first pod,
// or by namespace and name where kube-scheduler's order is unspecified.
func byImportance(rules plugin.PreemptionRules) func(a, b unit) int {
	return func(a, b unit) int {
		byUID := 0
		if rules.TiesByUID && a.started == b.started {
			byUID = cmp.Compare(a.pods[0].UID, b.pods[0].UID)
		}
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(b.kind(), a.kind()), cmp.Compare(len(b.pods), len(a.pods)), byUID, byStart(a.pods[0], b.pods[0]))
	}
}

// candidates returns the units of lower priority than the group's on all nodes, in
// unspecified order.
func (a *attempt) candidates(v state.View) []unit {
	if !v.UnitsBelow(a.Group.Priority) {
		return nil
	}
	var units []unit
	whole := map[state.Unit]bool{}
	for slot, alive := range a.state.Alive() {
		if !alive {
			continue
		}
		for pod := range v.PodsOn(int32(slot)) {
			if v.PreemptionPriority(pod) >= a.Group.Priority {
				continue
			}
			with := v.UnitOf(pod)
			if with == (state.Unit{}) {
				units = append(units, a.newUnit(v, pod))
				continue
			}
			if !whole[with] {
				whole[with] = true
				u := a.newUnit(v, slices.Collect(v.UnitMembers(with))...)
				u.composite = with.Composite
				units = append(units, u)
			}
		}
	}
	return units
}

// violations returns the number of pods in each unit that violate a PodDisruptionBudget
// by the rules if all units before it are evicted.
func violations(v state.View, rules model.BudgetRules, units []unit) []int {
	violating := make([]int, len(units))
	if !v.HasBudgets() {
		return violating
	}
	left := map[*state.Budget]int32{}
	selecting := map[model.LabelSet][]*state.Budget{}
	for i := range units {
		for _, pod := range units[i].pods {
			budgets, known := selecting[pod.LabelSet()]
			if !known {
				budgets = v.BudgetsOf(pod, rules)
				selecting[pod.LabelSet()] = budgets
			}
			if violates(left, budgets, pod) {
				violating[i]++
			}
		}
	}
	return violating
}

// violates subtracts the eviction of a pod from its remaining budgets. The first
// exhausted budget makes it a violation; later budgets are not charged.
func violates(left map[*state.Budget]int32, budgets []*state.Budget, pod *model.Pod) bool {
	for _, budget := range budgets {
		if !budget.Counts(pod) {
			continue
		}
		if _, known := left[budget]; !known {
			left[budget] = budget.Allowed
		}
		if left[budget]--; left[budget] < 0 {
			return true
		}
	}
	return false
}
