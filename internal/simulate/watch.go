package simulate

import (
	"errors"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// watch is the connection over which the scheduler sees one kind of object, with what an informer keeps.
type watch struct {
	// broken watches show nothing: what there is to show waits, and is shown when the watch resumes, or is lost when the objects are listed
	// anew.
	broken  bool
	backlog []sighting
	// list counts the lists; what an earlier one was to show is not shown any more.
	list   int
	synced bool
	known  map[model.Ref]kinds.Object // in the version that was shown last
	// shownAt is when the newest version of an object will be shown, so that the next one is not shown earlier.
	shownAt map[model.Ref]time.Time
}

func newWatch() *watch {
	return &watch{known: map[model.Ref]kinds.Object{}, shownAt: map[model.Ref]time.Time{}}
}

// sighting is an object in a new version, or nil in its place when the object is gone.
type sighting struct {
	of     model.Ref
	object kinds.Object
}

// watchAnew has all objects listed and watched by a process that knows nothing.
func (c *Cluster) watchAnew() {
	for _, kind := range c.reads {
		c.watches[kind] = newWatch()
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
		w.broken, w.synced, w.backlog = false, true, nil
		w.list++ // what was on its way is in the list
		clear(w.shownAt)
		c.compare(kind, w)
	})
}

func (c *Cluster) relistAll() {
	for _, kind := range c.reads {
		c.relist(kind)
	}
}

// compare shows in which ways a list differs from what the informer knows.
func (c *Cluster) compare(kind model.Kind, w *watch) {
	listed := c.listed(kind)
	there := map[model.Ref]bool{}
	for _, s := range listed {
		there[s.of] = true
	}
	for _, of := range slices.SortedFunc(maps.Keys(w.known), compareRefs) {
		if !there[of] {
			c.happened["watch: deletion missed"]++
			c.see(w, sighting{of: of})
		}
	}
	for _, s := range listed {
		known, ok := w.known[s.of]
		if ok && known.GetUID() != s.object.GetUID() {
			c.happened["watch: replacement missed"]++
		}
		if !ok || known.GetResourceVersion() != s.object.GetResourceVersion() {
			c.see(w, s)
		}
	}
}

// listed is what the API server lists: of the pods those that have not finished.
func (c *Cluster) listed(kind model.Kind) []sighting {
	row := kinds.Get(kind)
	var all []sighting
	for _, object := range c.store.list(kind) {
		if pod, ok := object.(*v1.Pod); !ok || !kinds.Finished(pod) {
			all = append(all, sighting{row.Ref(object), object})
		}
	}
	return all
}

// show plans a watch event about an object in a new version, which controllers act on.
func (c *Cluster) show(object kinds.Object) {
	if c.config.Mirror != nil {
		c.config.Mirror.Changed(object)
	}
	c.volume.changed(object)
	c.budget.changed(object)
	c.plan(sighting{kinds.Of(object).Ref(object), object})
}

// showGone plans a watch event about an object that is gone, which controllers act on.
func (c *Cluster) showGone(ref model.Ref) {
	if c.config.Mirror != nil {
		c.config.Mirror.Gone(ref)
	}
	c.volume.gone(ref)
	c.budget.gone(ref)
	c.plan(sighting{of: ref})
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
	w.shownAt[s.of] = at
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

// see hands on what a watch shows, as the handlers of informers do.
func (c *Cluster) see(w *watch, s sighting) {
	if known := w.known[s.of]; known != nil && s.object != nil && kinds.Get(s.of.Kind).Replaces(known, s.object) {
		c.deliver(Shown{Gone: s.of})
	}
	pod, isPod := s.object.(*v1.Pod)
	if s.object == nil || isPod && kinds.Finished(pod) {
		delete(w.known, s.of)
	} else {
		w.known[s.of] = s.object
	}
	if s.object == nil {
		// Until now the scheduler may have decided about a pod that was gone.
		if key := (model.PodKey{Namespace: s.of.Namespace, Name: s.of.Name}); s.of.Kind == model.PodKind && c.store.pods[key] == nil {
			delete(c.verdicts, key)
		}
		c.deliver(Shown{Gone: s.of})
		return
	}
	c.deliver(Shown{Object: s.object})
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
