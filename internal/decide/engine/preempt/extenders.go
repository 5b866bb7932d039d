package preempt

import (
	"fmt"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// advisers returns the extenders that may choose the victims of a pod.
func advisers(c *cycle, pod *model.Pod) (advisers []plugin.Extender) {
	for _, e := range c.Extenders {
		if e.Traits().Preempts && e.IsInterested(pod.Object) {
			advisers = append(advisers, e)
		}
	}
	return advisers
}

// tryAll tries all nodes and keeps the candidates, because extenders may choose any of
// them.
func (s *search) tryAll(slots []int32) {
	s.candidates = map[string]*plugin.Candidate{}
	for _, slot := range slots {
		s.try(slot)
	}
}

// advised returns the best of the candidates that extenders have left, with their choice
// of victims, or nil if they left none. Each extender gets the candidates that earlier
// ones left. Extenders have the last word: nodes and victims may be others than the
// search found. Nodes that are still without victims at the end are no candidates.
func (s *search) advised(by []plugin.Extender) (*plugin.Candidate, error) {
	left := s.candidates
	for _, e := range by {
		answer, err := e.ProcessPreemption(s.pod.Object, victimsOf(left))
		var read map[string]*plugin.Candidate
		if err == nil {
			read, err = s.read(e, left, answer)
		}
		switch {
		case err == nil:
			left = read
		case !e.Traits().Ignorable:
			return nil, err
		}
		if len(left) == 0 {
			return nil, nil
		}
	}
	var best *plugin.Candidate
	var bestRank rank
	for _, name := range slices.Sorted(maps.Keys(left)) {
		found := left[name]
		if len(found.Victims) == 0 {
			continue
		}
		if r := s.rankOfAdvised(found); best == nil || r.isBetter(&bestRank) {
			best, bestRank = found, r
		}
	}
	return best, nil
}

// victimsOf converts candidates to the API type.
func victimsOf(candidates map[string]*plugin.Candidate) map[string]*extenderv1.Victims {
	all := make(map[string]*extenderv1.Victims, len(candidates))
	for name, found := range candidates {
		pods := make([]*v1.Pod, len(found.Victims))
		for i, victim := range found.Victims {
			pods[i] = victim.Object
		}
		all[name] = &extenderv1.Victims{Pods: pods, NumPDBViolations: int64(found.Violations)}
	}
	return all
}

// read returns the candidates of an extender's answer. A missing node or victim is an
// error. A node without victims stays a candidate if the extender got it without victims.
// Otherwise it is an error, too, unless the extender is ignorable: then the node is left
// out.
func (s *search) read(e plugin.Extender, given map[string]*plugin.Candidate, answer map[string]*extenderv1.MetaVictims) (map[string]*plugin.Candidate, error) {
	v := s.cycle.View
	read := make(map[string]*plugin.Candidate, len(answer))
	var empty []string
	for _, name := range slices.Sorted(maps.Keys(answer)) {
		slot, ok := v.Slot(name)
		if !ok {
			return nil, fmt.Errorf("nodeinfo not found for node name %q", name)
		}
		if answer[name] == nil || len(answer[name].Pods) == 0 {
			if before := given[name]; before != nil && len(before.Victims) == 0 {
				read[name] = before
			} else {
				empty = append(empty, name)
			}
			continue
		}
		on := map[string]*model.Pod{}
		for pod := range v.PodsOn(slot) {
			on[string(pod.UID)] = pod
		}
		found := &plugin.Candidate{Slot: slot, Violations: int(answer[name].NumPDBViolations)}
		for _, meta := range answer[name].Pods {
			var victim *model.Pod
			if meta != nil {
				victim = on[meta.UID]
			}
			if victim == nil {
				return nil, fmt.Errorf("extender: %v claims to preempt pod (UID: %v) on node: %v, but the pod is not found on that node", e.Traits().Name, meta, name)
			}
			// a pod is evicted once, even if it is named twice
			if !slices.Contains(found.Victims, victim) {
				found.Victims = append(found.Victims, victim)
			}
		}
		read[name] = found
	}
	if len(empty) > 0 && !e.Traits().Ignorable {
		return nil, fmt.Errorf("expected at least one victim pod on node %q", empty[0])
	}
	return read, nil
}

// rankOfAdvised is rankOf for victims in an extender's order. As in kube-scheduler, the
// first counts as the most important.
func (s *search) rankOfAdvised(c *plugin.Candidate) rank {
	r := rank{
		violations: int32(min(max(c.Violations, math.MinInt32), math.MaxInt32)), highest: c.Victims[0].Priority, count: int32(len(c.Victims)),
		start: startOf(c.Victims[0]), tie: s.cycle.tie(c.Slot),
	}
	highest := c.Victims[0].Priority // of all
	for _, pod := range c.Victims {
		r.sum += weightOf(pod.Priority)
		switch {
		case pod.Priority > highest:
			highest, r.start = pod.Priority, startOf(pod)
		case pod.Priority == highest:
			r.start = min(r.start, startOf(pod))
		}
	}
	return r
}
