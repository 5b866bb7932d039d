package state

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
)

// nominations are pending pods that were promised a place: status.nominatedNodeName names a node. They take no room yet, but pods that do
// not outrank them must leave it to them.
type nominations struct {
	byPod  map[model.PodKey]*model.Pod
	byNode map[string][]*model.Pod
}

// nominate takes in a pending pod's newest version. Who waits for the place that an older version was promised is told when it is free.
func (s *State) nominate(pod *model.Pod, delta *Delta) {
	before := s.nominations.byPod[pod.Key()]
	if before != nil && (before.UID != pod.UID || before.NominatedNode != pod.NominatedNode) {
		s.freePromise(before.Key(), delta)
	} else if before != nil {
		s.dropNomination(before.Key())
	}
	if pod.NominatedNode == "" {
		return
	}
	s.nominations.byPod[pod.Key()] = pod
	s.nominations.byNode[pod.NominatedNode] = append(s.nominations.byNode[pod.NominatedNode], pod)
}

// freePromise forgets what a pod was promised and tells those for whom it was out of reach.
func (s *State) freePromise(key model.PodKey, delta *Delta) {
	if pod := s.dropNomination(key); pod != nil {
		delta.Events = append(delta.Events, promiseFreed(pod))
	}
}

// keepPromise forgets what a pod was promised that got a node. If it is another one, those for whom the promised place was out of reach
// want to know; kube-scheduler lets them wait for another event.
func (s *State) keepPromise(key model.PodKey, nodeName string, events []model.Event) []model.Event {
	if pod := s.dropNomination(key); pod != nil && pod.NominatedNode != nodeName {
		return append(events, promiseFreed(pod))
	}
	return events
}

// promise is a nomination and its position among those of its node. The zero value is none.
type promise struct {
	pod *model.Pod
	at  int
}

// promiseOf returns the pod's nomination.
func (s *State) promiseOf(key model.PodKey) promise {
	pod := s.nominations.byPod[key]
	if pod == nil {
		return promise{}
	}
	return promise{pod, slices.Index(s.nominations.byNode[pod.NominatedNode], pod)}
}

// restore takes a nomination in again that was dropped, where it was.
func (s *State) restore(p promise) {
	if p.pod == nil {
		return
	}
	on := s.nominations.byNode[p.pod.NominatedNode]
	s.nominations.byPod[p.pod.Key()] = p.pod
	s.nominations.byNode[p.pod.NominatedNode] = slices.Insert(on, min(p.at, len(on)), p.pod)
}

func promiseFreed(pod *model.Pod) model.Event {
	return model.Event{Resource: model.AssignedPodEvent, Action: model.Delete, OldPod: pod, OnlyUpTo: &pod.Priority}
}

// dropNomination forgets what a pod was promised; it returns the pod, or nil if it was promised nothing.
func (s *State) dropNomination(key model.PodKey) *model.Pod {
	pod := s.nominations.byPod[key]
	if pod == nil {
		return nil
	}
	delete(s.nominations.byPod, key)
	left := slices.DeleteFunc(s.nominations.byNode[pod.NominatedNode], func(other *model.Pod) bool { return other == pod })
	if len(left) == 0 {
		delete(s.nominations.byNode, pod.NominatedNode)
	} else {
		s.nominations.byNode[pod.NominatedNode] = left
	}
	return pod
}

// Nominated returns how many pods were promised a place.
func (s *State) Nominated() int { return len(s.nominations.byPod) }

// PromisedBefore returns the pods that were promised a place on the node and that the pod must leave room for: others that it does not
// outrank. In the order in which they were promised it.
func (s *State) PromisedBefore(pod *model.Pod, slot int32) []*model.Pod {
	var first []*model.Pod
	for _, other := range s.nominations.byNode[s.name[slot]] {
		if other.Priority >= pod.Priority && other.UID != pod.UID {
			first = append(first, other)
		}
	}
	return first
}

// EachPromised calls yield with each node on which there is room to be left, as PromisedBefore says, in no particular order.
func (s *State) EachPromised(pod *model.Pod, yield func(slot int32, promised []*model.Pod)) {
	for name := range s.nominations.byNode {
		slot, ok := s.Slot(name)
		if !ok {
			continue
		}
		if promised := s.PromisedBefore(pod, slot); len(promised) > 0 {
			yield(slot, promised)
		}
	}
}

// Trial is what a node is like with pods that are not there.
type Trial struct {
	Slot int32
	Pods []*model.Pod
}

// Try puts pods on a node while f runs, and takes them off again. Neither the journal nor anybody who waits hears of it, so f must not
// catch up with the journal; what it reads of nodes, tallies and groups is as if the pods were there. Pods that are being deleted count
// like others, as in kube-scheduler.
func (s *State) Try(slot int32, pods []*model.Pod, f func()) {
	there := make([]*placed, len(pods))
	for i, pod := range pods {
		on := *pod
		on.NodeName, on.Terminating = s.name[slot], false
		there[i] = &placed{pod: &on, slot: slot}
		s.pods[slot] = append(s.pods[slot], there[i])
		s.account(slot, &on, +1)
		s.tally(slot, &on, +1)
		s.carry(there[i])
	}
	s.trial = Trial{slot, pods}
	f()
	s.trial = Trial{}
	for _, p := range slices.Backward(there) {
		list := s.pods[slot]
		list[len(list)-1] = nil
		s.pods[slot] = list[:len(list)-1]
		s.account(slot, p.pod, -1)
		s.tally(slot, p.pod, -1)
		s.uncarry(p)
	}
}

// Trial returns what Try is trying; there are no pods in it when nothing is being tried.
func (s *State) Trial() Trial { return s.trial }
