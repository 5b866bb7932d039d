package queue

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// In kube-scheduler a rejected group is retried by backoff alone. When a drain takes a
// member's node and room becomes free in the middle of a backoff, newer pods take that
// room.
//
// Here the rejected members of a group are indexed like parked pods, and an event that
// helps a member wakes the group. As for a pod, the event ends the wait but not the
// backoff: a group that still backs off from an attempt moves to the backoff queue.
// Attempts that only the end of a backoff caused do not count for that, because a parked
// pod has none. So a group that has waited for long is ready at once. Without an event
// the group is retried as in kube-scheduler.
//
// Such an attempt is an early one (early.go). One event may help a thousand groups, and
// an attempt of a group costs more than that of a pod. So when too many early attempts
// have failed, the rest of the groups wait for the end of their backoff.
//
// A group also awaits an event while it is gated: its victims have not left yet, a member
// is gated, or members are missing. The first event that helps is stored until the group
// can be tried. So events during an eviction are not lost, and a member that is gated and
// released does not require indexing the other members again.
//
// With a GroupPatience of 0 events wake no group.

// groupWait is the part of a group's wait that events can end.
type groupWait struct {
	// listens means that the rejected members are indexed.
	//
	// Invariant: it is set exactly while the group awaits an event; then each joined
	// member that plugins rejected is listed, and no other.
	listens bool
	// pace is the end of the backoff after the last attempt that had another cause than
	// the end of a backoff.
	pace time.Time
	// retried means that the end of a backoff caused the last attempt, and no event.
	retried bool
	// due is the end of the backoff that an event has cut short, zero without one. The
	// next attempt is early if it is made before.
	due time.Time
	// woken means that an event has helped since the last attempt.
	woken bool
	// failed means that a member's binding has failed again since then. As after an
	// attempt that ended in an error, only the end of the backoff ends the wait.
	failed bool
}

// isRejected reports whether a pod waits for an event that helps it: it is parked, or a
// listed member of a group.
func (e *entry) isRejected() bool { return e.place == parked || e.listed }

// preemptor returns the entry that waits for the victims of a rejected pod's last
// attempt: the pod's own entry, or the head of its group.
func (e *entry) preemptor() *entry {
	if e.listed {
		return &e.group.head
	}
	return e
}

// awaitsEvent reports whether an event can help a group: it has been rejected, it is not
// ready, and no event has helped since.
func (q *Queue) awaitsEvent(g *group) bool {
	h := &g.head
	if q.config.GroupPatience <= 0 || h.errors > 0 || h.rejections == 0 || g.wait.woken || g.wait.failed {
		return false
	}
	return h.place == errorBackoff || h.place == gated || h.place == incomplete
}

// reviewListening indexes the rejected members of a group that has come to await an
// event, and drops the members of a group that no longer does.
func (q *Queue) reviewListening(g *group) {
	switch awaits := q.awaitsEvent(g); {
	case awaits == g.wait.listens:
	case awaits:
		g.wait.listens = true
		for _, e := range g.which(func(e *entry) bool { return len(e.plugins) > 0 }) {
			q.list(e)
		}
	default:
		q.unlisten(g)
	}
}

// list indexes a member of a group that listens, if plugins rejected the member.
func (q *Queue) list(e *entry) {
	if !e.group.wait.listens || e.place != joined || len(e.plugins) == 0 {
		return
	}
	e.listed = true
	q.parked.add(e, q.profiles[e.pod.SchedulerName], q.config.State.View())
}

// unlist takes a member out of the index.
func (q *Queue) unlist(e *entry) {
	if e.listed {
		q.parked.remove(e)
		e.listed = false
	}
}

// unlisten takes the members of a group out of the index.
func (q *Queue) unlisten(g *group) {
	for _, e := range g.which(func(e *entry) bool { return e.listed }) {
		q.unlist(e)
	}
	g.wait.listens = false
}

// membersPerMove is how many members of a group leave the index at the cost of one pod's
// move.
const membersPerMove = 4

// moves returns how many moves of a slice an entry counts for when it is woken, or when
// its backoff is over.
func (e *entry) moves() int {
	g := e.heads
	if e.listed {
		g = e.group
	}
	if g == nil || !g.wait.listens {
		return 1
	}
	return 1 + len(g.members)/membersPerMove
}

// which returns some members in the order of their arrival, so that the index depends on
// no map.
func (g *group) which(include func(e *entry) bool) []*entry {
	var members []*entry
	for _, e := range g.members {
		if include(e) {
			members = append(members, e)
		}
	}
	slices.SortFunc(members, func(a, b *entry) int { return cmp.Compare(a.order, b.order) })
	return members
}

// wakeGroup moves a group that an event helps to where it can be tried again, as soon as
// its backoff allows, or at once. A group that is held is tried when it no longer is.
func (q *Queue) wakeGroup(now time.Time, g *group, woken plan.Woken, atOnce bool) {
	h := &g.head
	g.wait.woken = true
	due := h.until
	if h.until = g.wait.pace; atOnce {
		h.until = time.Time{}
	} else if due.After(h.until) {
		g.wait.due = due
	}
	q.reviewListening(g)
	q.review(now, g, woken.Event)
	if h.place == active || h.place == backingOff {
		h.woken = woken
	}
}

// postpone moves a ready group to the backoff queue if its attempt would be early and too
// many early attempts have failed. It reports whether it did.
func (q *Queue) postpone(now time.Time, e *entry) bool {
	g := e.heads
	if g == nil || e.unfinished || !g.wait.due.After(now) || q.early.allowed(now) {
		return false
	}
	woken := e.woken
	e.until, g.wait.due = g.wait.due, time.Time{}
	q.moveHead(g, backingOff, woken.Event)
	e.woken = woken
	return true
}

// backOffGroup starts the backoff of a group after a rejection.
func (q *Queue) backOffGroup(g *group) {
	h := &g.head
	h.backOff(q.backoffEnd(h))
	if !g.wait.retried {
		g.wait.pace = h.until
	}
}

// backOffBinding starts the backoff of a group after the binding of a member has failed
// again. kube-scheduler retries it at once every time, as fast as the API server refuses.
func (q *Queue) backOffBinding(now time.Time, e *entry) {
	g := q.join(now, e)
	g.wait.woken, g.wait.failed, g.wait.pace = false, true, e.until
	g.head.until, g.head.lasts = e.until, e.until.Sub(now)
	if g.head.place == active { // because other members of the last attempt found no node
		q.moveHead(g, errorBackoff, attemptFailed)
	}
}

// updateRejected applies a new version of a pod that waits for an event. The change may
// be such an event.
func (q *Queue) updateRejected(now time.Time, e *entry, pod *model.Pod) {
	before := e.pod
	if why, woken := q.isBeingWoken(e); woken {
		q.wake(now, e, why, e.isWokenAtOnce())
		q.update(now, e, pod)
		return
	}
	// The new version may have other causes, so it is indexed again.
	q.parked.renew(e, q.profiles[pod.SchedulerName], q.config.State.View(), func() {
		e.pod = pod
		if pod.Malformed != "" {
			e.plugins, e.pending = nil, nil // plugins cannot read it
		}
	})
	for _, action := range model.PodUpdates(before, pod) {
		event := model.Event{Resource: model.TargetPodEvent, Action: action, OldPod: before, Pod: pod}
		if helps, atOnce := q.helps(e, event); helps || before.Malformed != "" {
			q.wake(now, e, event.Label(), atOnce)
			return
		}
	}
}
