package queue

import (
	"cmp"
	"slices"

	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model"
)

func (q *Queue) auditParked(v *audit.Violations) {
	pods, awaitWrites := map[pluginKey]int{}, 0
	for _, e := range q.entries {
		if q.isListed(e) {
			for _, plugin := range e.rejectors() {
				pods[e.under(plugin)]++
			}
		}
		if e.awaits()&writeInFlight != 0 {
			awaitWrites++
		}
		if e.place == gated && len(e.pending) > 0 || slices.ContainsFunc(e.pending, func(p string) bool { return !slices.Contains(e.plugins, p) }) {
			v.Add("pod %s is %s under the plugins %q, of which %q answered Pending", e.pod, e.place, e.plugins, e.pending)
		}
		if e.activated && e.place != deciding && !(e.place == binding && e.permits) {
			v.Add("pod %s is %s, and is to be tried again when it is decided", e.pod, e.place)
		}
		q.auditMemberships(v, e)
	}
	if awaitWrites != q.parked.awaitWrites {
		v.Add("%d parked pods await a write in flight, recounted %d", q.parked.awaitWrites, awaitWrites)
	}
	for key, n := range pods {
		if q.parked.byPlugin[key] == nil {
			v.Add("%d pods are parked under %s, which does not exist", n, key.plugin)
		}
	}
	for key, in := range q.parked.byPlugin {
		if in.key != key || in.pods != pods[key] || in.pods == 0 {
			v.Add("%d pods are parked under %s, listed as %s; recounted %d", in.pods, in.key.plugin, key.plugin, pods[key])
		}
		for _, x := range in.indexes {
			q.auditIndex(v, in, x)
		}
	}
	sorted := slices.IsSortedFunc(q.parked.inOrder, func(a, b *rejectedBy) int { return a.key.compare(b.key) })
	if known := func(in *rejectedBy) bool { return q.parked.byPlugin[in.key] == in }; !sorted || len(q.parked.inOrder) != len(q.parked.byPlugin) ||
		slices.ContainsFunc(q.parked.inOrder, func(in *rejectedBy) bool { return !known(in) }) {
		v.Add("the plugins are not those under which pods are parked, in order: %d of %d", len(q.parked.inOrder), len(q.parked.byPlugin))
	}
}

// auditMemberships checks that a parked pod is in each index of its plugins, and any
// other pod in none.
func (q *Queue) auditMemberships(v *audit.Violations, e *entry) {
	var indexes []*index
	if q.isListed(e) {
		for _, plugin := range e.rejectors() {
			if in := q.parked.byPlugin[e.under(plugin)]; in != nil {
				indexes = append(indexes, in.indexes...)
			}
		}
		if e.parking == 0 || e.parking > q.parked.parkings {
			v.Add("pod %s was parked as number %d of %d", e.pod, e.parking, q.parked.parkings)
		}
	}
	if len(e.memberships) != len(indexes) {
		v.Add("pod %s is %s and has %d memberships, want %d", e.pod, e.place, len(e.memberships), len(indexes))
		return
	}
	for i := range e.memberships {
		m := &e.memberships[i]
		if m.entry != e || m.cohort == nil || m.cohort.bucket.index != indexes[i] {
			v.Add("membership %d of pod %s is of another pod (%t), or in no cohort or that of another index", i, e.pod, m.entry != e)
			continue
		}
		if c := m.cohort; c.woken && !q.parked.isAmongWoken(c) || !c.woken && !slices.Contains(c.bucket.cohorts, c) {
			v.Add("pod %s is in a cohort that its bucket does not have, or, if it is woken (%t), that is not to be moved", e.pod, c.woken)
		}
		if !m.cohort.has(m) {
			v.Add("pod %s is in a cohort that does not have it", e.pod)
		}
	}
}

// isListed reports whether a pod must be indexed under the plugins that reject or gate
// it.
func (q *Queue) isListed(e *entry) bool {
	p := q.profiles[e.pod.SchedulerName]
	return e.isRejected() || e.place == gated && len(e.plugins) > 0 && p.rechecks(e.plugins[0])
}

func (p *parkedIndex) isAmongWoken(c *cohort) bool {
	return p.woken.at(c.index) == c
}

// has reports whether the neighbours of a membership confirm that it is in the cohort.
func (c *cohort) has(m *membership) bool {
	return (m.before == nil && c.first == m || m.before != nil && m.before.after == m) &&
		(m.after == nil && c.last == m || m.after != nil && m.after.before == m)
}

func (q *Queue) auditIndex(v *audit.Violations, in *rejectedBy, x *index) {
	for alike, b := range x.byAlike {
		if b.index != x || b.alike != alike || len(b.cohorts) == 0 {
			v.Add("a bucket of the pods rejected by %s is listed under another likeness, or has no cohorts: %d", in.key.plugin, len(b.cohorts))
			continue
		}
		if !slices.IsSortedFunc(b.cohorts, func(a, b *cohort) int { return cmp.Compare(a.rank(), b.rank()) }) {
			v.Add("the cohorts of a bucket of the pods rejected by %s are not ordered by priority", in.key.plugin)
		}
		for _, c := range b.cohorts {
			if c.woken || c.bucket != b {
				v.Add("a bucket of the pods rejected by %s has a cohort of another bucket, or one that is woken: %t", in.key.plugin, c.woken)
				continue
			}
			q.auditCohort(v, c)
		}
		if b.cohorts[0].first != nil {
			x.auditSpots(v, in.key, b, b.cohorts[0].first.entry.pod)
		}
	}
	postings := 0
	for name, c := range map[string]*catalog{"wanting": &x.wanting, "keyed": &x.keyed} {
		x.auditPosting(v, in.key, &c.always)
		for key, at := range c.byKey {
			postings++
			if at.in != c || at.key != key || len(at.listed) == 0 {
				v.Add("the posting %v in the catalog %s of the pods rejected by %s stands under %v, with %d buckets", at.key, name, in.key.plugin, key, len(at.listed))
			}
			x.auditPosting(v, in.key, at)
		}
	}
	if x.auditPosting(v, in.key, &x.all); len(x.all.listed) != len(x.byAlike) {
		v.Add("%d buckets of the pods rejected by %s are listed, there are %d", len(x.all.listed), in.key.plugin, len(x.byAlike))
	}
}

func (q *Queue) auditCohort(v *audit.Violations, c *cohort) {
	if c.first == nil {
		v.Add("a cohort of priority %d has no pods", c.priority)
	}
	for m := c.first; m != nil; m = m.after {
		if m.cohort != c || !c.has(m) {
			v.Add("the cohort of pod %s is not linked", m.entry.pod)
			return
		}
		if e := m.entry; q.entries[e.pod.Key()] != e || !q.isListed(e) || e.pod.Priority != c.priority || e.awaits() != c.awaits {
			v.Add("pod %s of priority %d is in a cohort of priority %d and is %s; it awaits %b, its cohort %b",
				e.pod, e.pod.Priority, c.priority, e.place, e.awaits(), c.awaits)
		}
		if m.before != nil && m.before.entry.parking > m.entry.parking {
			v.Add("pod %s was parked before pod %s, which it follows", m.entry.pod, m.before.entry.pod)
		}
		if x := c.bucket.index; x.Asked == nil && x.alikeOf(m.entry.pod) != c.bucket.alike || m.alike != c.bucket.alike {
			v.Add("pod %s is in a bucket of pods that are not like it", m.entry.pod)
		}
	}
}

// auditSpots checks that a bucket with the given pod is found by the events that can help
// it.
func (x *index) auditSpots(v *audit.Violations, key pluginKey, b *bucket, pod *model.Pod) {
	for i, s := range b.spots {
		if s.at >= len(s.posting.listed) || s.posting.listed[s.at] != (listing{b, i}) {
			v.Add("a bucket of the pods rejected by %s is not at its spot %d", key.plugin, i)
			return
		}
	}
	at := func(where *posting) bool {
		return slices.ContainsFunc(b.spots, func(s spot) bool { return s.posting == where })
	}
	found := at(&x.all)
	if x.hasCause() {
		cause := x.causeOf(pod, b.alike)
		found = found && (at(&x.wanting.always) || len(cause.Wants) > 0 && !slices.ContainsFunc(cause.Wants, func(way model.Way) bool {
			return !slices.ContainsFunc(way, func(keys model.Clause) bool { return x.wanting.listsAll(at, keys) })
		})) && (at(&x.keyed.always) || len(cause.Keys) > 0 && x.keyed.listsAll(at, cause.Keys))
	}
	if !found {
		v.Add("a bucket of the pods rejected by %s is not found by what can help it", key.plugin)
	}
}

// listsAll reports whether at accepts the postings of all keys.
func (c *catalog) listsAll(at func(*posting) bool, keys []model.Key) bool {
	return !slices.ContainsFunc(keys, func(key model.Key) bool { return c.byKey[key] == nil || !at(c.byKey[key]) })
}

func (x *index) auditPosting(v *audit.Violations, key pluginKey, p *posting) {
	for i, l := range p.listed {
		if x.byAlike[l.bucket.alike] != l.bucket || l.spot >= len(l.bucket.spots) || l.bucket.spots[l.spot] != (spot{p, i}) {
			v.Add("the posting %v of the pods rejected by %s lists a bucket that is gone, or not there", p.key, key.plugin)
		}
	}
}

func (q *Queue) auditWaking(v *audit.Violations) {
	p := &q.parked
	for i, c := range p.woken.all() {
		if !c.woken || c.index != i || c.first == nil {
			v.Add("a cohort that is to be moved says that it is woken: %t, at position %d of %d; it has pods: %t", c.woken, c.index, i, c.first != nil)
			continue
		}
		if before, ok := p.woken.before(i); ok && before.first != nil && p.woken.less(c, before) {
			v.Add("a cohort at position %d of those that are woken comes before one that it must follow", i)
		}
		q.auditCohort(v, c)
	}
	p.woken.run.audit(v, "heap of woken cohorts")
	w := &q.waking
	if w.left() > maxPending || w.done > 0 && w.left() <= 0 || w.done < 0 {
		v.Add("%d of %d events are over", w.done, len(w.pending))
	}
	if len(w.overdue) > maxOverdue || !slices.IsSortedFunc(w.overdue, func(a, b overdueEvent) int { return a.due.Compare(b.due) }) {
		v.Add("%d deletions of victims are overdue, or not in the order in which they are due", len(w.overdue))
	}
	if !w.lookedUp && len(w.found) > 0 || w.lookedUp && w.left() == 0 || w.asked > len(w.found) {
		v.Add("%d of %d buckets are asked about %d events; looked up: %t", w.asked, len(w.found), w.left(), w.lookedUp)
	}
}
