package queue

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// While pods are being evicted for a pod, another attempt would find some of them still there. So, as in kube-scheduler, the pod is held back then, until
// its last victim is seen to be gone or on its way out, or an eviction has failed. What is held back is what would try the pod again: a pod that nothing
// wakes meanwhile stays parked. It hears of nothing while it is held back, so it is tried when it no longer is.
//
// That victims go is no such thing: there is no room before all of a pod's victims are gone, as it would do without those that need not go, and what the
// victims of another leave is for that other. So a preemptor that is parked does not hear of victims, its own or another's, until its own are all gone,
// which wakes it. That holds until its next attempt: where something else had it tried and that was in vain, it hears of every deletion again.
//
// A victim may be held by a finalizer for hours, and the preemptor for which another one had to go may be gone itself or have found room elsewhere. So a preemptor whose
// own victims are not gone some time after another's is gone, see roomAwaited, hears of that then.

// preemptionPlugin is the PreEnqueue plugin under which a pod is held back.
const preemptionPlugin = "DefaultPreemption"

// roomAwaited is how long after the end of another's victim a preemptor still waits for its own without being told: as long as pods have by default to end.
const roomAwaited = 30 * time.Second

// preempting is what the queue knows of the evictions for a pod.
type preempting struct {
	under int // preemptions for the pod that have not ended
	// last is the last victim of the newest, until it is seen to be gone or being deleted, and as long as the preemption has not ended; left says that
	// it is.
	last types.UID
	left bool
	// broken says that one of those that have ended since there were none failed; retry that one of them failed, or that its last victim was not bound.
	broken, retry bool
	// leaving are the victims of the last attempt that have not been seen to be gone.
	leaving []types.UID
	// failed counts the times in a row that they ended in an error.
	failed int
}

// holdsPreemptors reports whether a profile holds back pods for which others are being evicted.
func holdsPreemptors(p *plugin.Profile) bool {
	return slices.ContainsFunc(p.PreEnqueue, func(pre plugin.PreEnqueue) bool { return pre.Name() == preemptionPlugin })
}

// preempts notes the evictions of a decision about a pod. Room is there when all victims are gone; the pod is held back until the last of those leaves
// that are not being deleted already.
func (q *Queue) preempts(e *entry, d *plan.Decision) {
	q.forgetLeaving(e)
	q.awaitVictims(e, d)
}

// awaitVictims adds the evictions of a decision to the victims that a pod, or a group,
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

// left takes in that evicted pods are gone or being deleted.
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

// leave notes that the last victim is gone or being deleted, or need not be awaited.
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

// victimOf returns the pod that an event says is gone from its node, if it had to make room for another.
func (q *Queue) victimOf(event *model.Event) (uid types.UID, ok bool) {
	if event.Resource != model.AssignedPodEvent || event.Action != model.Delete || event.OldPod == nil {
		return "", false
	}
	_, ok = q.leaving[event.OldPod.UID]
	return event.OldPod.UID, ok
}

// gone takes in that a victim is not on its node any more. Pods that waited for no other are woken, whatever plugin rejected them: what such a plugin
// registers for may have been the deletion of a victim that they did not hear of.
func (q *Queue) gone(uid types.UID) {
	waiting := q.leaving[uid]
	delete(q.leaving, uid)
	for _, e := range waiting {
		p := &e.preempting
		p.leaving = slices.DeleteFunc(p.leaving, func(other types.UID) bool { return other == uid })
		switch {
		case len(p.leaving) > 0:
		case e.heads != nil && e.heads.wait.listens:
			q.wakeGroup(q.now, e.heads, plan.Woken{Event: victimGone}, false)
		case e.place == parked:
			q.wake(q.now, e, victimGone, false)
		}
	}
}

// forgetLeaving drops the victims that a pod waits for to be gone.
func (q *Queue) forgetLeaving(e *entry) {
	listens := e.heads != nil && e.heads.wait.listens
	if listens { // its members are listed by whether it waits for victims
		q.unlisten(e.heads)
		defer q.reviewListening(e.heads)
	}
	for _, uid := range e.preempting.leaving {
		unlist(q.leaving, uid, e)
	}
	e.preempting.leaving = nil
}

// unlist drops a pod from those that wait for a victim.
func unlist(by map[types.UID][]*entry, uid types.UID, e *entry) {
	rest := slices.DeleteFunc(by[uid], func(other *entry) bool { return other == e })
	if by[uid] = rest; len(rest) == 0 {
		delete(by, uid)
	}
}

// victimGone is the event that lets a pod go on that was held back, or waited for its victims to be gone.
var victimGone = (&model.Event{Resource: model.AssignedPodEvent, Action: model.Delete}).Label()

// isHeldBack reports whether a pod is held back because others are being evicted for it.
func (e *entry) isHeldBack() bool { return e.place == gated && e.plugins[0] == preemptionPlugin }

// isPreempting reports whether a pod is to be held back because others are being evicted for it.
func (q *Queue) isPreempting(e *entry) bool {
	return e.preempting.isAwaiting() && q.profiles[e.pod.SchedulerName].holdsPreemptors
}

// preempted takes in that a preemption has ended. If it failed, or if the last victim was not bound yet, no deletion will be seen that could wake the
// pod, so it is ready at once. Otherwise the deletion is on its way.
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
		// kube-scheduler tries it again at once, over and over; where evictions are forbidden, say, that would never end.
		e.since, e.errors = now, min(p.failed-1, e.attempts)
		e.until = q.backoffEnd(e)
		q.admit(now, e, erring, attemptFailed)
	case retry:
		q.Activate(now, []model.PodKey{e.pod.Key()})
	}
}
