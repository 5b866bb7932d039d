package queue

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// The members of a pod group have their turn together. Each member has its own entry,
// which records whether a PreEnqueue plugin gates it. The head of the group holds the
// place and the backoff of the group.
//
// As in kube-scheduler, a rejected group is retried when its backoff ends, without any
// event. It is retried earlier when an event helps a member, see groupevents.go. A group
// is not retried while a member is gated, while it has too few members, or while its
// PodGroup does not exist.
//
// A bound member is no longer in the group. If its binding fails, it joins the others
// again.

// group holds the waiting members of a pod group, or of all groups of a tree, see
// tree.go.
type group struct {
	key model.GroupKey
	// of is nil for a single PodGroup. For a tree it counts the members by their
	// PodGroup; key then names the CompositePodGroup at the top.
	of map[model.GroupKey]int
	// quorum caches whether a tree has enough members.
	quorum quorum
	// uid is the UID of the PodGroup, or of the root of the tree, that the attempts
	// belong to.
	uid types.UID
	// head represents the group in the heaps. Its pod is a placeholder with the name and
	// the priority of the group.
	//
	// Invariant: its place is active, backing off, in error backoff, gated, incomplete or
	// deciding. While it is deciding, all members are. It is backing off only if an event
	// has woken it.
	head entry
	// Invariant: members has exactly the joined, gated and deciding entries whose pods
	// name the group, or a group of the tree. At least one exists.
	members map[model.PodKey]*entry
	// Invariant: held is the number of gated members, joined the number of joined
	// members.
	held, joined int
	// Invariant: fresh are members, among them each joined member that has not been ready
	// yet. So a group that becomes active visits each member once, however often it
	// moves.
	fresh map[*entry]struct{}
	// gate is the PreEnqueue plugin that gates the group as a whole, or the preemption
	// plugin during evictions for the group.
	gate string
	// overtaken records for how long the group has been overtaken.
	overtaken overtaken
	wait      groupWait
}

// root returns the key of the group or the tree.
func (g *group) root() model.RootKey {
	return model.RootKey{Key: g.key, Composite: g.of != nil}
}

// isGrouped reports whether a pod waits with its group.
func (q *Queue) isGrouped(pod *model.Pod) bool {
	return q.config.Groups && pod.Group != (model.GroupKey{})
}

// join makes a waiting pod a member of its group.
func (q *Queue) join(now time.Time, e *entry) *group {
	if e.group != nil {
		return e.group
	}
	g := q.groups[e.pod.Group]
	if g == nil {
		g = q.groupFor(now, e.pod)
		q.groups[e.pod.Group] = g
	}
	g.members[e.pod.Key()], e.group = e, g
	if g.of != nil {
		q.count(g, e.pod.Group, +1)
	}
	return g
}

// groupFor returns the group for the first waiting member of a PodGroup: the tree of the
// PodGroup, or else a new group.
func (q *Queue) groupFor(now time.Time, pod *model.Pod) *group {
	root, _ := q.rootOf(pod.Group)
	if root != nil && q.trees[root.Key] != nil {
		return q.trees[root.Key]
	}
	q.arrivals++
	g := &group{key: pod.Group, members: map[model.PodKey]*entry{}, fresh: map[*entry]struct{}{}}
	if root != nil {
		g.key, g.of = root.Key, map[model.GroupKey]int{}
		q.trees[g.key] = g
	}
	// without a UID, review would reset a backoff that began with a failed binding
	g.uid, _, _ = q.objectOf(g)
	g.head = entry{heads: g, place: incomplete, since: now, order: q.arrivals, pod: headOf(g.key, pod.SchedulerName, 0)}
	return g
}

// objectOf returns the UID and the priority of the PodGroup, or of the CompositePodGroup
// at the top of a tree. ok is false if the object does not exist.
func (q *Queue) objectOf(g *group) (uid types.UID, priority int32, ok bool) {
	v := q.config.State.View()
	if g.of != nil {
		if root := v.Composite(g.key); root != nil {
			return root.UID(), root.Priority, true
		}
	} else if object := v.Group(g.key); object != nil {
		return object.UID(), object.Priority, true
	}
	return "", 0, false
}

// headOf returns the placeholder pod of a group.
func headOf(key model.GroupKey, schedulerName string, priority int32) *model.Pod {
	return &model.Pod{
		Namespace: key.Namespace, Name: key.Name, SchedulerName: schedulerName, Priority: priority,
		Object: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: v1.PodSpec{SchedulerName: schedulerName, Priority: &priority}},
	}
}

// leave removes a pod from its group.
func (q *Queue) leave(e *entry) {
	q.unlist(e)
	delete(e.group.members, e.pod.Key())
	delete(e.group.fresh, e)
	if g := e.group; g.of != nil {
		q.count(g, e.pod.Group, -1)
	}
	e.group = nil
}

// review moves a group to its place after a change.
func (q *Queue) review(now time.Time, g *group, why string) {
	if g.head.place != deciding {
		q.reposition(now, g, why)
	}
}

func (q *Queue) reposition(now time.Time, g *group, why string) {
	h := &g.head
	if len(g.members) == 0 {
		q.forgetVictim(h)
		q.forgetLeaving(h)
		q.moveHead(g, gone, "")
		q.forgetGroup(g)
		return
	}
	uid, _, ok := q.objectOf(g)
	if !ok || uid != g.uid { // a new PodGroup starts without history
		h.rejections, h.errors, h.until = 0, 0, time.Time{}
		g.overtaken = overtaken{}
		g.wait = groupWait{listens: g.wait.listens}
	}
	g.uid = uid
	switch to := q.placeOf(now, g); {
	// a group that is ready stays ready
	case to != h.place && !(h.place == active && (to == errorBackoff || to == backingOff)):
		q.moveHead(g, to, why)
	case h.place == active || h.backsOff():
		q.heapOf(h, h.place).fix(h)
	}
	// also without a move, because a new PodGroup was not rejected yet
	q.reviewListening(g)
}

// placeOf returns the place where a group belongs.
func (q *Queue) placeOf(now time.Time, g *group) place {
	_, priority, ok := q.objectOf(g)
	g.gate = ""
	if !ok || q.lacksParent(g) {
		return incomplete
	}
	if g.head.pod.Priority != priority {
		g.head.pod = headOf(g.key, g.head.pod.SchedulerName, priority)
	}
	if g.held > 0 {
		return gated
	}
	if g.gate = q.gateOf(g); g.gate != "" {
		return gated
	}
	switch {
	case q.isPreempting(&g.head):
		g.gate = preemptionPlugin
		return gated
	case q.isBackingOff(&g.head, now) && g.wait.woken:
		return backingOff
	case q.isBackingOff(&g.head, now):
		return errorBackoff
	}
	return active
}

// gateOf returns the PreEnqueue plugin that gates a group for lack of members; empty if
// none does.
func (q *Queue) gateOf(g *group) string {
	if g.of != nil {
		return q.gateOfTree(g)
	}
	object, all := q.config.State.View().Group(g.key), len(g.members)+q.config.State.View().GroupPlaced(g.key)
	for _, pre := range q.profiles[g.head.pod.SchedulerName].PreEnqueue {
		if pre.Group != nil && pre.Group(object, all) != "" {
			return pre.Name
		}
	}
	return ""
}

// moveHead moves a group and its joined members to another place.
func (q *Queue) moveHead(g *group, to place, why string) {
	h := &g.head
	if h.place == active || h.backsOff() {
		q.leaveHeap(h)
	}
	q.joined[h.place] -= g.joined
	goesOn := h.place == deciding && why == toGoOn
	if !goesOn {
		h.noteWoken(to, why)
		g.wait.retried = h.place == errorBackoff && why == backoffOver || h.place == active && g.wait.retried
	}
	h.place = to
	q.joined[to] += g.joined
	if to == active || h.backsOff() {
		q.enterHeap(h)
	}
	q.reviewListening(g)
	if to == active {
		for e := range g.fresh {
			e.beReady(q.now)
		}
		clear(g.fresh)
	}
	if !goesOn {
		q.movedWith(g, g.joined, why)
	}
}

// movedWith records a move of members together with their group.
func (q *Queue) movedWith(g *group, members int, why string) {
	if line := g.head.place.line(); line != "" && members > 0 {
		q.moves = append(q.moves, Move{Queue: line, Event: why, Pods: members, Group: &g.key, Composite: g.of != nil})
	}
}

// admitMember is admit for a member of a group. plugin is the PreEnqueue plugin that
// gates the member, if any.
func (q *Queue) admitMember(now time.Time, e *entry, plugin, why string) {
	g := q.join(now, e)
	if e.place == gated {
		g.held--
	}
	if plugin != "" {
		q.gate(e, plugin, why)
		g.held++
	} else {
		if e.place == gated {
			q.ungate(e)
		}
		if e.place != joined {
			q.move(e, joined, "")
			q.list(e)
			switch {
			case !e.ready.IsZero():
			case g.head.place == active:
				e.beReady(q.now)
			default:
				g.fresh[e] = struct{}{}
			}
			q.movedWith(g, 1, why)
		}
	}
	q.review(now, g, why)
}

// inTurn returns the members in kube-scheduler's order.
func (g *group) inTurn() []*entry {
	members := slices.Collect(maps.Values(g.members))
	slices.SortFunc(members, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(b.pod.Priority, a.pod.Priority), cmp.Compare(b.attempts, a.attempts), a.since.Compare(b.since), cmp.Compare(a.order, b.order))
	})
	return members
}

// popGroup returns the attempt for all members of a group, in kube-scheduler's order.
func (q *Queue) popGroup(now time.Time, g *group) *plan.Attempt {
	members := g.inTurn()
	g.head.attempts++
	a := &plan.Attempt{Members: make([]plan.Decision, len(members)), Rounds: g.head.goesOn()}
	if v := q.config.State.View(); g.of == nil {
		a.Group = v.Group(g.key)
	} else {
		a.Tree = v.Tree(g.key)
		a.Group = a.Tree.Root()
	}
	for i, e := range members {
		e.beReady(now)
		q.move(e, deciding, "")
		e.attempts++
		a.Members[i].QueuedPod = plan.QueuedPod{Pod: e.pod, Attempt: e.attempts, Since: e.ready, Popped: now, Woken: g.head.woken}
	}
	q.moveHead(g, deciding, "")
	return a
}

// settleGroup is Settle for a group.
func (q *Queue) settleGroup(now time.Time, a *plan.Attempt) {
	g := q.groups[a.Group.Key]
	if a.Tree != nil {
		g = q.trees[a.Group.Key]
		g.quorum = quorum{}
	}
	if a.Outcome == plan.Unfinished {
		q.goOnWith(g)
		return
	}
	h := &g.head
	if h.early && a.Outcome != plan.Placed {
		q.early.groupInVain(now, len(a.Members), q.accounts.turn)
	}
	g.wait.woken, g.wait.failed, g.wait.due = false, false, time.Time{}
	q.forgetLeaving(h)
	for i := range a.Members {
		q.awaitVictims(h, &a.Members[i])
		q.settleMember(now, a, &a.Members[i])
	}
	q.settleHead(now, g, a.Outcome)
	q.reposition(now, g, attemptFailed)
}

// settleMember moves a member to binding if it was placed, and else back to its group.
func (q *Queue) settleMember(now time.Time, a *plan.Attempt, m *plan.Decision) {
	e := q.entries[m.Pod.Key()]
	switch m.Outcome {
	case plan.Placed:
		e.permits = slices.ContainsFunc(m.Placement.Steps, atPermit)
		e.plugins, e.pending = nil, nil
		q.leave(e)
		q.move(e, binding, "")
		return
	case plan.Terminating:
		q.drop(e)
		return
	case plan.Unschedulable:
		e.errors = 0
		e.rejections++
		e.plugins, e.pending = m.Rejection.Plugins, m.Rejection.Pending
	default:
		e.errors++
		e.plugins, e.pending = nil, nil
	}
	if a.Outcome != plan.Placed { // after a success the other members keep their time
		e.since = now
	}
	q.admit(now, e, active, attemptFailed)
}

// settleHead counts the outcome of an attempt for the group itself, and starts its
// backoff after a failure.
func (q *Queue) settleHead(now time.Time, g *group, outcome plan.Outcome) {
	h := &g.head
	switch outcome {
	// waiting members keep the place of the group; reposition drops a group
	// without members
	case plan.Placed, plan.Terminating:
		h.rejections, h.errors, h.until = 0, 0, time.Time{}
		g.overtaken = overtaken{}
	case plan.Unschedulable:
		if g.overtaken.since.IsZero() {
			g.overtaken.since = now
		}
		h.rejections++
		h.errors = 0
		q.stamp(h, now)
		q.backOffGroup(g)
	default:
		h.errors++
		q.stamp(h, now)
		q.backOffGroup(g)
	}
}

// goOnWith puts back a group with an unfinished turn to its former place.
func (q *Queue) goOnWith(g *group) {
	g.head.attempts--
	g.head.unfinished = true
	g.head.rounds++
	for _, e := range g.members {
		e.attempts--
		q.move(e, joined, "")
	}
	q.moveHead(g, active, toGoOn)
}

// backsOff reports whether an entry waits for the end of a backoff.
func (e *entry) backsOff() bool { return e.place == backingOff || e.place == errorBackoff }

// backOff starts the backoff of a group at its last attempt.
func (e *entry) backOff(until time.Time) { e.until, e.lasts = until, until.Sub(e.since) }

// stamp restarts the wait of a group, behind everything that has arrived by now.
func (q *Queue) stamp(h *entry, now time.Time) {
	q.arrivals++
	h.since, h.order = now, q.arrivals
}

// maxBackoff returns the longest backoff of an entry. As in kube-scheduler, a group of n
// pods has sqrt(n) times the maximum. A group with reserved room has the plain maximum,
// because the reserved room should not stay empty longer than necessary.
func (q *Queue) maxBackoff(e *entry) time.Duration {
	if e.heads == nil || len(e.heads.members) < 2 || q.config.State.HoldsRoomFor(e.heads.root()) {
		return q.config.MaxBackoff
	}
	return time.Duration(float64(q.config.MaxBackoff) * math.Sqrt(float64(len(e.heads.members))))
}
