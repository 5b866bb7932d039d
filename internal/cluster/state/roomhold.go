package state

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// roomHold is space on nodes that is reserved for the members of a pod group, or of all
// groups of a tree. Other pods leave it free unless they outrank the members, as for
// nominated pods. The members themselves are not nominated: they are decided as if
// nothing was reserved, and the API does not show it.
type roomHold struct {
	root model.RootKey
	// groups are the PodGroup, or the PodGroups of the tree at that time.
	groups []model.GroupKey
	// id differs for each reservation.
	id   uint32
	pods []*model.Pod
}

// HoldRoom reserves space on nodes for members of a pod group, or of the groups of a
// tree, until EndRoomHold. The group or tree, and each of its groups, must not have a
// reservation yet.
func (s *State) HoldRoom(root model.RootKey, groups []model.GroupKey, members []plan.Nomination) {
	n := &s.nominations
	n.lastHold++
	k := &roomHold{root: root, groups: groups, id: n.lastHold}
	if n.holds == nil {
		n.holds, n.holdOf, n.holdFor = map[model.RootKey]*roomHold{}, map[model.GroupKey]*roomHold{}, map[*model.Pod]*roomHold{}
	}
	n.holds[root] = k
	for _, group := range groups {
		n.holdOf[group] = k
	}
	for i := range members {
		pod := members[i].Pod.WithNominatedNode(members[i].NodeName)
		k.pods, n.holdFor[pod] = append(k.pods, pod), k
		s.list(pod)
	}
}

// HideRoomHolds hides all reservations for groups from a what-if, until the returned
// function is called. No event shows it.
func (s *State) HideRoomHolds() (show func()) {
	n := &s.nominations
	holds, holdOf := n.holds, n.holdOf
	hidden := slices.SortedFunc(maps.Keys(n.holdFor), func(a, b *model.Pod) int {
		return cmp.Or(cmp.Compare(n.holdFor[a].id, n.holdFor[b].id), strings.Compare(a.Name, b.Name), strings.Compare(string(a.UID), string(b.UID)))
	})
	holdFor := n.holdFor
	n.holds, n.holdOf, n.holdFor = nil, nil, nil
	for _, pod := range hidden {
		s.storage.Nominate(pod, -1)
		s.unlistNomination(pod)
	}
	return func() {
		n.holds, n.holdOf, n.holdFor = holds, holdOf, holdFor
		for _, pod := range hidden {
			s.list(pod)
		}
	}
}

// list makes other pods leave space for a pod on its nominated node.
func (s *State) list(pod *model.Pod) {
	s.storage.Nominate(pod, +1)
	s.nominations.byNode[pod.NominatedNode] = append(s.nominations.byNode[pod.NominatedNode], pod)
	s.changedNominations(pod.NominatedNode)
}

// EndRoomHold ends the reservation for a group or a tree, if any. The next Apply returns
// the events for the freed space.
func (s *State) EndRoomHold(root model.RootKey) {
	n := &s.nominations
	k := n.holds[root]
	if k == nil {
		return
	}
	delete(n.holds, root)
	for _, group := range k.groups {
		delete(n.holdOf, group)
	}
	for _, pod := range k.pods {
		delete(n.holdFor, pod)
		s.storage.Nominate(pod, -1)
		s.unlistNomination(pod)
		s.renominated = append(s.renominated, s.nominationFreed(pod))
	}
}

// RoomHolds returns the number of groups and trees with reservations.
func (s *State) RoomHolds() int { return len(s.nominations.holds) }

// HoldsRoomFor reports whether a group or a tree has a reservation.
func (s *State) HoldsRoomFor(root model.RootKey) bool { return s.nominations.holds[root] != nil }

// HoldsRoomForMembers reports whether a PodGroup, or the tree that it belongs to, has a
// reservation.
func (s *State) HoldsRoomForMembers(group model.GroupKey) bool {
	return s.nominations.holdOf[group] != nil
}

// WithoutRoomHolds removes the pods with reservations from a list of NominatedBefore. id
// identifies the reservation of the first such pod, 0 if none.
func (v View) WithoutRoomHolds(nominated []*model.Pod) (others []*model.Pod, id uint32) {
	n := &v.s.nominations
	if len(n.holds) == 0 {
		return nominated, 0
	}
	for i, pod := range nominated {
		k := n.holdFor[pod]
		switch {
		case k == nil && id != 0:
			others = append(others, pod)
		case k != nil && id == 0:
			others, id = slices.Clone(nominated[:i]), k.id
		}
	}
	if id == 0 {
		return nominated, 0
	}
	return others, id
}

// RoomHolder returns the name of the group that an id of WithoutRoomHolds stands for,
// empty if its reservation has ended.
func (v View) RoomHolder(id uint32) string {
	for key, k := range v.s.nominations.holds {
		if k.id == id {
			return key.String()
		}
	}
	return ""
}

// RoomHeldOn returns the nodes reserved for a group or a tree, one for each member in the
// reservation.
func (v View) RoomHeldOn(root model.RootKey) (nodeNames []string) {
	if k := v.s.nominations.holds[root]; k != nil {
		for _, pod := range k.pods {
			nodeNames = append(nodeNames, pod.NominatedNode)
		}
	}
	return nodeNames
}

func (s *State) auditRoomHolds(v *audit.Violations) {
	n, pods, groups := &s.nominations, 0, 0
	for key, k := range n.holds {
		pods, groups = pods+len(k.pods), groups+len(k.groups)
		if k.root != key {
			v.Add("room that is held for %s is listed for %s", k.root, key)
		}
		for _, group := range k.groups {
			if n.holdOf[group] != k {
				v.Add("room is held for group %s of %s, and not listed there", group, key)
			}
		}
		for _, pod := range k.pods {
			if n.holdOf[pod.Group] != k || n.holdFor[pod] != k || !slices.Contains(n.byNode[pod.NominatedNode], pod) {
				v.Add("room is held for pod %s of group %s on node %q: of its group: %t, listed there: %t", pod, key, pod.NominatedNode, n.holdOf[pod.Group] == k && n.holdFor[pod] == k, slices.Contains(n.byNode[pod.NominatedNode], pod))
			}
		}
	}
	if len(n.holdFor) != pods || len(n.holdOf) != groups {
		v.Add("room is held for %d pods of %d groups, and listed for %d of %d", pods, groups, len(n.holdFor), len(n.holdOf))
	}
}
