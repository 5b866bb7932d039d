package simulate

import (
	"errors"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/kube"
	"github.com/berth-scheduler/berth/internal/model"
)

// watch is the scheduler's connection for one kind of object.
type watch struct {
	informer *informer
	// A broken watch shows nothing. Its events are kept in the backlog. They are shown
	// when the watch resumes, or dropped when the objects are listed again.
	broken  bool
	backlog []sighting
	// list counts the lists. Events from before the latest list are dropped.
	list   int
	synced bool
	// shownAt is the time at which the newest version of an object will be shown, so that
	// the next version is not shown earlier.
	shownAt map[model.Ref]time.Time
	// last is the last version of objects whose deletion has not been shown yet.
	last map[model.Ref]string
}

func newWatch(c *Cluster, kind model.Kind) *watch {
	return &watch{informer: newInformer(c, kind, kube.NewHandler(kind, sink{c})), shownAt: map[model.Ref]time.Time{}, last: map[model.Ref]string{}}
}

// sighting is a new version of an object, or the last version of a deleted one.
type sighting struct {
	of     model.Ref
	object kinds.Object
	gone   bool
}

// watchAnew lists and watches all objects for a process with empty state.
func (c *Cluster) watchAnew() {
	for _, kind := range c.reads {
		c.watches[kind] = newWatch(c, kind)
		c.watches[kind].broken = true
	}
	if !c.away {
		c.relistAll()
	}
}

// Reads returns the kinds that the scheduler watches. It must not be changed.
func (c *Cluster) Reads() []model.Kind { return c.reads }

// BreakWatch stops the watch of a kind without an error to the scheduler.
func (c *Cluster) BreakWatch(kind model.Kind) {
	if w := c.watches[kind]; !w.broken {
		w.broken = true
		c.happened["watch: broken"]++
	}
}

// MendWatch lets a broken watch go on: at the place where it stopped, or with a new list.
// With a list, deletions are visible only as missing objects.
func (c *Cluster) MendWatch(kind model.Kind, anew bool) {
	w := c.watches[kind]
	switch {
	case !w.broken || c.away:
	case anew || !w.synced:
		c.relist(kind)
	default:
		c.happened["watch: resumed"]++
		life, list := c.life, w.list
		c.agenda.plan(c.now, life, func() {
			if w.list != list || !w.broken {
				return
			}
			w.broken = false
			late := w.backlog
			w.backlog = nil
			for _, s := range late {
				c.see(w, s)
			}
		})
	}
}

// relist plans a list, after which the watch goes on.
func (c *Cluster) relist(kind model.Kind) {
	w := c.watches[kind]
	w.list++
	w.broken = true
	list := w.list
	c.agenda.plan(c.now.Add(c.chaos.upTo(c.chaos.MaxWatchDelay)), c.life, func() {
		if w.list != list || c.away {
			return
		}
		c.happened["watch: listed anew"]++
		listed := c.listed(kind)
		c.compare(w, listed)
		w.informer.replace(listed, !w.synced)
		w.broken, w.synced, w.backlog = false, true, nil
		w.list++ // the list includes the events on their way
		clear(w.shownAt)
		clear(w.last)
	})
}

func (c *Cluster) relistAll() {
	for _, kind := range c.reads {
		c.relist(kind)
	}
}

// compare counts the differences between a list and the informer's store.
func (c *Cluster) compare(w *watch, list []kinds.Object) {
	missing := map[model.Ref]string{}
	for _, object := range w.informer.store.List() {
		known := object.(kinds.Object)
		missing[w.informer.row.Ref(known)] = known.GetResourceVersion()
	}
	for _, object := range list {
		if known := w.informer.known(object); known != nil && known.GetUID() != object.GetUID() {
			c.happened["watch: replacement missed"]++
		}
		delete(missing, w.informer.row.Ref(object))
	}
	for of, version := range missing {
		c.happened["watch: deletion missed"]++
		if last := w.last[of]; last != "" && last != version {
			c.happened["watch: deletion missed, and versions before it"]++
		}
	}
}

// listed returns the API server's list, without finished pods.
func (c *Cluster) listed(kind model.Kind) []kinds.Object {
	return slices.DeleteFunc(c.store.list(kind), func(object kinds.Object) bool { return !selected(object) })
}

// show plans a watch event for a new version of an object and passes it to the
// controllers.
func (c *Cluster) show(object kinds.Object) {
	if c.config.Mirror != nil {
		c.config.Mirror.Changed(object)
	}
	c.volume.changed(object)
	c.claim.changed(object)
	c.budget.changed(object)
	c.plan(sighting{of: refOf(object), object: object})
}

// showGone plans a watch event for a deleted object, in its last version, and passes it
// to the controllers.
func (c *Cluster) showGone(object kinds.Object) {
	ref := refOf(object)
	if c.config.Mirror != nil {
		c.config.Mirror.Gone(ref)
	}
	c.volume.gone(ref)
	c.claim.gone(ref)
	c.budget.gone(ref)
	if w := c.watches[ref.Kind]; w != nil {
		w.last[ref] = object.GetResourceVersion()
	}
	c.plan(sighting{ref, object, true})
}

// plan plans a watch event, and at random a duplicate. Unwatched kinds have none.
func (c *Cluster) plan(s sighting) {
	w := c.watches[s.of.Kind]
	if w == nil {
		return
	}
	at := c.now.Add(c.chaos.upTo(c.chaos.MaxWatchDelay))
	if last, ok := w.shownAt[s.of]; ok && last.After(at) {
		at = last
	}
	if at.After(c.now) { // otherwise it is shown before any effect that is planned later
		w.shownAt[s.of] = at
	}
	times := 1
	if c.chaos.chance(c.chaos.DuplicatePercent) {
		times = 2
		c.happened["watch: event shown twice"]++
	}
	list := w.list
	for range times {
		c.agenda.plan(at, c.life, func() {
			if w.shownAt[s.of].Equal(at) {
				delete(w.shownAt, s.of) // the next version is shown later, or after this one
			}
			switch {
			case w.list != list:
			case w.broken:
				w.backlog = append(w.backlog, s)
			default:
				c.see(w, s)
			}
		})
	}
}

// see applies a watch event to the informer.
func (c *Cluster) see(w *watch, s sighting) {
	switch {
	case s.gone && c.again(s) && c.chaos.chance(c.chaos.ReplacedPercent):
		c.happened["watch: deletion and creation shown as one"]++
	case s.gone && selected(s.object):
		if w.last[s.of] == s.object.GetResourceVersion() {
			delete(w.last, s.of)
		}
		w.informer.remove(s.object)
	case selected(s.object):
		w.informer.set(s.object)
	case w.informer.known(s.object) != nil: // the watch selected it until now
		c.happened["watch: finished pod shown as deleted"]++
		w.informer.remove(s.object)
	}
}

// again reports whether a deleted object was created again, which the same watch is going
// to show.
func (c *Cluster) again(s sighting) bool {
	now := c.store.get(s.of)
	return now != nil && now.GetUID() != s.object.GetUID()
}

// synced reports whether the scheduler has received a list of every kind. It does not
// decide before.
func (c *Cluster) synced() bool {
	for _, w := range c.watches {
		if !w.synced {
			return false
		}
	}
	return true
}

// Disconnect cuts the scheduler off from the API server: requests are refused, and
// watches break. Other clients still reach it.
func (c *Cluster) Disconnect() {
	c.away = true
	c.happened["API server: gone"]++
	for _, w := range c.watches {
		w.broken = true
	}
}

// Reconnect ends Disconnect. During warmUp, requests are forbidden. All objects are
// listed again.
func (c *Cluster) Reconnect(warmUp time.Duration) {
	if !c.away {
		return
	}
	c.away = false
	c.warmAt = c.now.Add(warmUp)
	c.happened["API server: back"]++
	c.relistAll()
}

// Kill ends the scheduler process. Its requests in flight still arrive.
func (c *Cluster) Kill() {
	c.end()
	c.happened["process: killed"]++
}

// Stop shuts the scheduler process down. It makes no more decisions. It ends when its
// requests are answered and its statuses and events are written, at the latest after
// commit.DefaultDrain.
func (c *Cluster) Stop() {
	if c.dead || c.commit.stopping {
		return
	}
	c.happened["process: stopped"]++
	c.commit.stop(errors.New("the process was made to stop"))
	c.agenda.plan(c.now.Add(commit.DefaultDrain), c.life, c.end)
}

// end removes the process. Answers to its requests are lost.
func (c *Cluster) end() {
	c.life++
	c.dead = true
	c.commit.endCalls()
}

// Stall lets time pass without the scheduler running, as when the machine sleeps.
func (c *Cluster) Stall(d time.Duration) {
	c.now = c.now.Add(d)
	c.happened["clock: jumped with a stalled process"]++
}

// SetClock sets the offset from virtual time of the wall clock that processes read when
// they start.
func (c *Cluster) SetClock(skew time.Duration) {
	c.skew = skew
	c.happened["clock: set"]++
}

// processTime converts virtual time to the scheduler's monotonic clock: the wall clock at
// the start of the process, plus the time since.
func (c *Cluster) processTime(at time.Time) time.Time { return at.Add(c.startSkew) }
