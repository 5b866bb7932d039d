package nodeaffinity

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

const nameField = "metadata.name"

// PreFilter returns the node names that the pod's required terms allow, sorted, if every
// term has a requirement on metadata.name. If contradictory terms leave no name, it
// rejects every node.
func (*Plugin) PreFilter(_ state.View, pod *model.Pod) plugin.PreFilterResult {
	terms := required(pod.Object)
	if terms == nil || len(terms.NodeSelectorTerms) == 0 {
		return plugin.PreFilterResult{}
	}
	names := make([]string, 0, len(terms.NodeSelectorTerms))
	for i := range terms.NodeSelectorTerms {
		allowed, named := namesOf(&terms.NodeSelectorTerms[i])
		if !named {
			return plugin.PreFilterResult{}
		}
		names = append(names, allowed...)
	}
	if len(names) == 0 {
		return plugin.PreFilterResult{Rejection: "pod affinity terms conflict"}
	}
	slices.Sort(names)
	return plugin.PreFilterResult{Narrowed: true, Nodes: slices.Compact(names)}
}

// Skips reports whether the pod's terms allow all names.
func (p *Plugin) Skips(pod *model.Pod) bool {
	result := p.PreFilter(state.View{}, pod)
	return result.IsZero()
}

// namesOf returns the names common to all requirements metadata.name In [...] of the
// term. named is false without such a requirement. Other requirements are ignored, even
// if malformed.
func namesOf(term *v1.NodeSelectorTerm) (names []string, named bool) {
	for i := range term.MatchFields {
		r := &term.MatchFields[i]
		switch {
		case r.Key != nameField || r.Operator != v1.NodeSelectorOpIn:
		case !named:
			names, named = slices.Clone(r.Values), true
		default:
			values := model.SortedCopy(r.Values)
			names = slices.DeleteFunc(names, func(name string) bool {
				_, listed := slices.BinarySearch(values, name)
				return !listed
			})
		}
	}
	return names, named
}
