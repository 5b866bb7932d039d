package state

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
)

// assumedEvent is an event that assuming a pod caused.
type assumedEvent struct {
	pod   model.PodKey
	event model.Event
}

// takeAssumed returns the events caused by Assume since it was last called.
func (s *State) takeAssumed() []model.Event {
	if len(s.assumption) == 0 {
		return nil
	}
	events := make([]model.Event, len(s.assumption))
	for i := range s.assumption {
		events[i] = s.assumption[i].event
	}
	s.assumption = nil
	return events
}

// Assume puts pods on their nodes before the API server knows, with everything that their placements hold. Nominations of these pods are
// dropped. The decision must have been made on this state: a pod that is placed already, or a node that does not exist, is a bug.
func (s *State) Assume(placements ...plan.Placement) {
	for i := range placements {
		s.assume(&placements[i])
	}
}

func (s *State) assume(placement *plan.Placement) {
	pod := placement.Pod
	slot, ok := s.Slot(placement.NodeName)
	if known := s.placed[pod.Key()]; known != nil || !ok {
		panic(fmt.Sprintf("state: assume pod %s on node %s: pod placed: %t, node exists: %t", pod, placement.NodeName, known != nil, ok))
	}
	on := *pod
	on.NodeName = placement.NodeName
	p := &placed{pod: &on, slot: slot, phase: assumed, latest: pod}
	if had := s.nominationOf(pod.Key()); had.pod != nil || len(placement.Holds) > 0 {
		p.besides = &besides{placement.Holds, had}
	}
	if freed := s.dropNomination(pod.Key()); freed != nil && freed.NominatedNode != placement.NodeName {
		s.assumption = append(s.assumption, assumedEvent{pod.Key(), nominationFreed(freed)})
	}
	s.place(p)
	s.assumed++
	for _, hold := range placement.Holds {
		s.held[hold.Object] = append(s.held[hold.Object], Holder{pod.Key(), hold.Plugin, hold.Value})
	}
}

// besides is what assuming a pod did besides taking room on its node.
type besides struct {
	// holds are given back when the pod is forgotten.
	holds []plan.Hold
	// nomination is the one that was dropped.
	nomination nomination
}

// Unassume undoes Assume, the last placement first: the pods are off their nodes, their holds are given back and their nominations are what
// they were. The journal names the nodes, but those who wait for room get no event. Each pod must be assumed. It is for a group that
// finds no room for its last members. A binding that fails is a change and goes through Apply.
func (s *State) Unassume(placements ...plan.Placement) {
	for _, placement := range slices.Backward(placements) {
		key := placement.Pod.Key()
		p := s.placed[key]
		if p == nil || p.phase != assumed || p.pod.UID != placement.Pod.UID {
			panic(fmt.Sprintf("state: unassume pod %s, which is not assumed", placement.Pod))
		}
		s.remove(p)
		if p.besides != nil {
			s.restore(p.besides.nomination)
		}
		s.assumption = slices.DeleteFunc(s.assumption, func(e assumedEvent) bool { return e.pod == key })
	}
}

// Holder is a pod that holds something of an object.
type Holder struct {
	Pod    model.PodKey
	Plugin string
	// Value says what of the object is held, as the plugin put it into the placement.
	Value any
}

// Held returns how many objects something is held of.
func (s *State) Held() int { return len(s.held) }

// release gives back what a placement holds.
func (s *State) release(p *placed) {
	if p.besides == nil {
		return
	}
	for _, hold := range p.besides.holds {
		left := slices.DeleteFunc(s.held[hold.Object], func(h Holder) bool { return h.Pod == p.pod.Key() })
		if len(left) == 0 {
			delete(s.held, hold.Object)
		} else {
			s.held[hold.Object] = left
		}
	}
}
