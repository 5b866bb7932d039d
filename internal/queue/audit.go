package queue

import (
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/internal/kit/audit"
)

// Audit checks the invariants of a Queue by recounting everything. It returns every
// violation in one error, or nil, and changes nothing. It calls plugins only for the
// order and the causes of pods. Its time is proportional to the number of waiting pods.
// The goroutine that uses the queue must call it.
func (q *Queue) Audit() error {
	v := audit.Of("queue")
	q.auditEntries(v)
	q.auditHeaps(v)
	q.auditGating(v)
	q.auditParked(v)
	q.auditWaking(v)
	q.auditPermit(v)
	q.auditPreempting(v)
	q.auditGroups(v)
	q.auditAccounts(v)
	return v.Err()
}

func (q *Queue) auditEntries(v *audit.Violations) {
	var counts [places]int
	orders := map[uint64]*entry{}
	for key, e := range q.entries {
		counts[e.place]++
		if e.pod.Key() != key {
			v.Add("pod %s is listed as %s", e.pod, key)
		}
		if e.place == arriving || e.place == gone {
			v.Add("pod %s is %s", e.pod, e.place)
		}
		if other := orders[e.order]; other != nil || e.order == 0 || e.order > q.arrivals {
			v.Add("pod %s is number %d of %d arrivals; another has that number: %t", e.pod, e.order, q.arrivals, other != nil)
		}
		orders[e.order] = e
		if h := q.heapOf(e, e.place); h != nil && h.at(e.index) != e {
			v.Add("pod %s is %s and not at position %d of the heap for that", e.pod, e.place, e.index)
		}
		if e.rejections > e.attempts || e.errors > e.attempts {
			v.Add("pod %s had %d attempts, of which %d ended in a rejection and the last %d in an error", e.pod, e.attempts, e.rejections, e.errors)
		}
		if e.ready.IsZero() && e.place != gated && e.place != joined {
			v.Add("pod %s is %s, and it is not known since when it could be tried", e.pod, e.place)
		}
	}
	for p, n := range counts {
		if q.counts[p] != n {
			v.Add("%d pods are counted as %s, recounted %d", q.counts[p], place(p), n)
		}
	}
}

func (q *Queue) auditHeaps(v *audit.Violations) {
	// the order of an out-of-tree plugin may change while pods wait
	steady := q.config.Profiles[0].External == nil
	heaps := map[string]*heap[*entry]{"active": &q.active, "backoff": &q.backoff, "errored": &q.errored, "idle": &q.idle}
	for _, of := range q.accounts.open {
		heaps["of account "+of.namespace] = &of.active
	}
	for name, h := range heaps {
		for i, e := range h.all() {
			known := q.entries[e.pod.Key()] == e
			if e.heads != nil {
				known = q.groups[e.heads.key] == e.heads && e.heads.of == nil || e.heads.of != nil && q.trees[e.heads.key] == e.heads
			}
			if !known || q.heapOf(e, e.place) != h || e.index != i {
				v.Add("pod %s is at position %d of the heap %s; it says position %d and that it is %s; it waits: %t",
					e.pod, i, name, e.index, e.place, known)
			}
			if before, ok := h.before(i); ok && (steady || h == &q.errored || h == &q.idle) && h.less(e, before) {
				v.Add("pod %s at position %d of the heap %s comes before %s, which it must follow", e.pod, i, name, before.pod)
			}
		}
		h.run.audit(v, "heap "+name)
	}
}

func (q *Queue) auditAccounts(v *audit.Violations) {
	x := &q.accounts
	for _, a := range x.open {
		if x.byNamespace[a.namespace] != a {
			v.Add("the account of namespace %s is not listed there", a.namespace)
		}
		for _, e := range a.active.all() {
			if e.account != a || e.pod.Namespace != a.namespace {
				v.Add("pod %s is in the heap of the account of namespace %s, and has it: %t", e.pod, a.namespace, e.account == a)
			}
		}
	}
	if n := len(x.open); n != len(x.byNamespace) || n > maxAccounts || n == 0 && (len(x.owed) > 0 || x.sorting) || n > 0 && x.none {
		v.Add("%d accounts are open, %d are listed, and something is owed at %d priorities", n, len(x.byNamespace), len(x.owed))
	}
	for i, d := range x.owed {
		if d.units <= 0 || d.units > maxOwed || x.debtAt(d.priority) != &x.owed[i] {
			v.Add("%d units are owed at priority %d", d.units, d.priority)
		}
	}
	for _, e := range q.entries {
		if e.account != nil && (e.place != active || x.byNamespace[e.pod.Namespace] != e.account) {
			v.Add("pod %s is %s, and has the account of namespace %s", e.pod, e.place, e.account.namespace)
		}
	}
}

func (q *Queue) auditGating(v *audit.Violations) {
	recounted := map[pluginKey]int{}
	for _, e := range q.entries {
		if e.place != gated {
			continue
		}
		if len(e.plugins) != 1 {
			v.Add("pod %s is gated by the plugins %q, want one", e.pod, e.plugins)
			continue
		}
		recounted[e.gatedUnder()]++
	}
	for key, pods := range q.gatedBy {
		if pods != recounted[key] || pods <= 0 {
			v.Add("plugin %s of profile %s gates %d pods, recounted %d", key.plugin, key.profile, pods, recounted[key])
		}
	}
	for key, pods := range recounted {
		if _, ok := q.gatedBy[key]; !ok {
			v.Add("plugin %s of profile %s gates no pods, recounted %d", key.plugin, key.profile, pods)
		}
	}
}

func (q *Queue) auditGroups(v *audit.Violations) {
	var joinedIn [places]int
	members := 0
	for _, e := range q.entries {
		q.auditMember(v, e)
		if e.group != nil {
			members++
		}
	}
	for _, g := range q.eachGroup() {
		members -= len(g.members)
		q.auditTree(v, g)
		q.auditWait(v, g)
		joinedIn[g.head.place] += q.auditGroup(v, g)
	}
	if members != 0 {
		v.Add("%d more members are waiting than groups list", members)
	}
	if joinedIn != q.joined {
		v.Add("members of groups by place are counted as %v, recounted %v", q.joined, joinedIn)
	}
}

// auditMember checks that a pod is a member if and only if it waits for its group.
func (q *Queue) auditMember(v *audit.Violations, e *entry) {
	waits := e.place == joined || e.place == gated || e.place == deciding
	if grouped := q.isGrouped(e.pod) && waits; grouped != (e.group != nil) {
		v.Add("pod %s, which names group %s, is %s; it is a member: %t", e.pod, e.pod.Group, e.place, e.group != nil)
	}
	if e.group == nil {
		if e.listed {
			v.Add("pod %s is listed for its group, and has none", e.pod)
		}
		return
	}
	if _, fresh := e.group.fresh[e]; e.place == joined && e.ready.IsZero() && !fresh {
		v.Add("pod %s has not been ready yet, and group %s does not list it", e.pod, e.pod.Group)
	}
	if q.groups[e.pod.Group] != e.group || e.group.members[e.pod.Key()] != e {
		v.Add("pod %s is not listed as a member of group %s", e.pod, e.pod.Group)
	}
	if (e.place == deciding) != (e.group.head.place == deciding) {
		v.Add("pod %s is %s and its group %s is %s", e.pod, e.place, e.pod.Group, e.group.head.place)
	}
}

// auditGroup checks the place of a group, and returns the recounted members that have
// joined.
func (q *Queue) auditGroup(v *audit.Violations, g *group) (waiting int) {
	held := 0
	for _, e := range g.members {
		switch e.place {
		case gated:
			held++
		case joined:
			waiting++
		}
	}
	if g.head.heads != g || len(g.members) == 0 || held != g.held || waiting != g.joined {
		v.Add("group %s has %d members, of which %d are held, recounted %d, and %d joined, recounted %d", g.key, len(g.members), g.held, held, g.joined, waiting)
	}
	switch p := g.head.place; p {
	case active, backingOff, errorBackoff, gated, incomplete, deciding:
		if h := q.heapOf(&g.head, p); p != gated && h != nil && h.at(g.head.index) != &g.head {
			v.Add("group %s is %s and not at position %d of the heap for that", g.key, p, g.head.index)
		}
		if held > 0 && (p == active || g.head.backsOff()) {
			v.Add("group %s is %s, and %d of its members are held", g.key, p, held)
		}
		if p == active && len(g.fresh) > 0 {
			v.Add("group %s is %s, and it is not known since when %d of its members could be tried", g.key, p, len(g.fresh))
		}
	default:
		v.Add("group %s is %s", g.key, p)
	}
	return waiting
}

// auditWait checks that a group listens while it must, for exactly the members that
// plugins rejected.
func (q *Queue) auditWait(v *audit.Violations, g *group) {
	h, listens := &g.head, q.awaitsEvent(g)
	if g.wait.listens != listens || h.place == backingOff && !g.wait.woken {
		v.Add("group %s is %s after %d rejections; events can help: %t; one did: %t", g.key, h.place, h.rejections, g.wait.listens, g.wait.woken)
	}
	for _, e := range g.members {
		if want := listens && e.place == joined && (len(e.plugins) > 0 || e.listed && e.pod.Malformed != ""); e.listed != want {
			v.Add("pod %s of group %s was rejected by the plugins %q; it is listed: %t", e.pod, g.key, e.plugins, e.listed)
		}
	}
}

func (q *Queue) auditPreempting(v *audit.Violations) {
	awaiting := 0
	preemptors := slices.Collect(maps.Values(q.entries))
	for _, g := range q.eachGroup() {
		preemptors = append(preemptors, &g.head)
	}
	for _, e := range preemptors {
		p := &e.preempting
		if p.under < 0 || p.under > e.attempts || p.failed > e.attempts || p.left && p.under == 0 {
			v.Add("pod %s had %d attempts; %d preemptions for it are under way and %d failed in a row; the last victim has left: %t", e.pod, e.attempts, p.under, p.failed, p.left)
		}
		if p.under > 0 && p.last == "" {
			v.Add("pod %s has no last victim, and %d preemptions for it are under way", e.pod, p.under)
		}
		if p.isAwaiting() {
			awaiting++
			if !slices.Contains(q.awaited[p.last], e) {
				v.Add("pod %s waits for %s to leave, and is not listed there", e.pod, p.last)
			}
		}
		if e.place == gated && slices.Equal(e.plugins, []string{preemptionPlugin}) && !p.isAwaiting() {
			v.Add("pod %s is held back, and awaits no victim", e.pod)
		}
	}
	q.auditLeaving(v, preemptors)
	listed := 0
	for uid, list := range q.awaited {
		listed += len(list)
		if len(list) == 0 {
			v.Add("no pod waits for %s to leave, which is listed", uid)
		}
	}
	if listed != awaiting {
		v.Add("%d pods are listed by their last victims, recounted %d", listed, awaiting)
	}
}

func (q *Queue) auditLeaving(v *audit.Violations, preemptors []*entry) {
	leaving := 0
	for _, e := range preemptors {
		leaving += len(e.preempting.leaving)
		for _, uid := range e.preempting.leaving {
			if !slices.Contains(q.leaving[uid], e) {
				v.Add("pod %s waits for %s to be gone, and is not listed there", e.pod, uid)
			}
		}
	}
	listed := 0
	for uid, list := range q.leaving {
		listed += len(list)
		if len(list) == 0 {
			v.Add("no pod waits for %s to be gone, which is listed", uid)
		}
	}
	if listed != leaving {
		v.Add("pods are listed %d times by victims that are leaving, recounted %d", listed, leaving)
	}
}

func (q *Queue) auditPermit(v *audit.Violations) {
	permits := 0
	for _, e := range q.entries {
		if !e.permits {
			continue
		}
		permits++
		if e.place != binding || e.from > q.missed.count {
			v.Add("pod %s is %s and at Permit, where it missed the events from number %d of %d on", e.pod, e.place, e.from, q.missed.count)
		}
	}
	if q.missed.pods != permits {
		v.Add("%d pods are counted at Permit, recounted %d", q.missed.pods, permits)
	}
	if kept := len(q.missed.events); kept > maxMissed || permits == 0 && kept > 0 || uint64(kept) > q.missed.count {
		v.Add("%d events of %d are kept for %d pods at Permit", kept, q.missed.count, permits)
	}
}
