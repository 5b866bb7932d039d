package preempt

import (
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// victims returns the pods of lower priority that must be evicted from a node, or the
// first objection to the node that evicting all of them leaves. any is false if the node
// has none.
//
// All are removed and then returned one after the other. Pods whose eviction would
// violate a budget return first, then the others, each by importance. Pods with which the
// preemptor no longer fits are the victims. So the victims are not always the fewest
// possible, nor always of the lowest priority.
func (s *search) victims(slot int32) (found plugin.Candidate, o Objection, any bool) {
	all := s.memory.lowerPods(s.cycle.View, slot, s.pod.Priority)
	if len(all) == 0 {
		return found, o, false
	}
	if s.onlyUsage {
		found, o = s.victimsByUse(slot, all)
	} else {
		found, o = s.victimsByDryRun(slot, all)
	}
	s.memory.sortByImportance(found.Victims)
	return found, o, true
}

// victimsByDryRun runs all filters in a dry run. A filter that fails there is the
// objection to the node.
func (s *search) victimsByDryRun(slot int32, all []*model.Pod) (plugin.Candidate, Objection) {
	dryRun := s.cycle.View.DryRun(&s.memory.draft)
	for _, pod := range all {
		dryRun.Remove(pod.Key())
	}
	if o := s.cycle.Objection(dryRun, slot); !o.IsNone() {
		return plugin.Candidate{}, o
	}
	var failure Objection
	found := s.reprieve(slot, all, func(pod *model.Pod) (fits bool) {
		if !failure.IsNone() {
			return false
		}
		dryRun.Add(pod, slot)
		o := s.cycle.Objection(dryRun, slot)
		// no pod is evicted after an error; kube-scheduler evicts after a Filter plugin's
		// error
		if o.Code.IsFailed() {
			failure = o
		}
		if fits = o.IsNone(); !fits {
			dryRun.Remove(pod.Key())
		}
		return fits
	})
	if !failure.IsNone() {
		return plugin.Candidate{}, failure
	}
	return found, Objection{}
}

// victimsByUse adds up resource usage, which is all that filters read.
func (s *search) victimsByUse(slot int32, all []*model.Pod) (plugin.Candidate, Objection) {
	if o := s.objectionWithout(slot); !o.IsNone() {
		return plugin.Candidate{}, o
	}
	use := &s.memory.use
	return s.reprieve(slot, all, func(pod *model.Pod) (fits bool) {
		use.Add(pod, +1)
		if fits = s.cycle.FitsWith(slot, use); !fits {
			use.Add(pod, -1)
		}
		return fits
	}), Objection{}
}

// objectionWithout returns the first objection to a node without its pods of lower
// priority. Afterwards the node's usage without them is in memory.
func (s *search) objectionWithout(slot int32) Objection {
	node, use := s.cycle.View.Node(slot), &s.memory.use
	use.Reset(node)
	bands := node.Bands()
	for i := range bands {
		if b := &bands[i]; b.Priority < s.pod.Priority {
			use.RemoveBand(b)
		}
	}
	return s.cycle.ObjectionWith(slot, use)
}

// reprieve puts back the pods that can stay. The rest are the victims.
func (s *search) reprieve(slot int32, all []*model.Pod, stays func(*model.Pod) bool) plugin.Candidate {
	found := plugin.Candidate{Slot: slot}
	violating, rest := s.memory.split(s.cycle.View, all)
	for _, pod := range violating {
		if !stays(pod) {
			found.Victims = append(found.Victims, pod)
		}
	}
	found.Violations = len(found.Victims)
	for _, pod := range rest {
		if !stays(pod) {
			found.Victims = append(found.Victims, pod)
		}
	}
	return found
}
