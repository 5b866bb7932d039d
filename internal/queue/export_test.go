package queue

import (
	"time"

	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Kept counts the contents of a queue.
type Kept struct {
	Pods, InHeaps int
	// Plugins are the plugins with parked pods; Indexes, Buckets and Postings find these
	// pods.
	Plugins, Indexes, Buckets, Postings int
	// Gates are the PreEnqueue plugins that gate pods. Awaited and Leaving are victims.
	Gates, Awaited, Leaving int
	// Missed are the events stored for pods at Permit. Pending are the events whose hints
	// have not all run. Woken are cohorts.
	Missed, Pending, Woken int
}

// Kept returns the contents of the queue.
func (q *Queue) Kept() Kept {
	k := Kept{
		Pods: len(q.entries), InHeaps: q.active.size() + q.backoff.size() + q.errored.size() + q.idle.size(), Plugins: len(q.parked.byPlugin),
		Gates: len(q.gatedBy), Awaited: len(q.awaited), Leaving: len(q.leaving),
		Missed: len(q.missed.events), Pending: q.waking.left(), Woken: q.parked.woken.size(),
	}
	for _, in := range q.parked.inOrder {
		k.Indexes += len(in.indexes)
		for _, x := range in.indexes {
			k.Buckets += len(x.byAlike)
			k.Postings += len(x.wanting.byKey) + len(x.keyed.byKey)
		}
	}
	return k
}

// Memory has capacities: the number of elements that the queue has memory for.
type Memory struct{ Active, BackingOff, Erring, Idle, Missed, Pending, Found, Moves, Touched, Looked int }

// Memory returns the capacities.
func (q *Queue) Memory() Memory {
	of := func(h *heap[*entry]) int { return cap(h.entries) + cap(h.run.list) }
	return Memory{
		of(&q.active), of(&q.backoff), of(&q.errored), of(&q.idle), cap(q.missed.events), cap(q.waking.pending), cap(q.waking.found), cap(q.moves),
		cap(q.parked.touch.Has) + cap(q.parked.touch.Seeks), cap(q.parked.wanting.found) + cap(q.parked.keyed.found),
	}
}

// SettlePod settles an attempt with the decision about its only pod.
func SettlePod(q *Queue, now time.Time, a *plan.Attempt, d plan.Decision) {
	a.Conclude(d)
	q.Settle(now, a)
}

// RejectGroup decides that a group and each of its members is unschedulable.
func RejectGroup(a *plan.Attempt, plugins ...string) {
	a.Outcome = plan.Unschedulable
	for i := range a.Members {
		a.Members[i].Outcome, a.Members[i].Rejection = plan.Unschedulable, &plan.Rejection{Plugins: plugins}
	}
}

// StaleMoves counts the pods of earlier moves that the queue's memory still refers to.
func (q *Queue) StaleMoves() (n int) {
	for _, m := range q.moves[len(q.moves):cap(q.moves)] {
		if m.Pod != nil {
			n++
		}
	}
	return n
}
