package queue

import (
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// profile is a profile with the events that its plugins register.
type profile struct {
	*plugin.Profile
	registered map[string]registered // by plugin
}

// registered is the events that one plugin registers, and the cause of its rejection of a pod.
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

// parkedIndex finds the parked pods that an event can help without a look at the others. It holds them by the plugin that rejected them,
// then by cause: one hint holds for all pods of equal cause.
type parkedIndex struct {
	byPlugin map[pluginKey]*rejectedBy
	// hintCalls counts the calls of hints.
	hintCalls int64
	round     uint64
}

type pluginKey struct{ profile, plugin string }

// rejectedBy holds the parked pods that one plugin of one profile rejected.
type rejectedBy struct {
	registered
	byCause map[model.Need]*bucket
	byKey   map[model.Key]map[*bucket]struct{}
	keyless map[*bucket]struct{}
	pods    int
}

// bucket is the parked pods of one plugin and of equal cause.
type bucket struct {
	cause model.Cause
	pods  map[*entry]struct{}
	round uint64 // the last round in which the hint was called
}

// membership is the place of a parked pod in the index; it has one for each plugin that rejected it.
type membership struct {
	key    pluginKey
	bucket *bucket
}

// noPlugin is the plugin name of pods that no plugin rejected, such as malformed ones. Only their own update can help them.
const noPlugin = ""

// add parks a pod under each plugin that rejected it.
func (p *parkedIndex) add(e *entry, in map[string]registered) {
	plugins := e.plugins
	if len(plugins) == 0 {
		plugins = []string{noPlugin}
	}
	for _, plugin := range plugins {
		key := pluginKey{e.pod.SchedulerName, plugin}
		l := p.byPlugin[key]
		if l == nil {
			l = &rejectedBy{
				registered: in[plugin], byCause: map[model.Need]*bucket{},
				byKey: map[model.Key]map[*bucket]struct{}{}, keyless: map[*bucket]struct{}{},
			}
			p.byPlugin[key] = l
		}
		g := l.bucket(e.pod)
		g.pods[e] = struct{}{}
		l.pods++
		e.buckets = append(e.buckets, membership{key, g})
	}
}

// bucket returns the bucket of the pod's cause.
func (l *rejectedBy) bucket(pod *model.Pod) *bucket {
	var cause model.Cause
	if l.cause != nil {
		cause = l.cause(pod)
	}
	if g := l.byCause[cause.Alike]; g != nil {
		return g
	}
	g := &bucket{cause: cause, pods: map[*entry]struct{}{}}
	l.byCause[cause.Alike] = g
	for _, key := range cause.Keys {
		if l.byKey[key] == nil {
			l.byKey[key] = map[*bucket]struct{}{}
		}
		l.byKey[key][g] = struct{}{}
	}
	if len(cause.Keys) == 0 {
		l.keyless[g] = struct{}{}
	}
	return g
}

// remove takes a pod out of all its buckets, and removes buckets that it leaves empty.
func (p *parkedIndex) remove(e *entry) {
	for _, s := range e.buckets {
		in := p.byPlugin[s.key]
		in.pods--
		if delete(s.bucket.pods, e); len(s.bucket.pods) > 0 {
			continue
		}
		delete(in.byCause, s.bucket.cause.Alike)
		delete(in.keyless, s.bucket)
		for _, key := range s.bucket.cause.Keys {
			if delete(in.byKey[key], s.bucket); len(in.byKey[key]) == 0 {
				delete(in.byKey, key)
			}
		}
		if len(in.byCause) == 0 {
			delete(p.byPlugin, s.key)
		}
	}
	e.buckets = e.buckets[:0]
}

// find calls yield for every parked pod that the event may help, some more than once, in no particular order.
func (p *parkedIndex) find(event model.Event, yield func(*entry)) {
	for _, in := range p.byPlugin {
		for i := range in.events {
			if registration := &in.events[i]; registration.Concerns(event) {
				p.match(in, registration, event, yield)
			}
		}
	}
}

// match calls the hint of a registration for each bucket that the event can concern, and yield for the pods of those that it can help.
func (p *parkedIndex) match(in *rejectedBy, registration *model.EventToRegister, event model.Event, yield func(*entry)) {
	p.round++
	one := func(g *bucket) {
		if g.round == p.round {
			return
		}
		g.round = p.round
		p.hintCalls++
		if registration.Hint != nil && !registration.Hint(g.anyPod(), event) {
			return
		}
		for e := range g.pods {
			yield(e)
		}
	}
	if registration.Touches == nil {
		for _, g := range in.byCause {
			one(g)
		}
		return
	}
	for g := range in.keyless {
		one(g)
	}
	registration.Touches(event, func(key model.Key) {
		for g := range in.byKey[key] {
			one(g)
		}
	})
}

// anyPod returns a pod of the bucket: the hint is the same for each.
func (g *bucket) anyPod() *model.Pod {
	for e := range g.pods {
		return e.pod
	}
	panic("queue: a bucket without pods")
}
