package queue

import (
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// profile is what the queue knows of a profile.
type profile struct {
	*plugin.Profile
	registered map[string]registered // by plugin
}

// registered is what one plugin says of events that may change its mind about a pod that it rejected.
type registered struct {
	events []model.EventToRegister
	cause  func(pod *model.Pod) model.Cause
}

func newProfile(p *plugin.Profile) profile {
	known := profile{p, map[string]registered{}}
	for _, x := range p.EnqueueExtensions {
		known.registered[x.Name()] = registered{x.EventsToRegister(), x.Cause}
	}
	return known
}

// parking holds the parked pods by what could cure them, so that an event finds those it can help without a look at the others: by the
// plugin that rejected them, then by cause. Pods of equal cause stand together, and one hint answers for all of them.
type parking struct {
	lots map[lotKey]*lot
	// asked counts how often a hint was asked.
	asked int64
	round uint64
}

type lotKey struct{ profile, plugin string }

// lot holds the parked pods that one plugin of one profile rejected.
type lot struct {
	registered
	// Invariant: groups are listed by what is alike in their cause.
	groups map[model.Need]*group
	// Invariant: byKey and always find each group by all its keys, or always if it has none, and nothing else. No set is empty.
	byKey  map[model.Key]map[*group]struct{}
	always map[*group]struct{} // those without keys
	// Invariant: pods is how many pods the groups have, at least one.
	pods int
}

// group is parked pods of equal cause.
type group struct {
	cause model.Cause
	// Invariant: pods are parked, have a spot here and the group's cause; there is at least one.
	pods  map[*entry]struct{}
	round uint64 // in which it was last asked about
}

// spot is where a parked pod stands; it has one for each plugin that rejected it.
type spot struct {
	key   lotKey
	group *group
}

// nobody stands for the plugin of pods that no plugin rejected, such as malformed ones. Only their own update can help them.
const nobody = ""

// add parks a pod under each plugin that rejected it.
func (p *parking) add(e *entry, in map[string]registered) {
	plugins := e.plugins
	if len(plugins) == 0 {
		plugins = []string{nobody}
	}
	for _, plugin := range plugins {
		key := lotKey{e.pod.SchedulerName, plugin}
		l := p.lots[key]
		if l == nil {
			l = &lot{
				registered: in[plugin], groups: map[model.Need]*group{},
				byKey: map[model.Key]map[*group]struct{}{}, always: map[*group]struct{}{},
			}
			p.lots[key] = l
		}
		g := l.group(e.pod)
		g.pods[e] = struct{}{}
		l.pods++
		e.spots = append(e.spots, spot{key, g})
	}
}

// group returns the group of the pod's cause.
func (l *lot) group(pod *model.Pod) *group {
	var cause model.Cause
	if l.cause != nil {
		cause = l.cause(pod)
	}
	if g := l.groups[cause.Alike]; g != nil {
		return g
	}
	g := &group{cause: cause, pods: map[*entry]struct{}{}}
	l.groups[cause.Alike] = g
	for _, key := range cause.Keys {
		if l.byKey[key] == nil {
			l.byKey[key] = map[*group]struct{}{}
		}
		l.byKey[key][g] = struct{}{}
	}
	if len(cause.Keys) == 0 {
		l.always[g] = struct{}{}
	}
	return g
}

// remove takes a pod off all its spots, and with the last pod of a group what the group was found by.
func (p *parking) remove(e *entry) {
	for _, s := range e.spots {
		in := p.lots[s.key]
		in.pods--
		if delete(s.group.pods, e); len(s.group.pods) > 0 {
			continue
		}
		delete(in.groups, s.group.cause.Alike)
		delete(in.always, s.group)
		for _, key := range s.group.cause.Keys {
			if delete(in.byKey[key], s.group); len(in.byKey[key]) == 0 {
				delete(in.byKey, key)
			}
		}
		if len(in.groups) == 0 {
			delete(p.lots, s.key)
		}
	}
	e.spots = e.spots[:0]
}

// find calls yield for every parked pod that the event may help, some more than once, in no particular order.
func (p *parking) find(event model.Event, yield func(*entry)) {
	for _, in := range p.lots {
		for i := range in.events {
			if registration := &in.events[i]; registration.Concerns(event) {
				p.ask(in, registration, event, yield)
			}
		}
	}
}

// ask holds an event against the groups of a lot that it can concern.
func (p *parking) ask(in *lot, registration *model.EventToRegister, event model.Event, yield func(*entry)) {
	p.round++
	one := func(g *group) {
		if g.round == p.round {
			return
		}
		g.round = p.round
		p.asked++
		if registration.Hint != nil && !registration.Hint(g.anyone(), event) {
			return
		}
		for e := range g.pods {
			yield(e)
		}
	}
	if registration.Touches == nil {
		for _, g := range in.groups {
			one(g)
		}
		return
	}
	for g := range in.always {
		one(g)
	}
	registration.Touches(event, func(key model.Key) {
		for g := range in.byKey[key] {
			one(g)
		}
	})
}

// anyone returns a pod of the group: hints are the same for each.
func (g *group) anyone() *model.Pod {
	for e := range g.pods {
		return e.pod
	}
	panic("queue: a group without pods")
}
