package plugin

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
)

// Reads declares the inputs of a filter besides the pod.
//
// The declaration determines which node changes make a column stale, which kinds are
// watched, and which events can help a rejected pod. New registers the inputs that no
// event of the plugin's EnqueueExtensions covers, without a hint. A forgotten
// registration therefore wakes too many pods, never too few. Hints are trusted, and any
// registration for a kind of objects counts for all of its actions.
type Reads struct {
	// Nodes are the aspects of a node.
	Nodes model.Aspect
	// Domains means that the filter counts pods in the domains of nodes. Other pods and
	// deleted nodes then matter too.
	Domains bool
	// Objects are the kinds of other objects.
	Objects []model.Kind
}

// addEvents registers the inputs of the filter that no event covers, without a hint.
func (p *Parts) addEvents() {
	if p.Filter.Turn != nil {
		return // it declares no inputs
	}
	if p.EnqueueExtensions == nil {
		p.EnqueueExtensions = &EnqueueExtensions{}
	}
	reads, own := &p.Filter.Reads, p.EnqueueExtensions.Events
	var missing []model.EventToRegister
	need := func(resource model.EventResource, actions model.Action) {
		for i := range own {
			if own[i].Resource.Covers(resource) {
				actions &^= own[i].Actions
			}
		}
		if actions != 0 {
			missing = append(missing, model.EventToRegister{Resource: resource, Actions: actions})
		}
	}
	need(model.NodeEvent, reads.ofNodes())
	need(model.AssignedPodEvent, reads.ofPods())
	for _, kind := range reads.Objects {
		resource, ok := state.EventOf(kind)
		if ok && !mentions(own, resource) && !mentions(missing, resource) {
			need(resource, model.AllActions)
		}
	}
	p.EnqueueExtensions.Events = append(slices.Clip(own), missing...)
}

func mentions(events []model.EventToRegister, resource model.EventResource) bool {
	for i := range events {
		if events[i].Resource.Covers(resource) {
			return true
		}
	}
	return false
}

// ofNodes returns the actions on nodes that can help.
func (r *Reads) ofNodes() model.Action {
	actions := model.Add
	if r.Domains {
		actions |= model.Delete | model.UpdateNodeLabel
	}
	for _, x := range []struct {
		aspect model.Aspect
		action model.Action
	}{
		{model.Labels, model.UpdateNodeLabel}, {model.Taints, model.UpdateNodeTaint},
		{model.Allocatable, model.UpdateNodeAllocatable}, {model.Features, model.UpdateNodeDeclaredFeature},
	} {
		if r.Nodes&x.aspect != 0 {
			actions |= x.action
		}
	}
	return actions
}

// ofPods returns the actions on assigned pods that can help.
func (r *Reads) ofPods() (actions model.Action) {
	if r.Nodes&(model.Usage|model.Ports) != 0 {
		actions |= model.Delete
	}
	if r.Nodes&model.Usage != 0 {
		actions |= model.UpdatePodScaleDown
	}
	if r.Domains {
		actions |= model.Add | model.Delete | model.UpdatePodLabel
	}
	return actions
}
