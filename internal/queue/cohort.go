package queue

import (
	"cmp"
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
)

// bucket is the parked pods, or the gated ones that are listed, in one index for which the hint is the same. A bucket that has lost its last pod is not used again.
type bucket struct {
	index *index
	alike model.Need
	// Invariant: cohorts are ordered by priority, the highest first, and of one priority those that await nothing come first; no two are alike. There is
	// at least one, and none is woken.
	cohorts []*cohort
	// Invariant: spots are where the postings of the index have the bucket: once among all; in each catalog at every key of one clause of each
	// way, or of each key of its cause; or among those that are found always.
	spots  []spot
	lookup uint64 // the last lookup that found the bucket
	kept   bool   // also without cohorts, while a pod of it is listed anew
}

// cohort is parked pods of one bucket and one priority, all or none of which wait for victims to be gone, the longest parked first: the order of their
// turns, as far as that is by priority and time.
//
// When an event is found to help the pods of a bucket, their cohorts are taken out of it and woken as a whole; then their pods are moved, one after
// the other, in slices. The order of turns decides between cohorts.
type cohort struct {
	bucket   *bucket
	priority int32
	awaits   awaited // by each of the pods
	// Invariant: from first to last the memberships are linked in both directions, are of this cohort, and were parked one after the other. There is
	// at least one.
	first, last *membership

	woken  bool
	why    string // then, kube-scheduler's name of the event
	atOnce bool   // and whether its pods skip what is left of their backoff
	number uint64 // and how many cohorts were woken before it
	index  int    // and its place among those that are woken
}

// awaited is what a parked pod waits for besides an event that helps it.
type awaited uint8

const (
	victimsLeave  awaited = 1 << iota // its victims are not all gone
	writeInFlight                     // when it was parked, a write in flight gave back a claim of it
)

// awaits returns what a parked pod awaits. It does not change while the pod is parked.
func (e *entry) awaits() (all awaited) {
	if e.isRejected() && len(e.preemptor().preempting.leaving) > 0 {
		all |= victimsLeave
	}
	if e.isRejected() && e.awaitsWrite {
		all |= writeInFlight
	}
	return all
}

// membership is the place of a parked pod in one index. What is alike stays known when the pod is not parked any more, because most pods are
// parked again and again.
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

// another returns an empty cohort for pods like these.
func (c *cohort) another() *cohort {
	return &cohort{bucket: c.bucket, priority: c.priority, awaits: c.awaits}
}

// drop removes a cohort without pods, and the bucket from its index if it was the last.
func (b *bucket) drop(c *cohort) {
	b.cohorts = slices.DeleteFunc(b.cohorts, func(other *cohort) bool { return other == c })
	if len(b.cohorts) == 0 && !b.kept {
		b.index.remove(b)
	}
}

// link adds a pod, which mostly was parked after all others.
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

// split takes out the pods that were parked after the given number of parkings, and returns them as a cohort of their own; nil if there are none.
// It takes time in proportion to their number.
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
