package queue

import (
	"cmp"
	"time"

	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model"
)

// The members of all PodGroups below a CompositePodGroup without a parent wait together,
// like the members of one group. The tree has one head with the priority of its root.
//
// A PodGroup that names a parent is incomplete while an ancestor does not exist, or while
// it has too many ancestors. Meanwhile its members wait separately; later they join the
// tree.

// quorum caches whether a tree has enough members. It is valid until a member leaves, a
// group changes, or the last member that a PodGroup needs arrives.
type quorum struct {
	known bool
	left  uint64 // the value of GroupsLeft at that time
	gate  string // the plugin that gates the tree; empty if none does
}

// rootOf returns the CompositePodGroup at the top of a PodGroup's tree; nil if the
// PodGroup has no parent or does not exist. It returns an error if an ancestor does not
// exist or the PodGroup has too many ancestors.
func (q *Queue) rootOf(key model.GroupKey) (*model.CompositeGroup, error) {
	v := q.config.State.View()
	object := v.Group(key)
	if !q.config.Trees || object == nil {
		return nil, nil
	}
	return v.Root(object)
}

// lacksParent reports whether a PodGroup that waits separately belongs to an incomplete
// tree.
func (q *Queue) lacksParent(g *group) bool {
	if g.of != nil {
		return false
	}
	_, err := q.rootOf(g.key)
	return err != nil
}

// count adds a change to the number of a tree's members.
func (q *Queue) count(g *group, of model.GroupKey, change int) {
	g.of[of] += change
	switch object := q.config.State.View().Group(of); {
	case change < 0 || object == nil, q.allOf(g, of) == object.MinCount:
		g.quorum = quorum{}
	}
	if g.of[of] == 0 {
		delete(g.of, of)
		delete(q.groups, of)
	}
}

// allOf returns the number of members of a PodGroup in a tree, with and without a node.
func (q *Queue) allOf(g *group, of model.GroupKey) int {
	return g.of[of] + q.config.State.View().GroupPlaced(of)
}

// gateOfTree is gateOf for a tree.
func (q *Queue) gateOfTree(g *group) string {
	v := q.config.State.View()
	if g.quorum.known && g.quorum.left == v.GroupsLeft() {
		return g.quorum.gate
	}
	g.quorum = quorum{known: true, left: v.GroupsLeft()}
	tree := v.Tree(g.key)
	for _, pre := range q.profiles[g.head.pod.SchedulerName].PreEnqueue {
		if pre.Tree != nil && pre.Tree(tree, func(key model.GroupKey) int { return q.allOf(g, key) }) != "" {
			g.quorum.gate = pre.Name
			break
		}
	}
	return g.quorum.gate
}

// forgetGroup drops a group without members.
func (q *Queue) forgetGroup(g *group) {
	if g.of != nil {
		delete(q.trees, g.key)
		return
	}
	delete(q.groups, g.key)
}

// reviewPodGroup moves the members of a PodGroup to their place after a change of the
// PodGroup or its ancestors.
func (q *Queue) reviewPodGroup(now time.Time, key model.GroupKey) {
	g := q.groups[key]
	if g == nil {
		// others of the tree may have waited for this PodGroup
		if root, _ := q.rootOf(key); root != nil && q.trees[root.Key] != nil {
			q.trees[root.Key].quorum = quorum{}
			q.review(now, q.trees[root.Key], groupChanged)
		}
		return
	}
	root, _ := q.rootOf(key)
	if isTree := g.of != nil; isTree != (root != nil) || isTree && root.Key != g.key {
		q.moveMembers(now, g, key)
		g = q.groups[key]
	}
	g.quorum = quorum{}
	q.review(now, g, groupChanged)
}

// moveMembers moves the members of a PodGroup to their present group: a separate group or
// a tree.
func (q *Queue) moveMembers(now time.Time, from *group, key model.GroupKey) {
	members := from.which(func(e *entry) bool { return e.pod.Group == key })
	for _, e := range members {
		if e.place == joined {
			from.joined--
			q.joined[from.head.place]--
		} else {
			from.held--
		}
		q.leave(e)
	}
	if from.of == nil {
		delete(q.groups, key)
	}
	q.review(now, from, groupChanged) // it may be gone now
	for _, e := range members {
		g := q.join(now, e)
		if e.place != joined {
			g.held++
			continue
		}
		g.joined++
		q.joined[g.head.place]++
		switch {
		case !e.ready.IsZero():
		case g.head.place == active:
			e.beReady(q.now)
		default:
			g.fresh[e] = struct{}{}
		}
		q.list(e)
		q.movedWith(g, 1, groupChanged)
	}
}

func byName(a, b model.GroupKey) int { return cmp.Compare(a.Name, b.Name) }

// eachGroup returns all groups, each once, in no particular order.
func (q *Queue) eachGroup() []*group {
	var all []*group
	for _, g := range q.groups {
		if g.of == nil {
			all = append(all, g)
		}
	}
	for _, g := range q.trees {
		all = append(all, g)
	}
	return all
}

func (q *Queue) auditTree(v *audit.Violations, g *group) {
	if g.of == nil {
		if q.groups[g.key] != g {
			v.Add("group %s is listed as another", g.key)
		}
		for _, e := range g.members {
			if e.pod != nil && e.pod.Group != g.key {
				v.Add("pod %s of group %s waits in group %s", e.pod, e.pod.Group, g.key)
			}
		}
		return
	}
	recounted := map[model.GroupKey]int{}
	for _, e := range g.members {
		recounted[e.pod.Group]++
	}
	for key, n := range recounted {
		if root, _ := q.rootOf(key); root == nil || root.Key != g.key {
			v.Add("group %s waits in tree %s, to which it does not belong", key, g.key)
		}
		if g.of[key] != n || q.groups[key] != g {
			v.Add("tree %s counts %d members of group %s, recounted %d; it is listed there: %t", g.key, g.of[key], key, n, q.groups[key] == g)
		}
	}
	if len(recounted) != len(g.of) || q.trees[g.key] != g {
		v.Add("tree %s counts the members of %d groups, recounted %d; it is listed: %t", g.key, len(g.of), len(recounted), q.trees[g.key] == g)
	}
}
