package state

import (
	"iter"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// nominations are pending pods whose status.nominatedNodeName names a node. They do not
// use its resources yet, but pods that do not outrank them must leave enough for them.
//
// Invariant: byPod and byNode hold the same pods, each once and under its own names; no
// list is empty. A pod on a node is not among them. byNode also has the members of pod
// groups for which room is held (holds).
type nominations struct {
	// holds has the room held for pod groups, see HoldRoom.
	holds map[model.RootKey]*roomHold
	// Invariant: holdOf has the PodGroups of holds, each with the reservation for it or
	// its tree.
	holdOf map[model.GroupKey]*roomHold
	// Invariant: holdFor has the reservation of each of these pods.
	holdFor  map[*model.Pod]*roomHold
	lastHold uint32 // number of reservations so far
	byPod    map[model.PodKey]*model.Pod
	byNode   map[string][]*model.Pod
	// version changes whenever a pod is nominated, loses its nomination, or has a new
	// version.
	version uint64
	// Invariant: slots has the existing nodes of byNode, ascending, unless unsorted: then
	// the next read recomputes it.
	slots    []int32
	unsorted bool
}

// changedNominations records that the nominations to a node have changed.
func (s *State) changedNominations(nodeName string) {
	s.nominations.version++
	slot, ok := s.Slot(nodeName)
	if !ok {
		return
	}
	s.journal.add(slot, model.Nominations)
	n := &s.nominations
	if n.unsorted {
		return
	}
	at, listed := slices.BinarySearch(n.slots, slot)
	switch nominated := len(n.byNode[nodeName]) > 0; {
	case nominated && !listed:
		n.slots = slices.Insert(n.slots, at, slot)
	case !nominated && listed:
		n.slots = slices.Delete(n.slots, at, at+1)
	}
}

// nominatedSlots returns the slots of the nodes that pods are nominated to, ascending.
// The goroutine that owns the state must call it.
func (s *State) nominatedSlots() []int32 {
	n := &s.nominations
	if n.unsorted {
		n.slots, n.unsorted = n.slots[:0], false
		for name := range n.byNode {
			if slot, ok := s.Slot(name); ok {
				n.slots = append(n.slots, slot)
			}
		}
		slices.Sort(n.slots)
	}
	return n.slots
}

// nominate stores a pending pod's newest version, and returns it. If an older version was
// nominated to another node, an event reports the freed space there.
//
// As in kube-scheduler, two versions in a row without a nominated node keep the node from
// Nominate, since the API server has not stored it yet. The nomination has ended if a
// version in between had one (wasNominated), even if the state never got that version.
func (s *State) nominate(pod *model.Pod, wasNominated bool, delta *Delta) *model.Pod {
	before := s.nominations.byPod[pod.Key()]
	if before != nil && before.UID == pod.UID && pod.NominatedNode == "" && before.Object.Status.NominatedNodeName == "" && !wasNominated {
		pod = pod.WithNominatedNode(before.NominatedNode)
		pod.NominatedByPlugin = before.NominatedByPlugin
	}
	if before != nil && (before.UID != pod.UID || before.NominatedNode != pod.NominatedNode) {
		s.freeNomination(before.Key(), delta)
	} else if before != nil {
		s.dropNomination(before.Key())
	}
	if pod.NominatedNode != "" {
		s.addNomination(pod)
	}
	return pod
}

func (s *State) addNomination(pod *model.Pod) {
	s.storage.Nominate(pod, +1)
	s.nominations.byPod[pod.Key()] = pod
	s.nominations.byNode[pod.NominatedNode] = append(s.nominations.byNode[pod.NominatedNode], pod)
	s.changedNominations(pod.NominatedNode)
}

// Nominate applies the nominations of a decision before the API server stores them. It
// returns new versions of the pods whose nominated node changes. If space on a node
// becomes free, the next Apply returns the event.
func (s *State) Nominate(nominations ...plan.Nomination) (changed []*model.Pod) {
	for i := range nominations {
		n := &nominations[i]
		if n.Mode == plan.Keep || s.placed[n.Pod.Key()] != nil {
			continue
		}
		// The stored nomination may differ from the decided version: a pod whose binding
		// failed has lost its nomination here, but its version still shows it.
		stored, byPlugin := "", false
		if known := s.nominations.byPod[n.Pod.Key()]; known != nil {
			stored, byPlugin = known.NominatedNode, known.NominatedByPlugin
		}
		// A preemption on the node of a plugin's nomination writes it to the API.
		if written := byPlugin && !n.ByPlugin; stored == n.NodeName && n.Pod.NominatedNode == n.NodeName && !written {
			continue
		}
		if freed := s.dropNomination(n.Pod.Key()); freed != nil && freed.NominatedNode != n.NodeName {
			s.renominated = append(s.renominated, s.nominationFreed(freed))
		}
		pod := n.Pod.WithNominatedNode(n.NodeName)
		pod.NominatedByPlugin = n.ByPlugin && n.Mode == plan.Set
		if n.Mode == plan.Set {
			s.addNomination(pod)
		}
		changed = append(changed, pod)
	}
	return changed
}

// Evict records pods whose evictions have been decided and will be sent. They stay on
// their nodes until the watch shows that they are gone. A failed eviction is a change and
// goes through Apply.
func (s *State) Evict(evictions ...plan.Eviction) {
	for i := range evictions {
		pod := evictions[i].Pod
		if p := s.placed[pod.Key()]; p != nil && p.pod.UID == pod.UID && !p.pod.Terminating {
			s.evicted[pod.UID] = leaving{pod.Key(), s.evicted[pod.UID].times + 1}
		}
	}
}

// leaving is a pod to be evicted, and the number of preemptions for it.
type leaving struct {
	key   model.PodKey
	times int
}

// IsLeaving reports whether a pod was evicted for another pod and is not gone yet: its
// deletion shows that, or its eviction was decided and has not failed. Pods that are
// being deleted for another reason do not count.
func (v View) IsLeaving(pod *model.Pod) bool {
	_, evicted := v.s.evicted[pod.UID]
	return evicted || pod.IsPreempted()
}

// leaves records that a pod is gone from its node, or being deleted.
func (s *State) leaves(pod *model.Pod, delta *Delta) {
	if _, ok := s.evicted[pod.UID]; ok {
		delete(s.evicted, pod.UID)
		delta.Evicted = append(delta.Evicted, pod.UID)
	}
}

// settlePreemption applies the result of a preemption: pods whose eviction failed stay.
func (s *State) settlePreemption(result *model.PreemptionResult, delta *Delta) {
	for _, pod := range result.Kept {
		// With times > 1, another preemption evicts the pod too.
		if e, ok := s.evicted[pod.UID]; ok && e.times > 1 {
			s.evicted[pod.UID] = leaving{e.key, e.times - 1}
		} else {
			delete(s.evicted, pod.UID)
		}
	}
	delta.Preempted = append(delta.Preempted, result)
}

// freeNomination removes a pod's nomination, and adds the event for the freed space.
func (s *State) freeNomination(key model.PodKey, delta *Delta) {
	if pod := s.dropNomination(key); pod != nil {
		delta.Events = append(delta.Events, s.nominationFreed(pod))
	}
}

// useNomination removes the nomination of a pod that was placed. If it was placed on
// another node, it adds the event for the freed space on the nominated node;
// kube-scheduler emits none then.
func (s *State) useNomination(key model.PodKey, nodeName string, events []model.Event) []model.Event {
	if pod := s.dropNomination(key); pod != nil && pod.NominatedNode != nodeName {
		return append(events, s.nominationFreed(pod))
	}
	return events
}

// nomination is a nominated pod and its position in the list of its node. The zero value
// is no nomination.
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
	on := s.nominations.byNode[n.pod.NominatedNode]
	s.storage.Nominate(n.pod, +1)
	s.nominations.byPod[n.pod.Key()] = n.pod
	s.nominations.byNode[n.pod.NominatedNode] = slices.Insert(on, min(n.at, len(on)), n.pod)
	s.changedNominations(n.pod.NominatedNode)
}

func (s *State) nominationFreed(pod *model.Pod) model.Event {
	return model.Event{Resource: model.AssignedPodEvent, Action: model.Delete, OldPod: pod, OnlyUpTo: &pod.Priority, Cluster: s}
}

// dropNomination removes a pod's nomination. It returns the nominated pod, nil if none.
func (s *State) dropNomination(key model.PodKey) *model.Pod {
	pod := s.nominations.byPod[key]
	if pod == nil {
		return nil
	}
	s.storage.Nominate(pod, -1)
	delete(s.nominations.byPod, key)
	s.unlistNomination(pod)
	return pod
}

// unlistNomination removes a pod from the list of its node.
func (s *State) unlistNomination(pod *model.Pod) {
	left := slices.DeleteFunc(s.nominations.byNode[pod.NominatedNode], func(other *model.Pod) bool { return other == pod })
	if len(left) == 0 {
		delete(s.nominations.byNode, pod.NominatedNode)
	} else {
		s.nominations.byNode[pod.NominatedNode] = left
	}
	s.changedNominations(pod.NominatedNode)
}

// Nominated returns the number of pods with a nominated node, or with room held for their
// pod group.
func (s *State) Nominated() int { return len(s.nominations.byPod) + len(s.nominations.holdFor) }

// NominationsVersion changes whenever the result of NominatedPods may change.
func (v View) NominationsVersion() uint64 { return v.s.nominations.version }

// NominatedPods yields each node that pods are nominated to, whether or not it exists,
// and these pods in the order in which their versions were last seen. The slices are the
// state's own and valid until the next change.
func (v View) NominatedPods() iter.Seq2[string, []*model.Pod] {
	return maps.All(v.s.nominations.byNode)
}
