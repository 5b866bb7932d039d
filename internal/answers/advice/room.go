package advice

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// maxPriority is the priority in the search for pods to remove. It is below the system
// priorities, so system pods are never suggested.
const maxPriority = 2_000_000_000 - 1

// maxUserPriority is the highest priority of a PriorityClass that is not a system class.
const maxUserPriority = 1_000_000_000

// removals suggests the pods that preemption would evict for a pod of the highest
// priority. It also suggests a priority just above the victims, at which preemption would
// evict pods for this one.
func (t *trial) removals() {
	if t.Preempts || t.compiled.Priority >= maxPriority || !t.mayGoOn() {
		return
	}
	victims := t.victimsFor(maxPriority)
	if len(victims) == 0 {
		return
	}
	change := t.removed(victims)
	if on, ok := t.try(change); ok {
		t.advice.Suggestions = append(t.advice.Suggestions, Suggestion{Changes: []Change{change}, Node: on})
	}
	if t.compiled.NeverPreempts() || len(change.Pods) == 0 {
		return
	}
	highest := t.compiled.Priority
	for _, pod := range victims {
		if !pod.Terminating {
			highest = max(highest, pod.Priority)
		}
	}
	if highest++; highest <= t.compiled.Priority || highest > maxUserPriority {
		return
	}
	victims = t.victimsFor(highest)
	if len(victims) == 0 {
		return
	}
	raised := t.raised(highest, victims)
	evicted := t.removed(victims)
	evicted.edit = raised.edit
	if on, ok := t.try(evicted); ok {
		t.advice.Suggestions = append(t.advice.Suggestions, Suggestion{Changes: []Change{raised}, Node: on})
	}
}

// victimsFor returns the pods that preemption would evict for the pod at a priority, all
// on one node. It returns none if a budget forbids one of the evictions.
func (t *trial) victimsFor(priority int32) (victims []*model.Pod) {
	if !t.mayGoOn() {
		return nil
	}
	pod := edited(t.Pod, []Change{{edit: withPriority(priority)}})
	pod.Spec.PreemptionPolicy, pod.Status.NominatedNodeName = nil, ""
	d := t.decide(t.compile(pod))
	if d.Outcome != plan.Unschedulable || breaksBudget(t.State.View(), d.Evictions) {
		return nil
	}
	for i := range d.Evictions {
		victims = append(victims, d.Evictions[i].Pod)
	}
	return victims
}

func withPriority(priority int32) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Priority = &priority }
}

// breaksBudget reports whether evictions violate a PodDisruptionBudget by the rules of
// the eviction API. Preemption in 1.37 ignores some of these budgets.
func breaksBudget(v state.View, evictions []plan.Eviction) bool {
	disrupted := map[*state.Budget]int32{}
	for i := range evictions {
		if evictions[i].Pod.Terminating { // The pod is disrupted already.
			continue
		}
		for _, budget := range v.Budgets(evictions[i].Pod.Namespace) {
			selector, err := metav1.LabelSelectorAsSelector(budget.Object.Spec.Selector)
			if err == nil && !selector.Matches(evictions[i].Pod.Labels) || !budget.Counts(evictions[i].Pod) {
				continue
			}
			if disrupted[budget]++; disrupted[budget] > max(0, budget.Allowed) {
				return true
			}
		}
	}
	return false
}

// removed returns the change that removes pods; victims begin with the most important
// one. Pods that are being deleted only have to be waited for.
func (t *trial) removed(victims []*model.Pod) Change {
	change := Change{Kind: Remove, Object: "node " + victims[0].NodeName}
	var leaving []string
	for _, pod := range slices.Backward(victims) {
		change.swaps = append(change.swaps, swap{before: pod.Object})
		if pod.Terminating {
			leaving = append(leaving, pod.String())
			continue
		}
		change.Pods = append(change.Pods, pod.String())
	}
	change.Size = int64(len(change.Pods))
	wait := ""
	if len(leaving) > 0 {
		wait = "wait until " + listed(leaving) + " is gone from node " + victims[0].NodeName
	}
	switch {
	case len(change.Pods) == 0:
		change.Text = wait
	case wait == "":
		change.Text = fmt.Sprintf("remove %s %s from node %s", podOrPods(len(change.Pods)), listed(change.Pods), victims[0].NodeName)
	default:
		change.Text = fmt.Sprintf("remove %s %s from node %s, and wait until %s is gone from there", podOrPods(len(change.Pods)), listed(change.Pods), victims[0].NodeName, listed(leaving))
	}
	return change
}

func podOrPods(n int) string {
	if n == 1 {
		return "pod"
	}
	return "pods"
}

func (t *trial) raised(priority int32, victims []*model.Pod) Change {
	change := t.ofPod(Priority, int64(priority)-int64(t.compiled.Priority), withPriority(priority), "")
	for _, pod := range slices.Backward(victims) {
		if !pod.Terminating {
			change.Pods = append(change.Pods, pod.String())
		}
	}
	change.From, change.To = fmt.Sprint(t.compiled.Priority), fmt.Sprint(priority)
	change.Text = fmt.Sprintf("raise its priority from %d to %d or more, and %s will be evicted", t.compiled.Priority, priority, listed(change.Pods))
	return change
}

// maxListed limits the names in a text.
const maxListed = 3

func listed(names []string) string { return Few(names, maxListed) }

// Few lists the first `most` names, and the number of the remaining ones.
func Few(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
