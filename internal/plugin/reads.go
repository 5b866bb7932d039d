package plugin

import (
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
)

// Reads declares the inputs of a filter besides the pod.
//
// The declaration determines which node changes make a column stale, which kinds are
// watched, and which events can help a rejected pod (see Events). A forgotten
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

// ReadsOf returns the declared inputs of a plugin's filter. ok is false if the plugin has
// no filter, or a filter whose verdicts are not cached.
func ReadsOf(p Plugin) (r Reads, ok bool) {
	switch f := p.(type) {
	case StateFilter:
		r = Reads{Nodes: f.FilterReads(), Objects: f.Reads()}
	case NodeFilter:
		r.Nodes = f.FilterReads()
	case CountFilter:
		r = f.CountReads()
	default:
		return r, false
	}
	return r, true
}

// Events returns the events that can help a pod that the plugin rejected. These are the
// plugin's own registrations, each narrowed by a hint, and the declared inputs of its
// filter that no registration covers, without a hint.
func Events(x EnqueueExtensions) []model.EventToRegister {
	own := x.EventsToRegister()
	reads, ok := ReadsOf(x)
	if !ok {
		return own
	}
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
	return append(own[:len(own):len(own)], missing...)
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
