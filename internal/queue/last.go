package queue

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// lastTurns holds the undecided pods: an earlier process ended while it decided about
// them, for example because it ran out of memory. In its usual order, such a pod of
// high priority could end each process in turn, and no pod behind it would ever be
// decided about. So the other pods go first, once.
//
// Only Pop postpones undecided pods. The heaps keep their order, so QueueSort plugins
// are not affected.
type lastTurns struct {
	// uids are in the order of their turns. Each new process tries a different pod first.
	//
	// Invariant: no two are equal.
	uids []types.UID
	// others counts the turns of other pods that remain before an undecided pod. It is
	// set to the number of ready pods when an undecided pod comes first, so that new
	// arrivals cannot postpone it for ever. counted means that others is set.
	others  int
	counted bool
}

func (l *lastTurns) add(uids []types.UID) {
	for _, uid := range uids {
		if !slices.Contains(l.uids, uid) {
			l.uids, l.counted = append(l.uids, uid), false
		}
	}
}

// firstReady returns the active entry whose turn is next, nil if none is active. While
// firstActive still sorts pods into accounts it also returns nil.
func (q *Queue) firstReady() *entry {
	e := q.firstActive()
	if len(q.last.uids) == 0 || e == nil || q.rankLast(e) < 0 {
		return e
	}
	if !q.last.counted {
		q.last.others, q.last.counted = q.ready(), true
	}
	// Remove undecided entries until another entry comes first, then put them back.
	var out []*entry
	for e != nil && q.rankLast(e) >= 0 {
		q.heapOf(e, active).remove(e)
		out = append(out, e)
		e = q.firstActive()
	}
	for _, undecided := range out {
		q.heapOf(undecided, active).add(undecided)
	}
	if q.accounts.sorting {
		return nil
	}
	if e != nil && q.last.others > 0 {
		q.last.others--
		return e
	}
	e = slices.MinFunc(out, func(a, b *entry) int { return q.rankLast(a) - q.rankLast(b) })
	q.last.uids = slices.DeleteFunc(q.last.uids, func(uid types.UID) bool { return e.holds(uid) })
	return e
}

// rankLast returns the position in uids of the first undecided pod of an entry, -1 if
// none.
func (q *Queue) rankLast(e *entry) int {
	return slices.IndexFunc(q.last.uids, e.holds)
}

// holds reports whether an entry is the pod, or the head of a group with the pod as a
// member.
func (e *entry) holds(uid types.UID) bool {
	if e.heads == nil {
		return e.pod.UID == uid
	}
	for _, member := range e.heads.members {
		if member.pod.UID == uid {
			return true
		}
	}
	return false
}
