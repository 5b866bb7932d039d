package queue

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
)

// In kube-scheduler a rejected group is retried by backoff alone. When a drain takes a
// member's node and room comes back in the middle of a backoff, newer pods take that room.
//
// Here the rejected members of a group are indexed as parked pods are, and an event that
// helps one of them wakes the group. As for a pod, the event ends the wait and not the
// backoff: a group that still backs off from an attempt moves to the backoff queue. Attempts
// that only the end of a backoff caused do not count for that, because a parked pod has none.
// So a group that has waited for long is ready at once. Without an event the group is
// retried as in kube-scheduler.
//
// With a GroupPatience of 0 events wake no group.

// groupWait is the part of a group's wait that events can end.
type groupWait struct {
	// listens means that the rejected members are indexed.
	// Invariant: it is set exactly while the head is erring after a rejection, if events
	// wake groups; then each joined member that plugins rejected is listed, and no other.
	listens bool
	// pace is the end of the backoff after the last attempt that had another cause than
	// the end of a backoff.
	pace time.Time
	// retried means that the end of a backoff caused the last attempt, and no event.
	retried bool
	// woken means that an event has helped since the last attempt.
	woken bool
}

// isRejected reports whether a pod waits for an event that helps it: it is parked, or a
// listed member of a group.
func (e *entry) isRejected() bool { return e.place == parked || e.listed }

// preemptor returns the entry for which victims of a rejected pod's last attempt leave: its
// own, or the head of its group.
func (e *entry) preemptor() *entry {
	if e.listed {
		return &e.group.head
	}
	return e
}

// listen indexes the rejected members of a group that begins to back off.
func (q *Queue) listen(g *group) {
	if q.config.GroupPatience <= 0 || g.head.errors > 0 || g.head.rejections == 0 {
		return
	}
	g.wait.listens = true
	for _, e := range g.which(func(e *entry) bool { return len(e.plugins) > 0 }) {
		q.list(e)
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
	if !g.wait.listens {
		return
	}
	for _, e := range g.which(func(e *entry) bool { return e.listed }) {
		q.unlist(e)
	}
	g.wait.listens = false
}

// which returns some members in the order of their arrival, so that the index depends on no
// map.
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
// its backoff allows, or at once.
func (q *Queue) wakeGroup(now time.Time, g *group, woken plan.Woken, atOnce bool) {
	h := &g.head
	g.wait.woken = true
	if h.until = g.wait.pace; atOnce {
		h.until = time.Time{}
	}
	q.review(now, g, woken.Event)
	if h.place == active || h.place == backingOff {
		h.woken = woken
	}
}

// backOffGroup has a group back off after a rejection.
func (q *Queue) backOffGroup(g *group) {
	h := &g.head
	h.backOff(q.backoffEnd(h))
	if !g.wait.retried {
		g.wait.pace = h.until
	}
	g.wait.woken = false
}

// updateRejected takes in a new version of a pod that waits for an event. The change may be
// such an event.
func (q *Queue) updateRejected(now time.Time, e *entry, pod *model.Pod) {
	before := e.pod
	if why, woken := q.isBeingWoken(e); woken {
		q.wake(now, e, why, e.isWokenAtOnce())
		q.update(now, e, pod)
		return
	}
	// What could cure the new version may differ, so it is parked anew.
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
