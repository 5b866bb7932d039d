package simulate

import (
	"errors"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
)

// Kind is a kind of object that is watched.
type Kind int

// The kinds. Others are namespaces, services and controllers.
const (
	Pods Kind = iota
	Nodes
	Others
	kinds
)

// object names an object. Exactly one field is set; a node is named by its name alone.
type object struct {
	pod  model.PodKey
	node string
	ref  model.Ref
}

func (o object) kind() Kind {
	switch {
	case o.node != "":
		return Nodes
	case o.pod != model.PodKey{}:
		return Pods
	}
	return Others
}

// watch is the connection over which the scheduler sees one kind of object, with what an informer keeps.
type watch struct {
	// broken watches show nothing: what there is to show waits, and is shown when the watch resumes, or is lost when the objects are listed
	// anew.
	broken  bool
	backlog []sighting
	// list counts the lists; what an earlier one was to show is not shown any more.
	list   int
	synced bool
	known  map[object]version
	// shownAt is when the newest version of an object is shown, so that the next one is not shown earlier.
	shownAt map[object]time.Time
}

type sighting struct {
	of   object
	what Shown
}

// version is what an informer knows of an object.
type version struct {
	uid      types.UID
	revision string
	gone     Shown // what is shown when it is not there any more
}

// watchAnew has all objects listed and watched by a process that knows nothing.
func (c *Cluster) watchAnew() {
	for k := range c.watches {
		c.watches[k] = watch{broken: true, known: map[object]version{}, shownAt: map[object]time.Time{}}
	}
	if !c.away {
		for k := range kinds {
			c.relist(k)
		}
	}
}

// BreakWatch stops a watch, without the scheduler noticing.
func (c *Cluster) BreakWatch(kind Kind) {
	if w := &c.watches[kind]; !w.broken {
		w.broken = true
		c.happened["watch: broken"]++
	}
}

// MendWatch lets a broken watch go on: where it stopped, or with a new list, in which case the scheduler finds out only from the list what is
// no longer there.
func (c *Cluster) MendWatch(kind Kind, anew bool) {
	w := &c.watches[kind]
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
func (c *Cluster) relist(kind Kind) {
	w := &c.watches[kind]
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

// compare shows in which ways a list differs from what the informer knows.
func (c *Cluster) compare(kind Kind, w *watch) {
	listed := c.listed(kind)
	there := map[object]bool{}
	for _, s := range listed {
		there[s.of] = true
	}
	missing := slices.SortedFunc(maps.Keys(w.known), compareObjects)
	for _, of := range missing {
		if !there[of] {
			c.happened["watch: deletion missed"]++
			c.see(w, sighting{of, w.known[of].gone})
		}
	}
	for _, s := range listed {
		uid, revision := s.what.identity()
		known, ok := w.known[s.of]
		if ok && known.uid != uid {
			c.happened["watch: replacement missed"]++
			c.see(w, sighting{s.of, known.gone})
		}
		if !ok || known.revision != revision {
			c.see(w, s)
		}
	}
}

// listed is what the API server lists: of the pods those that have not finished.
func (c *Cluster) listed(kind Kind) []sighting {
	var all []sighting
	switch kind {
	case Pods:
		for _, pod := range c.Pods() {
			if !finished(pod) {
				all = append(all, sighting{object{pod: keyOf(pod)}, Shown{Pod: pod}})
			}
		}
	case Nodes:
		for _, node := range c.Nodes() {
			all = append(all, sighting{object{node: node.Name}, Shown{Node: node}})
		}
	case Others:
		for _, other := range c.Objects() {
			ref, _ := model.RefOf(other) // what is stored has one
			all = append(all, sighting{object{ref: ref}, Shown{Object: other}})
		}
	}
	return all
}

// show plans a watch event, and sometimes its twin.
func (c *Cluster) show(of object, what Shown) {
	w := &c.watches[of.kind()]
	at := c.now.Add(c.chaos.upTo(c.chaos.WatchDelayMax))
	if last, ok := w.shownAt[of]; ok && last.After(at) {
		at = last
	}
	w.shownAt[of] = at
	times := 1
	if c.chaos.chance(c.chaos.DuplicatePercent) {
		times = 2
		c.happened["watch: event shown twice"]++
	}
	list := w.list
	for range times {
		c.agenda.plan(at, c.life, func() {
			switch {
			case w.list != list:
			case w.broken:
				w.backlog = append(w.backlog, sighting{of, what})
			default:
				c.see(w, sighting{of, what})
			}
		})
	}
}

// see hands on what a watch shows.
func (c *Cluster) see(w *watch, s sighting) {
	if uid, revision := s.what.identity(); uid != "" && !(s.what.Pod != nil && finished(s.what.Pod)) {
		w.known[s.of] = version{uid, revision, s.of.gone()}
	} else {
		delete(w.known, s.of)
	}
	c.deliver(s.what)
}

// gone is what is shown when the object is not there any more.
func (o object) gone() Shown {
	switch o.kind() {
	case Pods:
		return Shown{PodGone: o.pod}
	case Nodes:
		return Shown{NodeGone: o.node}
	}
	return Shown{ObjectGone: o.ref}
}

// identity returns the UID and revision of the object that is shown; empty if it is gone.
func (s Shown) identity() (types.UID, string) {
	var object metav1.Object
	switch {
	case s.Pod != nil:
		object = s.Pod
	case s.Node != nil:
		object = s.Node
	case s.Object != nil:
		object = s.Object.(metav1.Object)
	default:
		return "", ""
	}
	return object.GetUID(), object.GetResourceVersion()
}

// synced reports whether the scheduler has seen a list of every kind: it does not decide before.
func (c *Cluster) synced() bool {
	for k := range c.watches {
		if !c.watches[k].synced {
			return false
		}
	}
	return true
}

// Disconnect takes the API server away from the scheduler: requests are refused, and the watches break. Others still reach it.
func (c *Cluster) Disconnect() {
	c.away = true
	c.happened["API server: gone"]++
	for k := range c.watches {
		c.watches[k].broken = true
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
	for k := range kinds {
		c.relist(k)
	}
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

func compareObjects(a, b object) int {
	if a.node != b.node {
		if a.node < b.node {
			return -1
		}
		return 1
	}
	if order := compareKeys(a.pod, b.pod); order != 0 {
		return order
	}
	return compareRefs(a.ref, b.ref)
}

func (c *Cluster) showNode(node *v1.Node) { c.show(object{node: node.Name}, Shown{Node: node}) }

func (c *Cluster) showPod(pod *v1.Pod) { c.show(object{pod: keyOf(pod)}, Shown{Pod: pod}) }
