package queue

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// lastTurns are the pods that an earlier process stopped at while it decided about them:
// it ran out of memory, say. If they kept their turns, a pod of high priority could end
// each process in turn, and no pod behind it would ever be decided about. So the others
// go first, once.
//
// Only Pop honours it. The heaps keep the order of turns, so no QueueSort plugin sees it.
type lastTurns struct {
	// uids are in the order of their turns: each new process tries another one first.
	// Invariant: no two are equal.
	uids []types.UID
	// others is how many other pods still go first; 0 until one of uids would have its
	// turn. It is bounded by the pods that were ready then, so that new arrivals delay
	// nobody for ever.
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

// firstReady returns the active entry whose turn it is, nil if none is active.
func (q *Queue) firstReady() *entry {
	e := q.firstActive()
	if len(q.last.uids) == 0 || e == nil || q.rankLast(e) < 0 {
		return e
	}
	if !q.last.counted {
		q.last.others, q.last.counted = q.ready(), true
	}
	// Take the undecided entries out until another one comes, and put them back.
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

// rankLast returns the position of the first undecided pod in an entry, -1 if it has
// none.
func (q *Queue) rankLast(e *entry) int {
	return slices.IndexFunc(q.last.uids, e.holds)
}

// holds reports whether an entry is a pod, or stands for a group with the pod as a
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
