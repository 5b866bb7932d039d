// Package defaultpreemption makes room for a pod without a feasible node by evicting pods
// of lower priority.
//
// It takes a pod's cycle. It returns the pods to evict, the nomination of the pod and a
// message. It owns nothing: package engine/preempt searches for the victims. It never
// evicts a pod: package commit executes the decision.
package defaultpreemption

import (
	"fmt"
	"slices"
	"strings"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Name is the plugin's name in the configuration.
const Name = "DefaultPreemption"

// prefix begins every message of the plugin.
const prefix = "preemption: "

// Groups holds the feature gates for pod groups. The zero value ignores groups.
type Groups struct {
	// Units enables disruptionMode, so that some groups are only evicted whole. A member
	// then has the importance of its group.
	Units bool
	// OwnPolicy makes a group's preemption policy replace the policies of its members.
	OwnPolicy bool
}

// Plugin preempts pods. It is immutable and can be shared.
type Plugin struct {
	groups Groups
	rules  plugin.PreemptionRules
}

// New returns the plugin without support for groups. The arguments are ignored: they
// limit kube-scheduler's number of candidates, and Berth examines all nodes.
func New(args *configv1.DefaultPreemptionArgs) (*Plugin, error) { return Groups{}.New(args) }

// New returns the plugin with the rules of 1.37.
func (g Groups) New(*configv1.DefaultPreemptionArgs) (*Plugin, error) { return &Plugin{groups: g}, nil }

// With returns the constructor of the plugin with the rules of a release.
func (g Groups) With(rules plugin.PreemptionRules) func(*configv1.DefaultPreemptionArgs) (*Plugin, error) {
	return func(*configv1.DefaultPreemptionArgs) (*Plugin, error) { return &Plugin{g, rules}, nil }
}

// Name returns "DefaultPreemption".
func (*Plugin) Name() string { return Name }

// Parts returns the plugin's parts at the extension points.
func (p *Plugin) Parts() *plugin.Parts {
	return plugin.New(plugin.Parts{
		Name:              Name,
		Objects:           []model.Kind{model.PodDisruptionBudgetKind},
		PreEnqueue:        &plugin.PreEnqueue{Pod: p.PreEnqueue},
		EnqueueExtensions: &plugin.EnqueueExtensions{Events: p.EventsToRegister()},
		PostFilter:        &plugin.PostFilter{Run: p.PostFilter, Group: &plugin.GroupPreemption{OwnPolicy: p.groups.OwnPolicy, Rules: p.rules}},
	})
}

// PreEnqueue gates no pod. The queue tracks the evictions under way and gates their
// preemptors where the plugin is enabled.
func (*Plugin) PreEnqueue(*model.Pod) string { return "" }

// EventsToRegister registers for deleted pods, with a hint that never helps. As in
// kube-scheduler, a deletion wakes the pod if it helps a filter that rejected the pod.
func (*Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{{
		Resource: model.AssignedPodEvent, Actions: model.Delete, Hint: func(*model.Pod, model.Event) bool { return false },
	}}
}

// PostFilter returns the pods to evict. A pod that may not preempt now keeps its
// nomination. A pod that preemption cannot help loses it.
func (p *Plugin) PostFilter(c plugin.Cycle, pod *model.Pod) (plugin.PostFilterResult, error) {
	found, err := c.Preempt(p.rules)
	switch {
	case err != nil:
		return plugin.PostFilterResult{}, fmt.Errorf(prefix+"%w", err)
	case found.Ineligible != "":
		return plugin.PostFilterResult{Message: prefix + found.Ineligible}, nil
	case found.Candidate == nil && found.Rejection == nil:
		return plugin.PostFilterResult{Message: prefix + "no candidate node for preemption", Transient: true}, nil
	case found.Candidate == nil:
		return plugin.PostFilterResult{Message: prefix + found.Rejection.Text(c.View().Nodes()), Nomination: plan.Clear}, nil
	}
	return p.resultOf(c.View(), found.Candidate), nil
}

func (p *Plugin) resultOf(v state.View, found *plugin.Candidate) plugin.PostFilterResult {
	node := v.Node(found.Slot).Name()
	result := plugin.PostFilterResult{Done: true, Nomination: plan.Set, NodeName: node, Evictions: p.evictions(v, node, found.Victims)}
	result.Message = fmt.Sprintf(prefix+"found a potential placement for pod on node %s, preempting %d victims", node, len(result.Evictions))
	// As in kube-scheduler, nothing starts if all victims are terminating.
	if slices.ContainsFunc(result.Evictions, func(e plan.Eviction) bool { return !e.Pod.Terminating }) {
		result.Outranked = found.Outranked
	}
	return result
}

// evictions returns the evictions of the victims on a node, then those of pods that can
// only be evicted together with a victim, on any node. These are the other members of the
// victim's group, or of all groups below its composite group, if its disruptionMode is
// all. They are sorted by name.
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
