package engine

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// MemberFilter caches the filter input of one pod on its node. Only the parts that depend
// on other pods are refreshed when these return to their nodes. It is valid until nodes
// or objects change.
type MemberFilter struct {
	engine  *Engine
	view    state.View
	pod     *model.Pod
	profile *profile
	// usage are the filters that read the node's resource usage, with their positions.
	usage []usageFilter
	// counting are the filters that count pods around the node, and versions the versions
	// of their counts. unknown means that PreFilter rejects the pod while it is assumed.
	counting []plugin.Counting
	versions []uint64
	unknown  bool
	// near means that filters read more of the pods on the node than resource usage:
	// ports or volumes.
	near bool
}

type usageFilter struct {
	plugin.NodeVerdicts
	at int
}

// MemberFilterOf returns the filter of a pod in the view of the state. Other pods of the
// turn have been assumed there, and the pod passes on some node.
func (e *Engine) MemberFilterOf(v state.View, pod *model.Pod) (*MemberFilter, error) {
	c, err := e.cycleOf(v, pod)
	if err != nil {
		return nil, err
	}
	if c == nil { // the pod itself is assumed, too, and its PreFilter may object to that
		return &MemberFilter{engine: e, view: v, pod: pod, unknown: true, near: true}, nil
	}
	s := &MemberFilter{engine: e, view: v, pod: pod, profile: c.profile}
	for i, f := range c.profile.Filters {
		if f.Count != nil {
			if counting := c.counting[i]; counting != nil {
				s.counting = append(s.counting, counting)
			}
			continue
		}
		reads := model.AllAspects
		if f.HasColumn() {
			reads = f.Reads.Nodes
		}
		if c.needs[i].IsZero() {
			continue
		}
		s.near = s.near || reads&(model.Ports|model.Volumes) != 0
		if reads&model.Usage != 0 {
			s.usage = append(s.usage, usageFilter{c.here.verdicts[i].NodeVerdicts, i})
		}
	}
	s.Renew()
	return s, nil
}

// Renew records the present counts as counts with which the pod passes.
func (s *MemberFilter) Renew() { s.versions = s.count(s.versions[:0]) }

func (s *MemberFilter) count(to []uint64) []uint64 {
	for _, c := range s.counting {
		to = c.AppendVersions(to)
	}
	return to
}

// IsMoved reports whether counts of pods may have changed since the filter was made or
// renewed. Then the filters must run again, by Passes.
func (s *MemberFilter) IsMoved() bool {
	if len(s.counting) == 0 {
		return s.unknown
	}
	now := s.count(s.engine.scratch.versions[:0])
	s.engine.scratch.versions = now
	return s.unknown || !slices.Equal(now, s.versions)
}

// Counts reports whether filters count pods around the node. Then other pods may keep the
// pod away, or be required by it.
func (s *MemberFilter) Counts() bool { return s.unknown || len(s.counting) > 0 }

// IsNear reports whether filters read more of the pods on the node than resource usage.
// After a change of these pods the filters must run again, by Passes.
func (s *MemberFilter) IsNear() bool { return s.near }

// FitsWith reports whether the pod passes on a node on which only the resource usage, now
// use, and the nominated pods have changed.
func (s *MemberFilter) FitsWith(slot int32, use *state.Use) bool {
	if before := s.view.NominatedBefore(s.pod, slot); len(before) > 0 {
		beside := &s.engine.scratch.use
		beside.Copy(use)
		for _, pod := range before {
			beside.Add(pod, +1)
		}
		if !s.passes(slot, beside) {
			return false
		}
	}
	return s.passes(slot, use)
}

func (s *MemberFilter) passes(slot int32, use *state.Use) bool {
	node := s.view.NodeWith(slot, use)
	for _, f := range s.usage {
		s.engine.asked(s.profile.first+int32(f.at), 1)
		if f.Filter(node) != reason.None {
			return false
		}
	}
	return true
}

// Passes runs all filters for a pod on one node of the view, both as it is and with its
// nominated pods. The error is a filter's.
func (e *Engine) Passes(v state.View, pod *model.Pod, slot int32) (bool, error) {
	c, err := e.cycleOf(v, pod)
	if err != nil || c == nil {
		return false, err
	}
	if !c.narrowed.has(slot) {
		return false, nil
	}
	o, err := e.twice(c, slot)
	return err == nil && o.code == reason.None, err
}

// cycleOf begins a turn of a pod up to its filters. The result is nil if PreFilter
// rejects the pod.
func (e *Engine) cycleOf(v state.View, pod *model.Pod) (*cycle, error) {
	v.State().BeginTurn()
	p, ok := e.profiles[pod.SchedulerName]
	if !ok {
		return nil, fmt.Errorf("no profile for scheduler name %q", pod.SchedulerName)
	}
	c, rejection, err := e.preFilter(v, p, pod)
	if rejection != nil || err != nil {
		return nil, err
	}
	e.prepare(&c)
	return &c, nil
}
