package state

import (
	"github.com/berth-scheduler/berth/internal/model"
)

func (s *State) setPod(pod *model.Pod, wasNominated bool, delta *Delta) {
	known := s.placed[pod.Key()]
	if known != nil && known.pod.UID != pod.UID {
		// Deleted and created again under the same name before the deletion was seen.
		s.linger(known)
		s.unplace(known, delta)
		known = nil
	}
	switch {
	case pod.NodeName == "" && known == nil:
		delta.Arrived = append(delta.Arrived, s.nominate(pod, wasNominated, delta))
	case pod.NodeName == "" && known.shown:
		// Bound before, but no longer: etcd was restored from a backup. The API server is
		// right.
		s.unplace(known, delta)
		delta.Arrived = append(delta.Arrived, s.nominate(pod, wasNominated, delta))
	case pod.NodeName == "":
		// This version is from before the binding, so the pod stays where it was placed.
		// But if the binding fails, this is the version to retry.
		if known.phase == assumed {
			known.latest = pod
		}
	case known == nil:
		delta.Events = s.useNomination(pod.Key(), pod.NodeName, delta.Events)
		s.place(&placed{pod: pod, slot: s.slotFor(pod.NodeName), phase: bound, shown: true})
		if pod.Group != (model.GroupKey{}) {
			delta.Groups = append(delta.Groups, pod.Group)
		}
		delta.Left = append(delta.Left, pod.Key())
		delta.Events = append(delta.Events, model.Event{Resource: model.AssignedPodEvent, Action: model.Add, Pod: pod, Cluster: s})
	default:
		s.updatePod(known, pod, delta)
	}
}

func (s *State) updatePod(known *placed, pod *model.Pod, delta *Delta) {
	slot := s.slotFor(pod.NodeName)
	// A pod on another node frees no space on this node any more.
	if pod.Terminating || slot != known.slot {
		s.leaves(pod, delta)
	}
	before, confirmed := known.pod, known.phase == assumed
	if confirmed {
		s.confirm(known, delta)
	}
	if slot != known.slot {
		s.remove(known)
		s.place(&placed{pod: pod, slot: slot, phase: bound, shown: true})
		delta.Moved = append(delta.Moved, pod.UID)
	} else {
		known.shown = true
		s.replace(known, pod)
	}
	if confirmed {
		delta.Events = append(delta.Events, model.Event{Resource: model.AssignedPodEvent, Action: model.Add, Pod: pod, Cluster: s})
		return
	}
	for _, action := range model.PodUpdates(before, pod) {
		delta.Events = append(delta.Events, model.Event{Resource: model.AssignedPodEvent, Action: action, OldPod: before, Pod: pod, Cluster: s})
	}
}

func (s *State) removePod(key model.PodKey, delta *Delta) {
	if known := s.placed[key]; known != nil {
		s.linger(known)
		s.unplace(known, delta)
	}
	s.freeNomination(key, delta)
	delta.Left = append(delta.Left, key)
}

// settleBinding applies the result of a binding. It ignores a pod that is gone by now, or
// that the watch has shown on a node: the watch is right.
func (s *State) settleBinding(result *model.BindingResult, delta *Delta) {
	s.endLingering(result.Pod)
	known := s.placed[result.Pod.Key()]
	if known == nil || known.phase != assumed || known.pod.UID != result.Pod.UID {
		return
	}
	if result.Err == nil {
		s.confirm(known, delta)
		// When the watch shows the pod on its node later, no event follows. Pods that
		// wait for it need the event now.
		delta.Events = append(delta.Events, model.Event{Resource: model.AssignedPodEvent, Action: model.Add, Pod: known.pod, Cluster: s})
		return
	}
	latest := known.latest
	if latest.NominatedNode != "" {
		latest = latest.WithNominatedNode("") // the nomination ended with the placement
	}
	s.unplace(known, delta)
	delta.Failed = append(delta.Failed, Failure{Pod: latest, Err: result.Err, Rejectors: result.Rejectors})
}

func (s *State) confirm(p *placed, delta *Delta) {
	p.phase = bound
	p.latest = nil
	s.assumed--
	delta.Left = append(delta.Left, p.pod.Key())
}

// unplace takes a pod off its node and adds the event for the freed space.
func (s *State) unplace(p *placed, delta *Delta) {
	s.leaves(p.pod, delta)
	s.remove(p)
	delta.Events = append(delta.Events, model.Event{Resource: model.AssignedPodEvent, Action: model.Delete, OldPod: p.pod, Cluster: s})
}

// slotFor returns the slot of a node that a pod names, whether or not the node is known.
func (s *State) slotFor(nodeName string) int32 {
	if slot, ok := s.slotOf[nodeName]; ok {
		return slot
	}
	return s.newSlot(nodeName)
}

func (s *State) place(p *placed) {
	p.index = int32(len(s.pods[p.slot]))
	s.pods[p.slot] = append(s.pods[p.slot], p)
	s.placed[p.pod.Key()] = p
	s.countPriority(p.pod.Priority, +1)
	s.account(p.slot, p.pod, +1)
	s.groups.place(p)
	s.storage.Place(p.slot, p.pod)
	s.enlist(p)
	s.tally(p, +1)
	s.carry(p)
	s.journal.add(p.slot, usageAspects(p.pod))
}

func (s *State) remove(p *placed) {
	s.release(p)
	delete(s.evicted, p.pod.UID)
	s.lift(p)
	s.releaseIfEmpty(p.slot)
}

// lift stops counting a pod on its node. Its holds stay with it.
func (s *State) lift(p *placed) {
	if p.phase == assumed {
		s.assumed--
	}
	list := s.pods[p.slot]
	last := len(list) - 1
	list[p.index] = list[last]
	list[p.index].index = p.index
	list[last] = nil
	s.pods[p.slot] = list[:last]
	delete(s.placed, p.pod.Key())
	s.countPriority(p.pod.Priority, -1)
	s.account(p.slot, p.pod, -1)
	s.groups.remove(p)
	s.storage.Displace(p.slot, p.pod)
	s.tally(p, -1)
	s.delist(p)
	s.uncarry(p)
	s.journal.add(p.slot, usageAspects(p.pod))
}

// replace stores a new version of a pod that stays on its node. Most versions do not
// change any count.
func (s *State) replace(p *placed, pod *model.Pod) {
	before := p.pod
	if before.Object != pod.Object {
		s.objectReplaced(p.slot)
	}
	// An API server forbids both changes.
	otherGroup := before.Group != pod.Group || before.Priority != pod.Priority
	if otherGroup {
		s.groups.remove(p)
	}
	if before.LabelSet() != pod.LabelSet() || before.Terminating != pod.Terminating {
		s.tally(p, -1)
		s.delist(p)
		p.pod = pod
		s.enlist(p)
		s.tally(p, +1)
		s.journal.add(p.slot, model.PodLabels)
	}
	p.pod = pod
	if otherGroup {
		s.countPriority(before.Priority, -1)
		s.countPriority(pod.Priority, +1)
		s.groups.place(p)
	}
	if before.Occupies.Equal(&pod.Occupies) && before.NonZeroCPUMilli == pod.NonZeroCPUMilli &&
		before.NonZeroMemoryBytes == pod.NonZeroMemoryBytes {
		if s.bands[p.slot].restart(before, pod) {
			s.journal.add(p.slot, model.Starts)
		}
		s.banded[p.slot] = s.stamp()
		return // host ports cannot change in a running pod
	}
	s.account(p.slot, before, -1)
	s.account(p.slot, pod, +1)
	s.journal.add(p.slot, model.Usage)
}

func (s *State) account(slot int32, pod *model.Pod, sign int64) {
	s.bands[slot].count(pod, sign)
	s.banded[slot] = s.stamp()
	s.used[slot].Add(&pod.Occupies, sign)
	if sign < 0 && len(pod.Occupies.Scalars) > 0 {
		s.used[slot].DropZeros()
	}
	s.nonZero[slot].Add(pod.NonZero(), sign)
	s.ports[slot].add(pod.Ports, int32(sign))
}

func usageAspects(pod *model.Pod) model.Aspect {
	if len(pod.Ports) > 0 {
		return model.Usage | model.Ports
	}
	return model.Usage
}
