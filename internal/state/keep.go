package state

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/internal/audit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
)

// keptRoom is room that is kept for the members of a pod group, or of all groups of a tree: other pods that do not outrank them leave it, as they do for nominated pods. The members
// themselves are not nominated: they are decided about as if no room was kept, and the API shows nothing of it.
type keptRoom struct {
	root model.RootKey
	// groups are the PodGroup, or those of the tree at that time.
	groups []model.GroupKey
	// id is another each time that room is kept.
	id   uint32
	pods []*model.Pod
}

// Keep keeps room for members of a pod group, or of the groups of a tree, on nodes, until GiveWay. There must be none that is kept for it already, nor for one of its groups.
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

// HideKept has a what-if leave no room for any group, until the function is called that it returns. Nobody hears of it.
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

// list has other pods leave room for one on the node that it is nominated to.
func (s *State) list(pod *model.Pod) {
	s.storage.Nominate(pod, +1)
	s.nominations.byNode[pod.NominatedNode] = append(s.nominations.byNode[pod.NominatedNode], pod)
	s.changedNominations(pod.NominatedNode)
}

// GiveWay ends the keeping of room for a group or a tree, if there is any. The next Apply has the events that the room is free.
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

// Keeps returns for how many groups and trees room is kept.
func (s *State) Keeps() int { return len(s.nominations.kept) }

// KeepsFor reports whether room is kept for a group or a tree.
func (s *State) KeepsFor(root model.RootKey) bool { return s.nominations.kept[root] != nil }

// KeepsForMembers reports whether room is kept for a PodGroup, or for the tree that it belongs to.
func (s *State) KeepsForMembers(group model.GroupKey) bool { return s.nominations.keptOf[group] != nil }

// WithoutKept takes the pods that room is kept for out of a list of NominatedBefore. id stands for the group of the first one, and is 0 if there is none.
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

// KeptFor returns the name of the group that an id of WithoutKept stands for, empty if no room is kept for it any more.
func (v View) KeptFor(id uint32) string {
	for key, k := range v.s.nominations.kept {
		if k.id == id {
			return key.String()
		}
	}
	return ""
}

// KeptOn returns the nodes on which room is kept for a group or a tree, one for each member that it is kept for.
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
