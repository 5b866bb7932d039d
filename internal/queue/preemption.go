package queue

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// While pods are being evicted for a pod, another attempt would still find some of them.
// So, as in kube-scheduler, the preemptor is gated until its last victim is gone or
// terminating, or an eviction has failed. The gate applies when the preemptor would be
// retried; a preemptor that nothing wakes stays parked. No event wakes a gated preemptor,
// so it is retried when the gate opens.
//
// Deleting one victim does not wake a parked preemptor. Room is free only after the last
// victim is gone, since preemption picks no victim it can spare, and the victims of
// another preemptor make room for that preemptor. So a preemptor ignores deletions of all
// victims until its own are all gone, which wakes it. This ends with its next attempt: a
// preemptor that was retried for another reason and failed reacts to every deletion
// again.
//
// A finalizer may hold a victim for hours, and the preemptor that evicted another victim
// may be gone or placed elsewhere. So a preemptor that still waits for its own victims
// reacts to the deletion of another's victim after roomAwaited.

// preemptionPlugin is the PreEnqueue plugin under which a preemptor is gated.
const preemptionPlugin = "DefaultPreemption"

// roomAwaited is the delay with which the deletion of another's victim wakes a preemptor
// whose own victims are not gone. It equals the default grace period of pods.
const roomAwaited = 30 * time.Second

// preempting records the evictions for a pod. Overlapping preemptions form a series,
// which ends when none is under way.
type preempting struct {
	under int // preemptions for the pod that have not ended
	// last is the last victim of the newest preemption. It is stored until the victim is
	// gone or terminating and the preemption has ended. left means that the victim is
	// gone or terminating.
	last types.UID
	left bool
	// broken means that a preemption of the current series failed. retry means that one
	// failed, or that its last victim was not bound.
	broken, retry bool
	// leaving are the victims of the last attempt that are not known to be gone.
	leaving []types.UID
	// failed counts the series in a row that ended in an error.
	failed int
}

// holdsPreemptors reports whether a profile gates preemptors.
func holdsPreemptors(p *plugin.Profile) bool {
	return slices.ContainsFunc(p.PreEnqueue, func(pre *plugin.PreEnqueue) bool { return pre.Name == preemptionPlugin })
}

// preempts records the evictions of a decision about a pod. The pod has room when all
// victims are gone. It is gated until the last victim leaves that was not terminating
// already.
func (q *Queue) preempts(e *entry, d *plan.Decision) {
	q.forgetLeaving(e)
	q.awaitVictims(e, d)
}

// awaitVictims adds the evictions of a decision to the victims that a pod or a group
// waits for.
func (q *Queue) awaitVictims(e *entry, d *plan.Decision) {
	if q.profiles[e.pod.SchedulerName].holdsPreemptors && (e.heads == nil || q.config.GroupPatience > 0) {
		for i := range d.Evictions {
			uid := d.Evictions[i].Pod.UID
			e.preempting.leaving = append(e.preempting.leaving, uid)
			q.leaving[uid] = append(q.leaving[uid], e)
		}
	}
	for i := len(d.Evictions) - 1; i >= 0; i-- {
		victim := d.Evictions[i].Pod
		if victim.Terminating {
			continue
		}
		q.forgetVictim(e)
		e.preempting.under++
		e.preempting.last, e.preempting.left = victim.UID, false
		q.awaited[victim.UID] = append(q.awaited[victim.UID], e)
		return
	}
}

// left records that evicted pods are gone or terminating.
func (q *Queue) left(victims []types.UID) {
	for _, uid := range victims {
		waiting := q.awaited[uid]
		delete(q.awaited, uid)
		for _, e := range waiting {
			e.preempting.leave()
			switch {
			case e.heads != nil:
				q.review(q.now, e.heads, victimGone)
			case e.isHeldBack():
				q.wake(q.now, e, victimGone, false)
			}
		}
	}
}

func (p *preempting) isAwaiting() bool { return p.last != "" && !p.left }

// leave records that the last victim is gone or terminating, or need not be awaited.
func (p *preempting) leave() {
	if p.left = true; p.under == 0 {
		p.last, p.left = "", false
	}
}

// forgetVictim drops the last victim that a pod waits for.
func (q *Queue) forgetVictim(e *entry) {
	uid := e.preempting.last
	if !e.preempting.isAwaiting() {
		return
	}
	e.preempting.leave()
	unlist(q.awaited, uid, e)
}

// victimOf returns the deleted pod of an event, if it was a victim.
func (q *Queue) victimOf(event *model.Event) (uid types.UID, ok bool) {
	if event.Resource != model.AssignedPodEvent || event.Action != model.Delete || event.OldPod == nil {
		return "", false
	}
	_, ok = q.leaving[event.OldPod.UID]
	return event.OldPod.UID, ok
}

// gone records that a victim has left its node. Pods without further victims are woken,
// whatever plugin rejected them: that plugin may have registered for a deletion that they
// ignored.
func (q *Queue) gone(uid types.UID) {
	waiting := q.leaving[uid]
	delete(q.leaving, uid)
	for _, e := range waiting {
		p := &e.preempting
		p.leaving = slices.DeleteFunc(p.leaving, func(other types.UID) bool { return other == uid })
		switch {
		case len(p.leaving) > 0:
		case e.heads != nil:
			if e.heads.wait.listens {
				q.wakeGroup(q.now, e.heads, plan.Woken{Event: victimGone}, false)
			}
			e.heads.wait.due = time.Time{} // the room is for this group: never postponed
		case e.place == parked:
			q.wake(q.now, e, victimGone, false)
		}
	}
}

// forgetLeaving drops the victims that a pod waits for to be gone.
func (q *Queue) forgetLeaving(e *entry) {
	listens := e.heads != nil && e.heads.wait.listens
	if listens { // members are indexed by whether the group waits for victims
		q.unlisten(e.heads)
		defer q.reviewListening(e.heads)
	}
	for _, uid := range e.preempting.leaving {
		unlist(q.leaving, uid, e)
	}
	e.preempting.leaving = nil
}

// unlist removes a pod from the list of a victim.
func unlist(by map[types.UID][]*entry, uid types.UID, e *entry) {
	rest := slices.DeleteFunc(by[uid], func(other *entry) bool { return other == e })
	if by[uid] = rest; len(rest) == 0 {
		delete(by, uid)
	}
}

// victimGone is the event that wakes a preemptor after its victims have left.
var victimGone = (&model.Event{Resource: model.AssignedPodEvent, Action: model.Delete}).Label()

// isHeldBack reports whether a pod is gated because others are being evicted for it.
func (e *entry) isHeldBack() bool { return e.place == gated && e.plugins[0] == preemptionPlugin }

// isPreempting reports whether a pod must be gated because others are being evicted for
// it.
func (q *Queue) isPreempting(e *entry) bool {
	return e.preempting.isAwaiting() && q.profiles[e.pod.SchedulerName].holdsPreemptors
}

// preempted records the end of a preemption. After a failure, or if the last victim was
// not bound yet, no deletion will follow that could wake the pod, so the pod is ready at
// once. Otherwise the deletion is on its way.
func (q *Queue) preempted(now time.Time, result *model.PreemptionResult) {
	e := q.entries[result.Preemptor.Key()]
	if q.isGrouped(result.Preemptor) {
		g := q.groups[result.Preemptor.Group]
		if result.Tree != (model.GroupKey{}) {
			g = q.trees[result.Tree]
		}
		if e = nil; g != nil {
			e = &g.head
		}
	} else if e != nil && e.pod.UID != result.Preemptor.UID {
		return
	}
	if e == nil || e.preempting.under == 0 {
		return
	}
	p := &e.preempting
	p.broken = p.broken || result.Err != nil
	p.retry = p.retry || result.Err != nil || result.InMemory
	if p.under > 1 { // another one is under way
		p.under--
		return
	}
	broken, retry := p.broken, p.retry
	p.under, p.broken, p.retry = 0, false, false
	if retry {
		q.forgetVictim(e)
		q.forgetLeaving(e)
	}
	if p.left {
		p.leave()
	}
	if broken {
		p.failed++
	} else {
		p.failed = 0
	}
	switch {
	case e.heads != nil:
		if retry && p.failed <= 1 { // at once, unless evictions have failed before
			e.until = time.Time{}
		}
		q.review(now, e.heads, forced)
	case p.failed > 1 && (e.isHeldBack() || e.place == parked):
		// kube-scheduler retries the pod at once, again and again. If evictions are
		// forbidden, for example, that would never end.
		e.since, e.errors = now, min(p.failed-1, e.attempts)
		e.until = q.backoffEnd(e)
		q.admit(now, e, errorBackoff, attemptFailed)
	case retry:
		q.Activate(now, []model.PodKey{e.pod.Key()})
	}
}
