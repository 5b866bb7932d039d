package state

import (
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/devices"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// assumedEvent is an event that assuming a pod caused.
type assumedEvent struct {
	pod   model.PodKey
	event model.Event
}

// takeAssumed returns the events that Assume has caused since the last call.
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

// Assume puts pods on their nodes before the API server confirms it, with all holds of
// their placements. It drops the nominations of these pods. The decision must have been
// made on this state: a pod that is placed already, or a node that does not exist, is a
// bug.
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
		p.extras = &extras{placement.Holds, had}
	}
	if freed := s.dropNomination(pod.Key()); freed != nil && freed.NominatedNode != placement.NodeName {
		s.assumption = append(s.assumption, assumedEvent{pod.Key(), s.nominationFreed(freed)})
	}
	s.place(p)
	s.assumed++
	for _, hold := range placement.Holds {
		s.held[hold.Object] = append(s.held[hold.Object], Holder{pod.Key(), hold.Plugin, hold.Value})
		s.storage.Hold(hold.Object, pod.Key())
		s.devices.Hold(hold.Object, pod.Key(), hold.Value)
	}
}

// extras records what Assume changed for a pod besides the use of its node.
type extras struct {
	// holds are released when the pod is forgotten.
	holds []plan.Hold
	// nomination is the dropped nomination.
	nomination nomination
}

// Unassume undoes Assume in reverse order: the pods leave their nodes, their holds are
// released and their nominations restored. The journal has the nodes, but no event is
// returned. Each pod must be assumed. Unassume is for a pod group whose last members fit
// nowhere; a failed binding is a change and goes through Apply.
func (s *State) Unassume(placements ...plan.Placement) {
	for _, placement := range slices.Backward(placements) {
		key := placement.Pod.Key()
		p := s.placed[key]
		if p == nil || p.phase != assumed || p.pod.UID != placement.Pod.UID {
			panic(fmt.Sprintf("state: unassume pod %s, which is not assumed", placement.Pod))
		}
		s.remove(p)
		s.freed = nil // no other decision was made since
		if p.extras != nil {
			s.restore(p.extras.nomination)
		}
		s.assumption = slices.DeleteFunc(s.assumption, func(e assumedEvent) bool { return e.pod == key })
	}
}

// Holder is a pod that holds part of an object.
type Holder struct {
	Pod    model.PodKey
	Plugin string
	// Value is the held part of the object, as the plugin put it into the placement.
	Value plan.Held
}

// Held returns the number of objects with holders.
func (s *State) Held() int { return len(s.held) }

// gonePod is a pod that was deleted during its binding.
type gonePod struct {
	key model.PodKey
	uid types.UID
}

// linger keeps the devices of a deleted pod until its binding has ended. The allocation
// of its claims may be on its way to the API server, and the claims may outlive the pod,
// even for good. Volumes need not be kept: the API server refuses a second claim of a
// volume, but no object stands for a device.
func (s *State) linger(p *placed) {
	if p.phase != assumed || p.extras == nil {
		return
	}
	var kept, rest []plan.Hold
	for _, hold := range p.extras.holds {
		if hold.Object.Kind == model.ResourceClaimKind {
			kept = append(kept, hold)
		} else {
			rest = append(rest, hold)
		}
	}
	if len(kept) > 0 {
		s.lingering[gonePod{p.pod.Key(), p.pod.UID}] = kept
		p.extras.holds = rest
	}
}

// endLingering releases the devices of a deleted pod whose binding has ended.
func (s *State) endLingering(pod *model.Pod) {
	gone := gonePod{pod.Key(), pod.UID}
	if kept, ok := s.lingering[gone]; ok {
		delete(s.lingering, gone)
		s.releaseHolds(gone.key, kept)
	}
}

// promiseBroken is the event that the devices promised to a claim are free again, as if
// the claim had had them. It wakes pods that need such devices, or the claim.
// kube-scheduler has no such event: there these pods stay pending until another event
// wakes them.
func (s *State) promiseBroken(key model.ClaimKey, broken *devices.Promise, claim *model.ResourceClaim) model.Event {
	had := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: broken.UID}}
	e := model.Event{Resource: model.ResourceClaimEvent, Action: model.Delete}
	if claim != nil {
		had, e.Object, e.Action = claim.Object.DeepCopy(), claim, model.Update
	}
	had.Status.Allocation = broken.Allocation
	e.OldObject = model.NewResourceClaim(had)
	e.Pools = s.devices.PoolsOf(e.OldObject, e.Object)
	return e
}

// release removes the holds of a pod.
func (s *State) release(p *placed) {
	if p.extras != nil {
		s.releaseHolds(p.pod.Key(), p.extras.holds)
	}
}

func (s *State) releaseHolds(pod model.PodKey, holds []plan.Hold) {
	for _, hold := range holds {
		s.storage.Release(hold.Object, pod)
		if broken, claim := s.devices.Release(hold.Object, pod); broken != nil {
			s.freed = append(s.freed, s.promiseBroken(hold.Object.ClaimKey(), broken, claim))
		}
		left := slices.DeleteFunc(s.held[hold.Object], func(h Holder) bool { return h.Pod == pod })
		if len(left) == 0 {
			delete(s.held, hold.Object)
		} else {
			s.held[hold.Object] = left
		}
	}
}
