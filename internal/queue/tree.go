package queue

import (
	"cmp"
	"time"

	"github.com/berth-scheduler/berth/internal/audit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// The members of all PodGroups below a CompositePodGroup that belongs to no other wait together, as those of one group do: the tree has one head, with the priority of
// its root. A PodGroup that names a parent is incomplete as long as one of those above it does not exist, or when there are too many of them; then its
// members wait by themselves, and they join the tree when it is there.

// quorum is what was last found about a tree's having enough members. It holds until a member leaves, a group changes, or the last member that a PodGroup needs comes.
type quorum struct {
	known bool
	left  uint64 // by then, how often members of groups had left their nodes
	gate  string // the plugin that holds the tree; empty if none does
}

// rootOf returns the CompositePodGroup at the top of the tree that a PodGroup belongs to; nil if it belongs to none, or does not exist. It is an error if one of those
// above it does not exist, or if there are too many.
func (q *Queue) rootOf(key model.GroupKey) (*model.CompositeGroup, error) {
	v := q.config.State.View()
	object := v.Group(key)
	if !q.config.Trees || object == nil {
		return nil, nil
	}
	return v.Root(object)
}

// lacksParent reports whether a PodGroup that waits by itself belongs to a tree that is not there.
func (q *Queue) lacksParent(g *group) bool {
	if g.of != nil {
		return false
	}
	_, err := q.rootOf(g.key)
	return err != nil
}

// count notes that a member of a tree comes or goes.
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

// allOf returns how many members a PodGroup of a tree has, with and without a node.
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
		of, ok := pre.(plugin.GroupPreEnqueue)
		if ok && of.PreEnqueueTree(tree, func(key model.GroupKey) int { return q.allOf(g, key) }) != "" {
			g.quorum.gate = pre.Name()
			break
		}
	}
	return g.quorum.gate
}

// forgetGroup forgets a group without members.
func (q *Queue) forgetGroup(g *group) {
	if g.of != nil {
		delete(q.trees, g.key)
		return
	}
	delete(q.groups, g.key)
}

// reviewPodGroup finds out where the members of a PodGroup are to wait, after something has changed of it or of those above it.
func (q *Queue) reviewPodGroup(now time.Time, key model.GroupKey) {
	g := q.groups[key]
	if g == nil {
		if root, _ := q.rootOf(key); root != nil && q.trees[root.Key] != nil { // it is there for the others to be tried
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

// moveMembers has the members of a PodGroup wait where they belong now, by themselves or with a tree.
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
