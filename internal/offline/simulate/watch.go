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

// watch is the connection over which the scheduler sees one kind of object.
type watch struct {
	informer *informer
	// broken watches show nothing: what there is to show waits, and is shown when the watch resumes, or is lost when the objects are listed
	// anew.
	broken  bool
	backlog []sighting
	// list counts the lists; what an earlier one was to show is not shown any more.
	list   int
	synced bool
	// shownAt is when the newest version of an object will be shown, so that the next one is not shown earlier.
	shownAt map[model.Ref]time.Time
	// last is the last version of objects whose deletion has not been shown yet.
	last map[model.Ref]string
}

func newWatch(c *Cluster, kind model.Kind) *watch {
	return &watch{informer: newInformer(c, kind, kube.NewHandler(kind, sink{c})), shownAt: map[model.Ref]time.Time{}, last: map[model.Ref]string{}}
}

// sighting is an object in a new version, or in its last one when it is gone.
type sighting struct {
	of     model.Ref
	object kinds.Object
	gone   bool
}

// watchAnew has all objects listed and watched by a process that knows nothing.
func (c *Cluster) watchAnew() {
	for _, kind := range c.reads {
		c.watches[kind] = newWatch(c, kind)
		c.watches[kind].broken = true
	}
	if !c.away {
		c.relistAll()
	}
}

// Reads returns the kinds that the scheduler watches. The slice is the cluster's own.
func (c *Cluster) Reads() []model.Kind { return c.reads }

// BreakWatch stops the watch of a kind that the scheduler watches. The scheduler does not notice.
func (c *Cluster) BreakWatch(kind model.Kind) {
	if w := c.watches[kind]; !w.broken {
		w.broken = true
		c.happened["watch: broken"]++
	}
}

// MendWatch lets a broken watch go on: where it stopped, or with a new list, in which case the scheduler finds out only from the list what is
// no longer there.
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
	c.agenda.plan(c.now.Add(c.chaos.upTo(c.chaos.WatchDelayMax)), c.life, func() {
		if w.list != list || c.away {
			return
		}
		c.happened["watch: listed anew"]++
		listed := c.listed(kind)
		c.compare(w, listed)
		w.informer.replace(listed, !w.synced)
		w.broken, w.synced, w.backlog = false, true, nil
		w.list++ // what was on its way is in the list
		clear(w.shownAt)
		clear(w.last)
	})
}

func (c *Cluster) relistAll() {
	for _, kind := range c.reads {
		c.relist(kind)
	}
}

// compare counts in which ways a list differs from what the informer has.
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

// listed is what the API server lists: of the pods those that have not finished.
func (c *Cluster) listed(kind model.Kind) []kinds.Object {
	return slices.DeleteFunc(c.store.list(kind), func(object kinds.Object) bool { return !selected(object) })
}

// show plans a watch event about an object in a new version, which controllers act on.
func (c *Cluster) show(object kinds.Object) {
	if c.config.Mirror != nil {
		c.config.Mirror.Changed(object)
	}
	c.volume.changed(object)
	c.claim.changed(object)
	c.budget.changed(object)
	c.plan(sighting{of: refOf(object), object: object})
}

// showGone plans a watch event about an object that is gone, in its last version, which controllers act on.
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

// plan plans a watch event, and sometimes its twin. Kinds that are not watched have none.
func (c *Cluster) plan(s sighting) {
	w := c.watches[s.of.Kind]
	if w == nil {
		return
	}
	at := c.now.Add(c.chaos.upTo(c.chaos.WatchDelayMax))
	if last, ok := w.shownAt[s.of]; ok && last.After(at) {
		at = last
	}
	if at.After(c.now) { // otherwise it is shown before whatever is planned later
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
				delete(w.shownAt, s.of) // whatever comes next is shown later, or after this
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

// see has the informer take in what a watch shows.
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
	case w.informer.known(s.object) != nil: // the watch has selected it until now
		c.happened["watch: finished pod shown as deleted"]++
		w.informer.remove(s.object)
	}
}

// again reports whether an object that is gone was created again, which the same watch is going to show.
func (c *Cluster) again(s sighting) bool {
	now := c.store.get(s.of)
	return now != nil && now.GetUID() != s.object.GetUID()
}

// synced reports whether the scheduler has seen a list of every kind: it does not decide before.
func (c *Cluster) synced() bool {
	for _, w := range c.watches {
		if !w.synced {
			return false
		}
	}
	return true
}

// Disconnect takes the API server away from the scheduler: requests are refused, and the watches break. Others still reach it.
func (c *Cluster) Disconnect() {
	c.away = true
	c.happened["API server: gone"]++
	for _, w := range c.watches {
		w.broken = true
	}
}

// Reconnect brings the API server back. For a while it forbids everything; then all objects are listed anew.
func (c *Cluster) Reconnect(warmUp time.Duration) {
	if !c.away {
		return
	}
	c.away = false
	c.warmAt = c.now.Add(warmUp)
	c.happened["API server: back"]++
	c.relistAll()
}

// Kill ends the scheduler process. Its requests that are on their way still arrive.
func (c *Cluster) Kill() {
	c.end()
	c.happened["process: killed"]++
}

// Stop ends the scheduler process in order: it decides nothing more, and ends when what it has sent is answered and what it has to tell is
// written, but soon.
func (c *Cluster) Stop() {
	if c.dead || c.commit.stopping {
		return
	}
	c.happened["process: stopped"]++
	c.commit.stop(errors.New("the process was made to stop"))
	c.agenda.plan(c.now.Add(commit.DefaultDrain), c.life, c.end)
}

// end leaves no process; nobody hears the answers to its requests.
func (c *Cluster) end() {
	c.life++
	c.dead = true
	c.commit.endCalls()
}

// Stall lets time pass without the scheduler getting to run, as when the machine sleeps.
func (c *Cluster) Stall(d time.Duration) {
	c.now = c.now.Add(d)
	c.happened["clock: jumped with a stalled process"]++
}

// SetClock sets the wall clock that processes read when they start, so far from virtual time.
func (c *Cluster) SetClock(skew time.Duration) {
	c.skew = skew
	c.happened["clock: set"]++
}

// processTime turns virtual time into what the scheduler's steady clock shows: the wall clock when the process started, and the time since.
func (c *Cluster) processTime(at time.Time) time.Time { return at.Add(c.startSkew) }
