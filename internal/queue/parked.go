package queue

import (
	"cmp"
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// profile is a profile with the events that its plugins register.
type profile struct {
	*plugin.Profile
	registered      map[string][]model.EventToRegister   // by plugin
	asking          map[string]*plugin.EnqueueExtensions // those with Asked, by name
	holdsPreemptors bool
}

func newProfile(p *plugin.Profile) profile {
	known := profile{p, map[string][]model.EventToRegister{}, map[string]*plugin.EnqueueExtensions{}, holdsPreemptors(p)}
	if len(p.Extenders) > 0 {
		known.registered[plugin.ExtenderName] = model.DefaultEvents()
	}
	for _, x := range p.EnqueueExtensions {
		known.registered[x.Name] = x.Events
		if x.Asked != nil {
			known.asking[x.Name] = x
		}
	}
	return known
}

// rechecks reports whether events can release a pod that the PreEnqueue plugin gates. The
// end of a preemption needs no event.
func (p profile) rechecks(plugin string) bool {
	return plugin != preemptionPlugin && slices.ContainsFunc(p.registered[plugin], isIndexed)
}

// isIndexed reports whether the registration is indexed. Events about the waiting pod
// itself concern only that pod, and events about other waiting pods do not exist.
func isIndexed(r model.EventToRegister) bool {
	return r.Resource != model.TargetPodEvent && r.Resource != model.UnscheduledPodEvent
}

// parkedIndex finds the pods that an event can help without visiting the others. It has
// the parked pods, and the pods gated by a PreEnqueue plugin with registrations. They are
// indexed by plugin, by registration, and by the need on which the hint depends.
type parkedIndex struct {
	byPlugin map[pluginKey]*rejectedBy
	// Invariant: inOrder has the values of byPlugin, sorted by key. Events visit the
	// plugins in this order.
	inOrder []*rejectedBy
	// parkings counts how often a pod was parked.
	parkings uint64
	// woken has the cohorts that are being woken, sorted by the turns of their first
	// pods.
	//
	// Invariant: woken has each cohort that is marked as woken, once and at its index,
	// and no other.
	woken   heap[*cohort]
	wakings uint64 // the number of cohorts ever woken
	// Invariant: awaitWrites is the number of parked pods that awaitsWrite marks.
	awaitWrites int
	hintCalls   int64
	lookups     uint64
	// Memory for one lookup.
	touch          model.Touch
	wanting, keyed lookup
}

type pluginKey struct {
	profile, plugin string
	by              answer
}

// answer is how a plugin holds back a pod.
type answer uint8

const (
	byRejection answer = iota
	byGate             // by a PreEnqueue plugin
	byPending          // by kube-scheduler's Pending
)

// compare puts plugins that answered Pending first, because their hints decide whether a
// pod skips its backoff.
func (k pluginKey) compare(o pluginKey) int {
	return cmp.Or(cmp.Compare(o.by, k.by), cmp.Compare(k.profile, o.profile), cmp.Compare(k.plugin, o.plugin))
}

// rejectedBy has the pods with one answer from one plugin of one profile.
type rejectedBy struct {
	key pluginKey
	// indexes has one index for each registration about objects other than the waiting
	// pod.
	indexes []*index
	// Invariant: pods is the number of pods parked under the plugin, at least one.
	pods int
}

// noPlugin is the plugin name of pods that no plugin rejected, such as malformed pods.
// Only their own update can help them.
const noPlugin = ""

func newParkedIndex(byTurn func(a, b *entry) bool) parkedIndex {
	return parkedIndex{
		byPlugin: map[pluginKey]*rejectedBy{},
		woken:    heap[*cohort]{less: inTurnOf(byTurn), index: func(c *cohort) *int { return &c.index }},
	}
}

// rejectors returns the plugins under which a pod is parked.
func (e *entry) rejectors() []string {
	if len(e.plugins) == 0 {
		return []string{noPlugin}
	}
	return e.plugins
}

// under returns the key of a plugin under which a pod is indexed.
func (e *entry) under(plugin string) pluginKey {
	key := pluginKey{profile: e.pod.SchedulerName, plugin: plugin}
	if e.place == gated {
		key.by = byGate
	} else if slices.Contains(e.pending, plugin) {
		key.by = byPending
	}
	return key
}

// gatedUnder returns the key of the PreEnqueue plugin that gates a pod.
func (e *entry) gatedUnder() pluginKey { return e.under(e.plugins[0]) }

// add indexes a pod under each plugin that rejected or gates it.
func (p *parkedIndex) add(e *entry, profile profile, v state.View) {
	p.parkings++
	e.parking = p.parkings
	if e.awaitsWrite = e.isRejected() && v.AwaitsWrite(e.pod); e.awaitsWrite {
		p.awaitWrites++
	}
	plugins, count := e.rejectors(), 0
	for _, plugin := range plugins {
		in := p.rejectedBy(e.under(plugin), profile.registered[plugin])
		in.pods++
		count += len(in.indexes)
	}
	again := e.parkedLast == e.pod && slices.Equal(e.parkedUnder, plugins)
	e.parkedLast, e.parkedUnder = e.pod, plugins
	// Memberships point to each other, so the slice must not move while the pod is
	// parked.
	e.memberships = slices.Grow(e.memberships[:0], count)[:count]
	i := 0
	for _, plugin := range plugins {
		var asked model.Need
		if asking := profile.asking[plugin]; asking != nil {
			asked = asking.Asked(v, e.pod)
		}
		for _, x := range p.byPlugin[e.under(plugin)].indexes {
			m := &e.memberships[i]
			if m.entry = e; x.Asked != nil {
				m.alike = asked
			} else if !again {
				m.alike = x.alikeOf(e.pod)
			}
			x.bucketOf(e.pod, m.alike).add(m)
			i++
		}
	}
}

// remove removes a pod from all indexes. It also ends its waking.
func (p *parkedIndex) remove(e *entry) {
	for i := range e.memberships {
		p.leave(&e.memberships[i])
	}
	e.memberships = e.memberships[:0]
	if e.awaitsWrite {
		e.awaitsWrite = false
		p.awaitWrites--
	}
	for _, plugin := range e.rejectors() {
		p.leavePlugin(p.byPlugin[e.under(plugin)])
	}
}

// leavePlugin decrements the pods of a plugin.
func (p *parkedIndex) leavePlugin(in *rejectedBy) {
	if in.pods--; in.pods == 0 {
		delete(p.byPlugin, in.key)
		p.inOrder = slices.DeleteFunc(p.inOrder, func(other *rejectedBy) bool { return other == in })
	}
}

// renew indexes a pod again after a change of the pod. Its buckets are kept meanwhile:
// most changes, such as a new condition, leave the pod in the same buckets, and a bucket
// of long needs is expensive to list.
func (p *parkedIndex) renew(e *entry, profile profile, v state.View, change func()) {
	kept := make([]*bucket, len(e.memberships))
	under := make([]*rejectedBy, 0, 4)
	for i := range e.memberships {
		kept[i] = e.memberships[i].cohort.bucket
		kept[i].kept = true
	}
	for _, plugin := range e.rejectors() {
		in := p.byPlugin[e.under(plugin)]
		in.pods++
		under = append(under, in)
	}
	p.remove(e)
	change()
	p.add(e, profile, v)
	for _, b := range kept {
		if b.kept = false; len(b.cohorts) == 0 {
			b.index.remove(b)
		}
	}
	for _, in := range under {
		p.leavePlugin(in)
	}
}

// leave removes one membership from its cohort, and then cohorts and buckets that are
// empty.
func (p *parkedIndex) leave(m *membership) {
	c, wasFirst := m.cohort, m.before == nil
	c.unlink(m)
	switch {
	case c.woken && c.first == nil:
		p.woken.remove(c)
	case c.woken && wasFirst:
		p.woken.fix(c)
	case !c.woken && c.first == nil:
		c.bucket.drop(c)
	}
}

func (p *parkedIndex) rejectedBy(key pluginKey, events []model.EventToRegister) *rejectedBy {
	if in := p.byPlugin[key]; in != nil {
		return in
	}
	in := &rejectedBy{key: key}
	for i := range events {
		if isIndexed(events[i]) {
			in.indexes = append(in.indexes, newIndex(&events[i], key.plugin, key.by == byPending))
		}
	}
	p.byPlugin[key] = in
	at, _ := slices.BinarySearchFunc(p.inOrder, key, func(in *rejectedBy, key pluginKey) int { return in.key.compare(key) })
	p.inOrder = slices.Insert(p.inOrder, at, in)
	return in
}

// isWokenAtOnce reports whether an event lets a parked pod skip the rest of its backoff.
func (e *entry) isWokenAtOnce() bool {
	for i := range e.memberships {
		if c := e.memberships[i].cohort; c.woken && c.atOnce {
			return true
		}
	}
	return false
}

// isWoken reports whether an event that helps a parked pod has been found, and the
// event's name.
func (e *entry) isWoken() (why string, woken bool) {
	for i := range e.memberships {
		if c := e.memberships[i].cohort; c.woken {
			return c.why, true
		}
	}
	return "", false
}
