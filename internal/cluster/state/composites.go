package state

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model"
)

// composites are the CompositePodGroups and the groups that name them as parents. It is
// empty unless the feature gate is on.
type composites struct {
	objects map[model.GroupKey]*model.CompositeGroup
	// Invariant: below lists exactly the PodGroups and CompositePodGroups that name a
	// parent, by parent, whether or not the parent exists; no list is empty.
	below map[model.GroupKey]map[groupRef]struct{}
}

// groupRef names a PodGroup, or a CompositePodGroup.
type groupRef struct {
	key       model.GroupKey
	composite bool
}

func newComposites() composites {
	return composites{objects: map[model.GroupKey]*model.CompositeGroup{}, below: map[model.GroupKey]map[groupRef]struct{}{}}
}

// list moves a group from its previous parent to its new one. Either may be empty.
func (c *composites) list(of groupRef, before, parent string) {
	if before == parent {
		return
	}
	if key := (model.GroupKey{Namespace: of.key.Namespace, Name: before}); before != "" {
		if delete(c.below[key], of); len(c.below[key]) == 0 {
			delete(c.below, key)
		}
	}
	if key := (model.GroupKey{Namespace: of.key.Namespace, Name: parent}); parent != "" {
		if c.below[key] == nil {
			c.below[key] = map[groupRef]struct{}{}
		}
		c.below[key][of] = struct{}{}
	}
}

func parentOf(group *model.PodGroup) string {
	if group == nil {
		return ""
	}
	return group.Parent
}

// setComposite stores a version of a CompositePodGroup.
func (s *State) setComposite(group *model.CompositeGroup, delta *Delta) {
	event := model.Event{Resource: model.CompositePodGroupEvent, Action: model.Add, Object: group}
	parent := ""
	if before := s.composites.objects[group.Key]; before != nil {
		event.Action, event.OldObject, parent = model.Update, before, before.Parent
	}
	s.composites.objects[group.Key] = group
	s.composites.list(groupRef{group.Key, true}, parent, group.Parent)
	delta.Composites = append(delta.Composites, group.Key)
	delta.Events = append(delta.Events, event)
}

func (s *State) removeComposite(ref model.Ref, delta *Delta) {
	key := model.GroupKey{Namespace: ref.Namespace, Name: ref.Name}
	before := s.composites.objects[key]
	if before == nil {
		return
	}
	delete(s.composites.objects, key)
	s.composites.list(groupRef{key, true}, before.Parent, "")
	delta.Composites = append(delta.Composites, key)
	delta.Events = append(delta.Events, model.Event{Resource: model.CompositePodGroupEvent, Action: model.Delete, OldObject: before})
}

// Composite returns the CompositePodGroup of a key, nil if it does not exist.
func (v View) Composite(key model.GroupKey) *model.CompositeGroup { return v.s.composites.objects[key] }

// MaxTreeDepth is the maximum number of levels in a tree of groups. As in kube-scheduler,
// it allows four levels of CompositePodGroups and one of PodGroups.
const MaxTreeDepth = 5

var (
	// ErrNoParent means that the parent of a group does not exist.
	ErrNoParent = errors.New("a composite pod group is missing")
	// ErrTooDeep means that a group has too many levels above it, or that groups are each
	// other's parents.
	ErrTooDeep = errors.New("the tree of pod groups is too deep")
)

// Root returns the CompositePodGroup at the top of a PodGroup's tree; nil if the group
// names no parent. The error is ErrNoParent or ErrTooDeep, with the names of groups.
func (v View) Root(group *model.PodGroup) (*model.CompositeGroup, error) {
	var root *model.CompositeGroup
	for level, parent := 2, group.Parent; parent != ""; level, parent = level+1, root.Parent {
		key := model.GroupKey{Namespace: group.Key.Namespace, Name: parent}
		if level > MaxTreeDepth {
			return nil, fmt.Errorf("%w: pod group %s has more than %d levels above it, or composite pod group %s is above itself", ErrTooDeep, group.Key, MaxTreeDepth-1, key)
		}
		if root = v.s.composites.objects[key]; root == nil {
			return nil, fmt.Errorf("%w: %s, above pod group %s", ErrNoParent, key, group.Key)
		}
	}
	return root, nil
}

// topOf returns the topmost existing CompositePodGroup above a PodGroup, and the highest
// one whose pods may only be evicted together; nil if none.
func (v View) topOf(group *model.PodGroup) (top, unit *model.CompositeGroup) {
	parent := group.Parent
	for level := 2; parent != "" && level <= MaxTreeDepth; level++ {
		above := v.s.composites.objects[model.GroupKey{Namespace: group.Key.Namespace, Name: parent}]
		if above == nil {
			break
		}
		if top = above; above.IsUnit {
			unit = above
		}
		parent = above.Parent
	}
	return top, unit
}

// Tree returns a CompositePodGroup with all groups below it; nil if it does not exist.
// Groups deeper than MaxTreeDepth levels are left out: they belong to no tree.
func (v View) Tree(key model.GroupKey) *model.GroupTree {
	return v.tree(groupRef{key, true}, 1)
}

func (v View) tree(of groupRef, level int) *model.GroupTree {
	if !of.composite {
		return model.TreeOf(v.s.groups.objects[of.key])
	}
	top := v.s.composites.objects[of.key]
	if top == nil {
		return nil
	}
	tree := &model.GroupTree{Composite: top}
	if level == MaxTreeDepth {
		return tree
	}
	for ref := range v.s.composites.below[of.key] {
		tree.Below = append(tree.Below, v.tree(ref, level+1))
	}
	slices.SortFunc(tree.Below, byCreation)
	return tree
}

func byCreation(a, b *model.GroupTree) int {
	isLeaf := func(t *model.GroupTree) int {
		if t.Group != nil {
			return 1
		}
		return 0
	}
	x, y := a.Object(), b.Object()
	return cmp.Or(x.GetCreationTimestamp().Compare(y.GetCreationTimestamp().Time), cmp.Compare(a.Key().Name, b.Key().Name), cmp.Compare(isLeaf(a), isLeaf(b)))
}

// GroupsBelow returns the PodGroups in the trees below a CompositePodGroup, whether or
// not it exists, in no particular order.
func (v View) GroupsBelow(key model.GroupKey) iter.Seq[model.GroupKey] {
	return func(yield func(model.GroupKey) bool) { v.groupsBelow(key, 1, yield) }
}

func (v View) groupsBelow(key model.GroupKey, level int, yield func(model.GroupKey) bool) bool {
	if level == MaxTreeDepth {
		return true
	}
	for ref := range v.s.composites.below[key] {
		if !ref.composite && !yield(ref.key) || ref.composite && !v.groupsBelow(ref.key, level+1, yield) {
			return false
		}
	}
	return true
}

// TreePlaced returns the number of members of a tree's groups on nodes, including assumed
// ones.
func (v View) TreePlaced(tree *model.GroupTree) (placed int) {
	for group := range tree.Leaves {
		placed += v.GroupPlaced(group.Key)
	}
	return placed
}

// TreeMembers returns these members, in no particular order.
func (v View) TreeMembers(tree *model.GroupTree) iter.Seq[*model.Pod] {
	return func(yield func(*model.Pod) bool) {
		for group := range tree.Leaves {
			for pod := range v.GroupMembers(group.Key) {
				if !yield(pod) {
					return
				}
			}
		}
	}
}

func (s *State) auditComposites(v *audit.Violations) {
	c := &s.composites
	listed, named := 0, 0
	for key, list := range c.below {
		if listed += len(list); len(list) == 0 {
			v.Add("composite group %s is listed as a parent, and of nothing", key)
		}
	}
	check := func(ref groupRef, parent string) {
		if parent == "" {
			return
		}
		named++
		if _, ok := c.below[model.GroupKey{Namespace: ref.key.Namespace, Name: parent}][ref]; !ok {
			v.Add("group %s names parent %s, and is not listed there", ref.key, parent)
		}
	}
	for key, group := range s.groups.objects {
		check(groupRef{key, false}, parentOf(group))
	}
	for key, group := range c.objects {
		if group.Key != key {
			v.Add("composite group %s is listed as %s", group.Key, key)
		}
		check(groupRef{key, true}, group.Parent)
	}
	if listed != named {
		v.Add("%d groups are listed by their parents, recounted %d", listed, named)
	}
}
