package queue

import (
	"cmp"
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
)

// bucket holds the pods of one index, parked or gated, that share one result of the hint.
// A bucket that has lost its last pod is not used again.
type bucket struct {
	index *index
	alike model.Need
	// Invariant: cohorts are sorted by priority, the highest first; at equal priority,
	// cohorts that await nothing come first. No two have the same rank, at least one
	// exists, and none is woken.
	cohorts []*cohort
	// Invariant: spots has the position of the bucket in each posting that lists it.
	// These are the posting of all buckets; in the catalog wanting, the postings of the
	// keys of one clause of each way; and in the catalog keyed, the postings of the keys
	// of its cause. In a catalog without a key to list it under, it is in the posting
	// always.
	spots  []spot
	lookup uint64 // the last lookup that found the bucket
	kept   bool   // do not remove without cohorts: a pod is being indexed again
}

// cohort holds parked pods of one bucket and one priority with the same awaits. The pods
// are ordered by parking, the longest parked first. That is the order of their turns, as
// far as priority and time determine it.
//
// When an event helps the pods of a bucket, their cohorts are removed from the bucket and
// woken as a whole. Then their pods are moved one by one, in slices. Between cohorts the
// order of turns decides.
type cohort struct {
	bucket   *bucket
	priority int32
	awaits   awaited // of each pod
	// Invariant: from first to last the memberships are linked in both directions, belong
	// to this cohort and are sorted by parking. At least one exists.
	first, last *membership

	woken  bool
	why    string // if woken: kube-scheduler's name of the event
	atOnce bool   // if woken: the pods skip the rest of their backoff
	number uint64 // if woken: the number of cohorts woken before
	index  int    // if woken: the position in the heap of woken cohorts
}

// awaited lists conditions that hold back a parked pod besides the events that help it.
type awaited uint8

const (
	victimsLeave awaited = 1 << iota // not all of its victims are gone
	// when it was parked, a write in flight released a claim of the pod
	writeInFlight
)

// awaits returns the conditions of a parked pod. They do not change while the pod is
// parked.
func (e *entry) awaits() (all awaited) {
	if e.isRejected() && len(e.preemptor().preempting.leaving) > 0 {
		all |= victimsLeave
	}
	if e.isRejected() && e.awaitsWrite {
		all |= writeInFlight
	}
	return all
}

// membership is the position of a parked pod in one index. alike stays valid after the
// pod leaves, because most pods are parked again and again.
type membership struct {
	entry         *entry
	alike         model.Need
	cohort        *cohort
	before, after *membership
}

// add adds a pod to its cohort.
func (b *bucket) add(m *membership) {
	priority, awaits := m.entry.pod.Priority, m.entry.awaits()
	at, found := slices.BinarySearchFunc(b.cohorts, rankOf(priority, awaits), func(c *cohort, rank int64) int { return cmp.Compare(c.rank(), rank) })
	if !found {
		b.cohorts = slices.Insert(b.cohorts, at, &cohort{bucket: b, priority: priority, awaits: awaits})
	}
	b.cohorts[at].link(m)
}

// rankOf orders the cohorts of a bucket: the lowest rank comes first.
func rankOf(priority int32, awaits awaited) int64 { return -4*int64(priority) + int64(awaits) }

func (c *cohort) rank() int64 { return rankOf(c.priority, c.awaits) }

// another returns an empty cohort for pods of the same kind.
func (c *cohort) another() *cohort {
	return &cohort{bucket: c.bucket, priority: c.priority, awaits: c.awaits}
}

// drop removes a cohort without pods. With its last cohort the bucket leaves the index.
func (b *bucket) drop(c *cohort) {
	b.cohorts = slices.DeleteFunc(b.cohorts, func(other *cohort) bool { return other == c })
	if len(b.cohorts) == 0 && !b.kept {
		b.index.remove(b)
	}
}

// link adds a pod. Usually the pod was parked after all others.
func (c *cohort) link(m *membership) {
	before := c.last
	for before != nil && before.entry.parking > m.entry.parking {
		before = before.before
	}
	m.cohort, m.before = c, before
	if before == nil {
		m.after, c.first = c.first, m
	} else {
		m.after, before.after = before.after, m
	}
	if m.after == nil {
		c.last = m
	} else {
		m.after.before = m
	}
}

func (c *cohort) unlink(m *membership) {
	if m.before == nil {
		c.first = m.after
	} else {
		m.before.after = m.after
	}
	if m.after == nil {
		c.last = m.before
	} else {
		m.after.before = m.before
	}
	m.cohort, m.before, m.after = nil, nil, nil
}

// split moves the pods that were parked after the given number of parkings to a new
// cohort. It returns nil without such pods. Its time is proportional to their number.
func (c *cohort) split(parkings uint64) *cohort {
	if c.last.entry.parking <= parkings {
		return nil
	}
	later := c.another()
	for c.last != nil && c.last.entry.parking > parkings {
		m := c.last
		c.unlink(m)
		later.link(m)
	}
	return later
}

// inTurnOf orders cohorts by the turns of their first pods.
func inTurnOf(byTurn func(a, b *entry) bool) func(a, b *cohort) bool {
	return func(a, b *cohort) bool {
		if a.first.entry == b.first.entry {
			return a.number < b.number
		}
		return byTurn(a.first.entry, b.first.entry)
	}
}
