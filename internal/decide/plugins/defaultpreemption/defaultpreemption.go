// Package defaultpreemption makes room for a pod without a feasible node by evicting pods of lower priority.
//
// It takes a pod's cycle; it gives the pods to evict, the nomination of the pod to their node, and a text. It owns nothing: the search is
// engine/preempt's. It never evicts a pod: commit carries out what was decided.
package defaultpreemption

import (
	"fmt"
	"slices"
	"strings"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine/preempt"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Name is the plugin's name in the configuration.
const Name = "DefaultPreemption"

// prefix begins every text of the plugin.
const prefix = "preemption: "

// Groups says what of pod groups the plugin knows, by feature gates. The zero value knows of none.
type Groups struct {
	// Units means that groups are evicted whole if they say so, and that a member's group decides how important it is.
	Units bool
	// OwnPolicy means that a group has a preemption policy of its own, and that those of its members do not count.
	OwnPolicy bool
}

// Plugin has pods evicted. It is immutable and can be shared.
type Plugin struct{ groups Groups }

// New returns the plugin without groups. Its arguments say how many candidates are enough for kube-scheduler, which then looks at no further node; Berth looks at
// all nodes whatever they are.
func New(args *configv1.DefaultPreemptionArgs) (*Plugin, error) { return Groups{}.New(args) }

// New returns the plugin.
func (g Groups) New(*configv1.DefaultPreemptionArgs) (*Plugin, error) { return &Plugin{g}, nil }

// ByGroupPolicy reports whether a group's own preemption policy counts.
func (p *Plugin) ByGroupPolicy() bool { return p.groups.OwnPolicy }

// Name returns "DefaultPreemption".
func (*Plugin) Name() string { return Name }

// Reads returns the kind of budgets.
func (*Plugin) Reads() []model.Kind { return []model.Kind{model.PodDisruptionBudgetKind} }

// PreEnqueue holds back no pod by itself: the queue knows for which pods evictions are under way, and holds these back where the plugin is enabled.
func (*Plugin) PreEnqueue(*model.Pod) string { return "" }

// EventsToRegister registers for pods that are gone, by a hint that never helps. As in kube-scheduler, the pod is tried again when that helps the
// filters that rejected it.
func (*Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{{
		Resource: model.AssignedPodEvent, Actions: model.Delete, Hint: func(*model.Pod, model.Event) bool { return false },
	}}
}

// PostFilter returns the pods to evict. A pod that may not evict others now keeps its nomination; one for which nothing helps loses it.
func (p *Plugin) PostFilter(c plugin.Cycle, pod *model.Pod) (plugin.PostFilterResult, error) {
	if text := preempt.Ineligible(c, pod); text != "" {
		return plugin.PostFilterResult{Message: prefix + text}, nil
	}
	found, rejection, err := preempt.Search(c, pod)
	switch {
	case err != nil:
		return plugin.PostFilterResult{}, fmt.Errorf(prefix+"%w", err)
	case found == nil && rejection == nil:
		return plugin.PostFilterResult{Message: prefix + "no candidate node for preemption", Passing: true}, nil
	case found == nil:
		return plugin.PostFilterResult{Message: prefix + rejection.Text(c.View().Nodes()), Nomination: plan.Clear}, nil
	}
	return p.resultOf(c.View(), pod, found), nil
}

func (p *Plugin) resultOf(v state.View, pod *model.Pod, found *preempt.Candidate) plugin.PostFilterResult {
	node := v.Node(found.Slot).Name()
	result := plugin.PostFilterResult{Done: true, Nomination: plan.Set, NodeName: node, Evictions: p.evictions(v, node, found.Victims)}
	result.Message = fmt.Sprintf(prefix+"found a potential placement for pod on node %s, preempting %d victims", node, len(result.Evictions))
	if slices.ContainsFunc(result.Evictions, func(e plan.Eviction) bool { return !e.Pod.Terminating }) { // as in kube-scheduler, which starts nothing if all victims are leaving anyway
		result.Outranked = v.NominatedBelow(pod, found.Slot)
	}
	return result
}

// evictions returns the evictions of victims on a node, and behind them those of pods that can only be evicted with one of them, wherever these run: the other members of a group, or of all groups below a
// composite one, whose disruptionMode is all, by namespace and name.
func (p *Plugin) evictions(v state.View, node string, victims []*model.Pod) []plan.Eviction {
	evictions := make([]plan.Eviction, 0, len(victims))
	for _, victim := range victims {
		evictions = append(evictions, plan.Eviction{Pod: victim, NodeName: node})
	}
	if !p.groups.Units {
		return evictions
	}
	whole := map[state.Unit]bool{}
	for _, victim := range victims {
		with := v.UnitOf(victim)
		if with == (state.Unit{}) || whole[with] {
			continue
		}
		whole[with] = true
		var others []*model.Pod
		for member := range v.UnitMembers(with) {
			if !slices.ContainsFunc(victims, func(victim *model.Pod) bool { return victim.UID == member.UID }) {
				others = append(others, member)
			}
		}
		slices.SortFunc(others, func(a, b *model.Pod) int { return strings.Compare(a.Name, b.Name) })
		for _, member := range others {
			evictions = append(evictions, plan.Eviction{Pod: member, NodeName: member.NodeName})
		}
	}
	return evictions
}
