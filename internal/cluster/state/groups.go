package state

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model"
)

// groups are the PodGroups, and the pods on nodes that name a group, whether or not it
// exists. The queue keeps the waiting members.
type groups struct {
	objects map[model.GroupKey]*model.PodGroup
	// Invariant: members lists exactly the placed pods that name a group, by group; no
	// list is empty.
	members map[model.GroupKey]*groupMembers
	// scheduled are the groups that once had enough members placed, by UID, even before
	// their condition shows it.
	// Invariant: each of these objects exists.
	scheduled map[model.GroupKey]types.UID
	// left counts members that left their node.
	left uint64
}

// groupMembers are the members of a group on nodes.
type groupMembers struct {
	// Invariant: each pod records its position here.
	pods []*placed
	// Invariant: ranks counts the pods by their own priority; none has 0 members. Mostly
	// all pods have the same priority.
	ranks []groupRank
}

// groupRank counts the members of a group on nodes that have one priority.
type groupRank struct{ priority, members int32 }

// rank counts a member that came (+1) or left (-1) under its priority.
func (m *groupMembers) rank(priority, sign int32) {
	at := slices.IndexFunc(m.ranks, func(r groupRank) bool { return r.priority == priority })
	if at < 0 {
		at, m.ranks = len(m.ranks), append(m.ranks, groupRank{priority: priority})
	}
	if m.ranks[at].members += sign; m.ranks[at].members == 0 {
		m.ranks = slices.Delete(m.ranks, at, at+1)
	}
}

func (g *groups) place(p *placed) {
	key := p.pod.Group
	if key == (model.GroupKey{}) {
		return
	}
	m := g.members[key]
	if m == nil {
		m = &groupMembers{}
		g.members[key] = m
	}
	p.memberAt = int32(len(m.pods))
	m.pods = append(m.pods, p)
	m.rank(p.pod.Priority, +1)
}

func (g *groups) remove(p *placed) {
	key := p.pod.Group
	if key == (model.GroupKey{}) {
		return
	}
	g.left++
	m := g.members[key]
	last := len(m.pods) - 1
	m.pods[p.memberAt] = m.pods[last]
	m.pods[p.memberAt].memberAt = p.memberAt
	m.pods[last] = nil
	if m.pods = m.pods[:last]; last == 0 {
		delete(g.members, key)
		return
	}
	m.rank(p.pod.Priority, -1)
}

// on returns the members of a group on nodes.
func (g *groups) on(key model.GroupKey) []*placed {
	if m := g.members[key]; m != nil {
		return m.pods
	}
	return nil
}

// setGroup stores a version of a PodGroup.
func (s *State) setGroup(group *model.PodGroup, delta *Delta) {
	event := model.Event{Resource: model.PodGroupEvent, Action: model.Add, Object: group}
	if before := s.groups.objects[group.Key]; before != nil {
		event.Action, event.OldObject = model.Update, before
	}
	s.composites.list(groupRef{group.Key, false}, parentOf(s.groups.objects[group.Key]), group.Parent)
	s.groups.objects[group.Key] = group
	if uid, ok := s.groups.scheduled[group.Key]; ok && uid != group.UID() {
		delete(s.groups.scheduled, group.Key)
	}
	delta.Groups = append(delta.Groups, group.Key)
	delta.Events = append(delta.Events, event)
}

func (s *State) removeGroup(ref model.Ref, delta *Delta) {
	key := model.GroupKey{Namespace: ref.Namespace, Name: ref.Name}
	before := s.groups.objects[key]
	if before == nil {
		return
	}
	delete(s.groups.objects, key)
	s.composites.list(groupRef{key, false}, before.Parent, "")
	delete(s.groups.scheduled, key)
	delta.Groups = append(delta.Groups, key)
	delta.Events = append(delta.Events, model.Event{Resource: model.PodGroupEvent, Action: model.Delete, OldObject: before})
}

// Group returns the PodGroup of a key, nil if it does not exist.
func (v View) Group(key model.GroupKey) *model.PodGroup { return v.s.groups.objects[key] }

// GroupPlaced returns the number of members of a group on nodes, including assumed ones.
// Changes of a draft do not count.
func (v View) GroupPlaced(key model.GroupKey) int { return len(v.s.groups.on(key)) }

// GroupsLeft returns a number that changes when a member of any group leaves its node.
func (v View) GroupsLeft() uint64 { return v.s.groups.left }

// GroupMembers returns these members, in no particular order.
func (v View) GroupMembers(key model.GroupKey) iter.Seq[*model.Pod] {
	return func(yield func(*model.Pod) bool) {
		for _, p := range v.s.groups.on(key) {
			if !yield(p.pod) {
				return
			}
		}
	}
}

// RankedOtherwise returns, by slot, the pods on nodes that a comparison with the given
// priority ranks differently by PreemptionPriority than by their own priority. The bands
// of a node count these pods on the wrong side of that priority. Mostly none exist; then
// the cost is one check per group.
func (v View) RankedOtherwise(priority int32) iter.Seq2[int32, *model.Pod] {
	return func(yield func(int32, *model.Pod) bool) {
		for key, members := range v.s.groups.members {
			if v.s.groups.objects[key] == nil {
				continue
			}
			for _, p := range members.pods {
				below := v.PreemptionPriority(p.pod) < priority
				if !slices.ContainsFunc(members.ranks, func(r groupRank) bool { return r.priority < priority != below }) {
					break // the same for all members
				}
				if p.pod.Priority < priority != below && !yield(p.slot, p.pod) {
					return
				}
			}
		}
	}
}

// BeginGroupTurn begins the turn of a pod group. Until EndGroupTurn, its members share
// the devices that are promised to a claim of any member.
func (s *State) BeginGroupTurn() { s.devices.BeginGroup() }

// EndGroupTurn ends that turn.
func (s *State) EndGroupTurn() { s.devices.EndGroup() }

// NoteGroupScheduled records that enough members of a group have been placed.
func (s *State) NoteGroupScheduled(group *model.PodGroup) {
	if s.groups.objects[group.Key] != nil {
		s.groups.scheduled[group.Key] = group.UID()
	}
}

// GroupScheduled reports whether NoteGroupScheduled was called for the group.
func (v View) GroupScheduled(group *model.PodGroup) bool {
	uid, ok := v.s.groups.scheduled[group.Key]
	return ok && uid == group.UID()
}

func (s *State) auditGroups(v *audit.Violations) {
	members := 0
	for _, p := range s.placed {
		if p.pod.Group == (model.GroupKey{}) {
			continue
		}
		members++
		if of := s.groups.on(p.pod.Group); int(p.memberAt) >= len(of) || of[p.memberAt] != p {
			v.Add("pod %s is on a node, and is not listed as a member of group %s", p.pod, p.pod.Group)
		}
	}
	listed := 0
	for key, of := range s.groups.members {
		listed += len(of.pods)
		if len(of.pods) == 0 {
			v.Add("group %s is listed and has no members on nodes", key)
		}
	}
	if listed != members {
		v.Add("%d members of groups are listed on nodes, recounted %d", listed, members)
	}
	ranked := int32(0)
	for key, of := range s.groups.members {
		for _, r := range of.ranks {
			ranked += r.members
			n := int32(0)
			for _, p := range of.pods {
				if p != nil && p.pod.Priority == r.priority {
					n++
				}
			}
			if n != r.members || n == 0 {
				v.Add("%d members of group %s on nodes have priority %d, recounted %d", r.members, key, r.priority, n)
			}
		}
	}
	if int(ranked) != members {
		v.Add("%d members of groups on nodes are listed by their priorities, recounted %d", ranked, members)
	}
	for key, group := range s.groups.objects {
		if group == nil || group.Key != key {
			v.Add("group %v is listed as %s", group, key)
		}
	}
	for key := range s.groups.scheduled {
		if s.groups.objects[key] == nil {
			v.Add("group %s was scheduled once, and does not exist", key)
		}
	}
}
