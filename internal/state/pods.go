package state

import (
	"maps"

	"github.com/berth-scheduler/berth/internal/model"
)

func (s *State) setPod(pod *model.Pod, delta *Delta) {
	known := s.placed[pod.Key()]
	if known != nil && known.pod.UID != pod.UID {
		// Deleted and created again under the same name before we saw the first one go.
		s.unplace(known, delta)
		known = nil
	}
	switch {
	case pod.NodeName == "" && known == nil:
		s.nominate(pod, delta)
		delta.Arrived = append(delta.Arrived, pod)
	case pod.NodeName == "" && known.shown:
		// Bound, and no longer: the API server's store was put back to an earlier time. Its word holds.
		s.unplace(known, delta)
		s.nominate(pod, delta)
		delta.Arrived = append(delta.Arrived, pod)
	case pod.NodeName == "":
		// The watch has not reached the binding yet, so what it shows of a pod we placed is old news; but if the binding
		// fails, this is the version to try again.
		if known.phase == assumed {
			known.latest = pod
		}
	case known == nil:
		delta.Events = s.useNomination(pod.Key(), pod.NodeName, delta.Events)
		s.place(&placed{pod: pod, slot: s.slotFor(pod.NodeName), phase: bound, shown: true})
		delta.Left = append(delta.Left, pod.Key())
		delta.Events = append(delta.Events, model.Event{Resource: model.AssignedPodEvent, Action: model.Add, Pod: pod})
	default:
		s.updatePod(known, pod, delta)
	}
}

func (s *State) updatePod(known *placed, pod *model.Pod, delta *Delta) {
	before, confirmed := known.pod, known.phase == assumed
	if confirmed {
		s.confirm(known, delta)
	}
	if slot := s.slotFor(pod.NodeName); slot != known.slot {
		s.remove(known)
		s.place(&placed{pod: pod, slot: slot, phase: bound, shown: true})
	} else {
		known.shown = true
		s.replace(known, pod)
	}
	if confirmed {
		delta.Events = append(delta.Events, model.Event{Resource: model.AssignedPodEvent, Action: model.Add, Pod: pod})
		return
	}
	for _, action := range model.PodUpdates(before, pod) {
		delta.Events = append(delta.Events, model.Event{Resource: model.AssignedPodEvent, Action: action, OldPod: before, Pod: pod})
	}
}

func (s *State) removePod(key model.PodKey, delta *Delta) {
	if known := s.placed[key]; known != nil {
		s.unplace(known, delta)
	}
	s.freeNomination(key, delta)
	delta.Left = append(delta.Left, key)
}

// settleBinding takes in the API server's answer. An answer about a pod that has gone meanwhile, or that the watch has
// shown on a node, changes nothing: the watch is the truth.
func (s *State) settleBinding(result *model.BindingResult, delta *Delta) {
	known := s.placed[result.Pod.Key()]
	if known == nil || known.phase != assumed || known.pod.UID != result.Pod.UID {
		return
	}
	if result.Err == nil {
		s.confirm(known, delta)
		// The watch will show the pod on its node too, but then it is old news: those who wait for it must hear it now.
		delta.Events = append(delta.Events, model.Event{Resource: model.AssignedPodEvent, Action: model.Add, Pod: known.pod})
		return
	}
	latest := known.latest
	s.unplace(known, delta)
	delta.Failed = append(delta.Failed, Failure{Pod: latest, Err: result.Err, Rejectors: result.Rejectors})
}

func (s *State) confirm(p *placed, delta *Delta) {
	p.phase = bound
	p.latest = nil
	s.assumed--
	delta.Left = append(delta.Left, p.pod.Key())
}

// unplace takes a pod off its node and tells those who wait for room.
func (s *State) unplace(p *placed, delta *Delta) {
	s.remove(p)
	delta.Events = append(delta.Events, model.Event{Resource: model.AssignedPodEvent, Action: model.Delete, OldPod: p.pod})
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
	s.account(p.slot, p.pod, +1)
	s.tally(p.slot, p.pod, +1)
	s.carry(p)
	s.journal.add(p.slot, usageAspects(p.pod))
}

func (s *State) remove(p *placed) {
	if p.phase == assumed {
		s.assumed--
	}
	s.release(p)
	list := s.pods[p.slot]
	last := len(list) - 1
	list[p.index] = list[last]
	list[p.index].index = p.index
	list[last] = nil
	s.pods[p.slot] = list[:last]
	delete(s.placed, p.pod.Key())
	s.account(p.slot, p.pod, -1)
	s.tally(p.slot, p.pod, -1)
	s.uncarry(p)
	s.journal.add(p.slot, usageAspects(p.pod))
	s.releaseIfEmpty(p.slot)
}

// replace takes in a new version of a pod that stays where it is. Most versions change nothing that counts.
func (s *State) replace(p *placed, pod *model.Pod) {
	before := p.pod
	p.pod = pod
	if before.Terminating != pod.Terminating || !maps.Equal(before.Labels, pod.Labels) {
		s.tally(p.slot, before, -1)
		s.tally(p.slot, pod, +1)
	}
	if before.Occupies.Equal(&pod.Occupies) && before.NonZeroCPUMilli == pod.NonZeroCPUMilli &&
		before.NonZeroMemoryBytes == pod.NonZeroMemoryBytes {
		return // host ports cannot change in a running pod
	}
	s.account(p.slot, before, -1)
	s.account(p.slot, pod, +1)
	s.journal.add(p.slot, model.Usage)
}

func (s *State) account(slot int32, pod *model.Pod, sign int64) {
	s.used[slot].Add(&pod.Occupies, sign)
	s.nonZero[slot].cpuMilli += sign * pod.NonZeroCPUMilli
	s.nonZero[slot].memoryBytes += sign * pod.NonZeroMemoryBytes
	for _, port := range pod.Ports {
		s.ports[slot].add(port, int(sign))
	}
}

func usageAspects(pod *model.Pod) model.Aspect {
	if len(pod.Ports) > 0 {
		return model.Usage | model.Ports
	}
	return model.Usage
}
