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

// keptRoom is space on nodes that is reserved for the members of a pod group, or of all
// groups of a tree. Other pods leave it free unless they outrank the members, as for
// nominated pods. The members themselves are not nominated: they are decided as if
// nothing was reserved, and the API does not show it.
type keptRoom struct {
	root model.RootKey
	// groups are the PodGroup, or the PodGroups of the tree at that time.
	groups []model.GroupKey
	// id differs for each reservation.
	id   uint32
	pods []*model.Pod
}

// Keep reserves space on nodes for members of a pod group, or of the groups of a tree,
// until GiveWay. The group or tree, and each of its groups, must not have a reservation
// yet.
func (s *State) Keep(root model.RootKey, groups []model.GroupKey, members []plan.Nomination) {
	n := &s.nominations
	n.keeping++
	k := &keptRoom{root: root, groups: groups, id: n.keeping}
	if n.kept == nil {
		n.kept, n.keptOf, n.keptFor = map[model.RootKey]*keptRoom{}, map[model.GroupKey]*keptRoom{}, map[*model.Pod]*keptRoom{}
	}
	n.kept[root] = k
	for _, group := range groups {
		n.keptOf[group] = k
	}
	for i := range members {
		pod := members[i].Pod.WithNominatedNode(members[i].NodeName)
		k.pods, n.keptFor[pod] = append(k.pods, pod), k
		s.list(pod)
	}
}

// HideKept hides all reservations for groups from a what-if, until the returned function
// is called. No event shows it.
func (s *State) HideKept() (show func()) {
	n := &s.nominations
	kept, keptOf := n.kept, n.keptOf
	hidden := slices.SortedFunc(maps.Keys(n.keptFor), func(a, b *model.Pod) int {
		return cmp.Or(cmp.Compare(n.keptFor[a].id, n.keptFor[b].id), strings.Compare(a.Name, b.Name), strings.Compare(string(a.UID), string(b.UID)))
	})
	of := n.keptFor
	n.kept, n.keptOf, n.keptFor = nil, nil, nil
	for _, pod := range hidden {
		s.storage.Nominate(pod, -1)
		s.unlistNomination(pod)
	}
	return func() {
		n.kept, n.keptOf, n.keptFor = kept, keptOf, of
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

// GiveWay ends the reservation for a group or a tree, if any. The next Apply returns the
// events for the freed space.
func (s *State) GiveWay(root model.RootKey) {
	n := &s.nominations
	k := n.kept[root]
	if k == nil {
		return
	}
	delete(n.kept, root)
	for _, group := range k.groups {
		delete(n.keptOf, group)
	}
	for _, pod := range k.pods {
		delete(n.keptFor, pod)
		s.storage.Nominate(pod, -1)
		s.unlistNomination(pod)
		s.renominated = append(s.renominated, s.nominationFreed(pod))
	}
}

// Keeps returns the number of groups and trees with reservations.
func (s *State) Keeps() int { return len(s.nominations.kept) }

// KeepsFor reports whether a group or a tree has a reservation.
func (s *State) KeepsFor(root model.RootKey) bool { return s.nominations.kept[root] != nil }

// KeepsForMembers reports whether a PodGroup, or the tree that it belongs to, has a
// reservation.
func (s *State) KeepsForMembers(group model.GroupKey) bool { return s.nominations.keptOf[group] != nil }

// WithoutKept removes the pods with reservations from a list of NominatedBefore. id
// identifies the reservation of the first such pod, 0 if none.
func (v View) WithoutKept(nominated []*model.Pod) (others []*model.Pod, id uint32) {
	n := &v.s.nominations
	if len(n.kept) == 0 {
		return nominated, 0
	}
	for i, pod := range nominated {
		k := n.keptFor[pod]
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

// KeptFor returns the name of the group that an id of WithoutKept stands for, empty if
// its reservation has ended.
func (v View) KeptFor(id uint32) string {
	for key, k := range v.s.nominations.kept {
		if k.id == id {
			return key.String()
		}
	}
	return ""
}

// KeptOn returns the nodes reserved for a group or a tree, one for each member in the
// reservation.
func (v View) KeptOn(root model.RootKey) (nodeNames []string) {
	if k := v.s.nominations.kept[root]; k != nil {
		for _, pod := range k.pods {
			nodeNames = append(nodeNames, pod.NominatedNode)
		}
	}
	return nodeNames
}

func (s *State) auditKept(v *audit.Violations) {
	n, pods, groups := &s.nominations, 0, 0
	for key, k := range n.kept {
		pods, groups = pods+len(k.pods), groups+len(k.groups)
		if k.root != key {
			v.Add("room that is kept for %s is listed for %s", k.root, key)
		}
		for _, group := range k.groups {
			if n.keptOf[group] != k {
				v.Add("room is kept for group %s of %s, and not listed there", group, key)
			}
		}
		for _, pod := range k.pods {
			if n.keptOf[pod.Group] != k || n.keptFor[pod] != k || !slices.Contains(n.byNode[pod.NominatedNode], pod) {
				v.Add("room is kept for pod %s of group %s on node %q: of its group: %t, listed there: %t", pod, key, pod.NominatedNode, n.keptOf[pod.Group] == k && n.keptFor[pod] == k, slices.Contains(n.byNode[pod.NominatedNode], pod))
			}
		}
	}
	if len(n.keptFor) != pods || len(n.keptOf) != groups {
		v.Add("room is kept for %d pods of %d groups, and listed for %d of %d", pods, groups, len(n.keptFor), len(n.keptOf))
	}
}
