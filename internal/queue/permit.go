package queue

import (
	"time"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// No event can happen during a decision, because a decision is one step. But a pod may
// wait at Permit for minutes, and events in that time may resolve its rejection. As in
// kube-scheduler, a pod that is rejected at Permit checks the events that it missed.

// missed has the events since the first of the pods now at Permit arrived there. Without
// such pods nothing is stored.
//
// Invariant: pods is the number of entries at Permit. At most maxMissed events are
// stored, and none without such pods.
type missed struct {
	pods   int
	events []model.Event
	count  uint64 // the number of events ever stored
	looked int    // checks of events in the present batch of changes
}

// maxMissed bounds the stored events. A pod that missed more is retried without a check.
// A retry costs about as much as checking that many events.
const maxMissed = 1000

func (m *missed) add(event model.Event) {
	if m.pods == 0 {
		return
	}
	if len(m.events) >= maxMissed {
		m.events = m.events[:0]
	}
	m.events = append(m.events, event)
	m.count++
}

// since returns the events from the given one on. all is false if some of them were
// dropped.
func (m *missed) since(from uint64) (events []model.Event, all bool) {
	first := m.count - uint64(len(m.events))
	if from < first {
		return nil, false
	}
	return m.events[from-first:], true
}

func atPermit(step plan.Step) bool { return step.Stage == plan.Permit }

// enterPermit records that a pod with a node is at Permit.
func (q *Queue) enterPermit(e *entry) {
	q.missed.pods++
	e.from = q.missed.count
}

// leavePermit records that the binding of a pod at Permit has ended.
func (q *Queue) leavePermit(e *entry) {
	e.permits = false
	if q.missed.pods--; q.missed.pods == 0 {
		q.missed.events = nil
	}
}

// rejectedAtPermit parks a pod that plugins rejected at Permit, unless an event in the
// meantime may help it. If such pods of one batch have checked more than maxMissed
// events, the remaining pods are retried without a check.
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
	if !all || q.missed.looked > maxMissed {
		q.wake(now, e, attemptFailed, false)
		return
	}
	for _, event := range events {
		q.missed.looked++
		if !event.Reaches(pod.Priority) {
			continue
		}
		// stands for more events than could be stored
		if event.Resource == model.AnyEvent {
			q.wake(now, e, event.Label(), false)
			return
		}
		if helps, atOnce := q.helps(e, event); helps {
			q.wake(now, e, event.Label(), atOnce)
			return
		}
	}
}

// rejectedOwner returns the pod that an event is about, if the pod left its node because
// it was just rejected at Permit. That event is no reason to retry the pod.
func (q *Queue) rejectedOwner(event model.Event) *entry {
	if event.OldPod == nil || event.Action != model.Delete {
		return nil
	}
	if e := q.entries[event.OldPod.Key()]; e != nil && e.pod.UID == event.OldPod.UID && e.batch == q.batches {
		return e
	}
	return nil
}
