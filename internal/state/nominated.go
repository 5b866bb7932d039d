package state

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
)

// nominations are pending pods whose status.nominatedNodeName names a node. They do not use its room yet, but pods that do not outrank them must
// leave enough for them.
//
// Invariant: byPod and byNode hold the same pods, each once and under the names that it says itself; no list is empty. A pod on a node is not
// among them.
type nominations struct {
	byPod  map[model.PodKey]*model.Pod
	byNode map[string][]*model.Pod
	// version changes whenever a pod is nominated, or no longer, or has a new version.
	version uint64
}

// nominate stores a pending pod's newest version. If an older version was nominated to another node, an event says that the room there is free.
func (s *State) nominate(pod *model.Pod, delta *Delta) {
	before := s.nominations.byPod[pod.Key()]
	if before != nil && (before.UID != pod.UID || before.NominatedNode != pod.NominatedNode) {
		s.freeNomination(before.Key(), delta)
	} else if before != nil {
		s.dropNomination(before.Key())
	}
	if pod.NominatedNode == "" {
		return
	}
	s.nominations.version++
	s.storage.Nominate(pod, +1)
	s.nominations.byPod[pod.Key()] = pod
	s.nominations.byNode[pod.NominatedNode] = append(s.nominations.byNode[pod.NominatedNode], pod)
}

// freeNomination removes a pod's nomination, and adds the event that its room is free.
func (s *State) freeNomination(key model.PodKey, delta *Delta) {
	if pod := s.dropNomination(key); pod != nil {
		delta.Events = append(delta.Events, nominationFreed(pod))
	}
}

// useNomination removes the nomination of a pod that was placed. If it was placed on another node, the event that the room on the nominated node
// is free is appended; kube-scheduler raises none then.
func (s *State) useNomination(key model.PodKey, nodeName string, events []model.Event) []model.Event {
	if pod := s.dropNomination(key); pod != nil && pod.NominatedNode != nodeName {
		return append(events, nominationFreed(pod))
	}
	return events
}

// nomination is a nominated pod and its position among those of its node. The zero value is no nomination.
type nomination struct {
	pod *model.Pod
	at  int
}

// nominationOf returns the pod's nomination.
func (s *State) nominationOf(key model.PodKey) nomination {
	pod := s.nominations.byPod[key]
	if pod == nil {
		return nomination{}
	}
	return nomination{pod, slices.Index(s.nominations.byNode[pod.NominatedNode], pod)}
}

// restore puts a dropped nomination back in its old position.
func (s *State) restore(n nomination) {
	if n.pod == nil {
		return
	}
	s.nominations.version++
	on := s.nominations.byNode[n.pod.NominatedNode]
	s.storage.Nominate(n.pod, +1)
	s.nominations.byPod[n.pod.Key()] = n.pod
	s.nominations.byNode[n.pod.NominatedNode] = slices.Insert(on, min(n.at, len(on)), n.pod)
}

func nominationFreed(pod *model.Pod) model.Event {
	return model.Event{Resource: model.AssignedPodEvent, Action: model.Delete, OldPod: pod, OnlyUpTo: &pod.Priority}
}

// dropNomination removes a pod's nomination. It returns the nominated pod, nil if there is none.
func (s *State) dropNomination(key model.PodKey) *model.Pod {
	pod := s.nominations.byPod[key]
	if pod == nil {
		return nil
	}
	s.nominations.version++
	s.storage.Nominate(pod, -1)
	delete(s.nominations.byPod, key)
	left := slices.DeleteFunc(s.nominations.byNode[pod.NominatedNode], func(other *model.Pod) bool { return other == pod })
	if len(left) == 0 {
		delete(s.nominations.byNode, pod.NominatedNode)
	} else {
		s.nominations.byNode[pod.NominatedNode] = left
	}
	return pod
}

// Nominated returns how many pods are nominated to nodes.
func (s *State) Nominated() int { return len(s.nominations.byPod) }
