package gang

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
)

// unit is what can only be evicted as a whole: a pod, or the members of a group whose disruptionMode is all.
type unit struct {
	// pods are sorted, the one that started first at the beginning.
	pods     []*model.Pod
	priority int32
	// grouped says that they are members of a group, evicted with it or by themselves; composite that they are evicted with all below a composite one.
	grouped, composite bool
	// started is when the first of them did.
	started int64
	// back says that its pods are on their nodes again.
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

// kind ranks what is evicted: a composite group above a group or one of its members, and these above a pod by itself.
func (u *unit) kind() int { return isTrue(u.composite) + isTrue(u.grouped) }

// byImportance puts the more important unit first: that of higher priority; of the higher kind; of more pods; that started first. Equals go by namespace and
// name, where kube-scheduler's order is unspecified.
func byImportance(a, b unit) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(b.kind(), a.kind()), cmp.Compare(len(b.pods), len(a.pods)), byStart(a.pods[0], b.pods[0]))
}

// candidates returns the units of lower priority than the group's on all nodes, in no particular order.
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

// violations returns how many pods of each unit violate a PodDisruptionBudget if all units before it are evicted.
func violations(v state.View, units []unit) []int {
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
				budgets = v.BudgetsOf(pod)
				selecting[pod.LabelSet()] = budgets
			}
			if violates(left, budgets, pod) {
				violating[i]++
			}
		}
	}
	return violating
}

// violates takes the eviction of a pod from what is left of its budgets. The first that has nothing left makes it a violation, and those after it are not asked.
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
