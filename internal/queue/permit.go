package queue

import (
	"time"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
)

// A decision is one step, so no event can happen during it. But a pod may wait for plugins at Permit for minutes, and an event that happens
// meanwhile can be the one that would change their mind. As in kube-scheduler, a pod that is rejected there looks at what it has missed.

// missed are the events since the first of the pods that are now at Permit came there. There is nothing to keep while there is none.
//
// Invariant: pods is how many entries are at Permit; at most missedMax events are kept, and none while there are no such pods.
type missed struct {
	pods   int
	events []model.Event
	count  uint64 // of all events that were kept so far
	looked int    // how many events pods have looked at in the batch of changes at hand
}

// missedMax bounds how many events are kept. A pod that has missed more is tried again without looking, which costs about as much as looking at
// so many.
const missedMax = 1000

func (m *missed) add(event model.Event) {
	if m.pods == 0 {
		return
	}
	if len(m.events) >= missedMax {
		m.events = m.events[:0]
	}
	m.events = append(m.events, event)
	m.count++
}

// since returns the events from the given one on; all is false if some of them were not kept.
func (m *missed) since(from uint64) (events []model.Event, all bool) {
	first := m.count - uint64(len(m.events))
	if from < first {
		return nil, false
	}
	return m.events[from-first:], true
}

func atPermit(step plan.Step) bool { return step.Stage == plan.Permit }

// enterPermit notes that a pod, which has a node, is at Permit.
func (q *Queue) enterPermit(e *entry) {
	q.missed.pods++
	e.from = q.missed.count
}

// leavePermit notes that its binding has ended.
func (q *Queue) leavePermit(e *entry) {
	e.permits = false
	if q.missed.pods--; q.missed.pods == 0 {
		q.missed.events = nil
	}
}

// rejectedAtPermit parks a pod that plugins rejected at Permit, unless something has happened meanwhile that can change their mind. When a batch
// of changes has such pods look at very many events, the last of them are tried again without looking.
func (q *Queue) rejectedAtPermit(now time.Time, pod *model.Pod, rejectors []string) {
	e := q.entries[pod.Key()]
	if e == nil || e.pod.UID != pod.UID {
		return
	}
	events, all := q.missed.since(e.from)
	e.pod = pod
	if q.isGrouped(pod) {
		e.since, e.errors, e.activated = now, 0, false
		e.rejections++
		e.plugins, e.pending = rejectors, nil
		q.admit(now, e, active, attemptFailed)
		return
	}
	q.park(now, e, rejectors, nil)
	e.batch = q.batches
	if e.place != parked {
		return // it was activated while it waited
	}
	if !all || q.missed.looked > missedMax {
		q.wake(now, e, attemptFailed, false)
		return
	}
	for _, event := range events {
		q.missed.looked++
		if !event.Reaches(pod.Priority) {
			continue
		}
		if event.Resource == model.AnyEvent { // more happened than could be kept
			q.wake(now, e, event.Label(), false)
			return
		}
		if helps, atOnce := q.helps(e, event); helps {
			q.wake(now, e, event.Label(), atOnce)
			return
		}
	}
}

// rejectedOwner returns the pod that the event is about, if the event is that it has left its node because it was just rejected at Permit: that is
// no reason to try it again.
func (q *Queue) rejectedOwner(event model.Event) *entry {
	if event.OldPod == nil || event.Action != model.Delete {
		return nil
	}
	if e := q.entries[event.OldPod.Key()]; e != nil && e.pod.UID == event.OldPod.UID && e.batch == q.batches {
		return e
	}
	return nil
}
