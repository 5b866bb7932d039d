package hints

import (
	"container/list"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/answers/advice"
	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/amount"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Config is the configuration of a Finder.
type Config struct {
	// Compile describes how to compile the pods of each scheduler name.
	Compile map[string]ingest.Compile
	// Now is a monotonic clock that measures searches. Without it their cost is derived
	// from counted work, so a simulation is deterministic.
	Now func() time.Time
}

const (
	// maxKinds limits the kinds of pods with stored suggestions. Suggestions that were
	// not used for maxUnused are dropped.
	maxKinds  = 1024
	maxUnused = 30 * time.Minute
	// maxRecent limits the rejections whose kind of pod is remembered or pending.
	maxRecent = 4 * maxKinds
	// A suggestion is used without a check for freshFor after it was verified, then
	// verified again. If no time is left to verify it, it is used until maxStale. After
	// searchEvery a new search begins, because a smaller change may help by then.
	freshFor    = 10 * time.Second
	maxStale    = time.Minute
	searchEvery = 10 * time.Minute
)

// Finder is a loop.Hints. Only the loop's goroutine uses it.
type Finder struct {
	in     *ingest.Ingest // compiles pods only
	now    func() time.Time
	budget budget
	// Invariant: each entry is in kinds under its kind, and in used, the most recently
	// used first. waiting holds the entries whose search is pending or running, in their
	// order.
	kinds   map[kind]*entry
	used    *list.List
	waiting []*entry
	// recent maps a rejection to the entry of its kind of pods, because the engine gives
	// equal pods the same rejection. The value is nil while the pod is in unsorted, which
	// holds the pods whose kind is not determined yet, at most maxKinds.
	recent   map[recently]*entry
	unsorted []unsorted
	sample   sample
	counts   Counts
}

// kind is equal for pods with the same verdicts whose requirements are also written in
// the same way.
type kind struct {
	shape engine.Shape
	// uid is the UID of a pod that is a kind of its own; needs are its needs, which may
	// change.
	uid    string
	needs  engine.Kind
	spells spelling
}

// spelling distinguishes pods with the same requirements in different notations, because
// a suggestion quotes the notation.
type spelling struct {
	selectors, terms, containers int
	overheadCPU, overheadMemory  int64 // in millicores and bytes
	hostNetwork                  bool
}

type recently struct {
	rejection *plan.Rejection
	// The UID of a pod with claims of its own. Such pods differ even if their rejections
	// are equal.
	own    string
	spells spelling
}

// ownUID returns the UID of a pod with claims, whose suggestions are not valid for other
// pods with an equal rejection. It is empty for all others.
func ownUID(pod *model.Pod) string {
	if pod.Devices != nil || pod.Volumes != nil && len(pod.Volumes.Claims) > 0 {
		return string(pod.UID)
	}
	return ""
}

type unsorted struct {
	recently
	pod *model.Pod
}

// entry is the stored suggestion for one kind of pods.
type entry struct {
	kind    kind
	pod     *model.Pod // the pod of this kind that was searched for
	element *list.Element
	usedAt  time.Time
	gone    bool
	// waits is set while the entry is in waiting. search is nil until the search begins.
	waits  bool
	search *advice.Search
	// searched is the end of the last search; zero before the first. text is the
	// suggestion that it found, empty if no change helps. At the time tried, the changed
	// pod, with, was verified to be feasible on node.
	searched time.Time
	text     string
	with     *model.Pod
	node     string
	tried    time.Time
	// trying is the time when the running search verified its result so far.
	trying time.Time
}

// Counts are totals so far, and the present sizes.
type Counts struct {
	// Each rejected pod counts once. Given: its event got a suggestion. Nothing: no
	// single change of the pod helps. Unknown: no result yet.
	Given, Nothing, Unknown int64
	// Searches is the number of finished searches, Steps the number of their steps. Spent
	// is their time by the clock, or by counted work without one.
	Searches, Steps int64
	Spent           time.Duration
	// Kinds is the number of stored kinds, including the Waiting ones whose search is
	// pending. Unsorted is the number of rejections whose kind of pod is not determined
	// yet.
	Kinds, Waiting, Unsorted int
}

// New builds a Finder without suggestions.
func New(config Config) *Finder {
	return &Finder{in: ingest.New(config.Compile), now: config.Now, budget: newBudget(), kinds: map[kind]*entry{}, used: list.New(), recent: map[recently]*entry{}}
}

// Counts returns totals so far, and the present sizes.
func (f *Finder) Counts() Counts {
	c := f.counts
	c.Kinds, c.Waiting, c.Unsorted = len(f.kinds), len(f.waiting), len(f.unsorted)
	return c
}

// Rejected returns the sentence for the event about an unschedulable pod; empty if no
// suggestion is stored. It schedules a search for a kind of pod that was not seen lately.
func (f *Finder) Rejected(now time.Time, e *engine.Engine, s *state.State, d *plan.Decision) string {
	if !advisable(d) {
		return ""
	}
	f.budget.earn(now)
	x := f.entryOf(now, d)
	if x == nil {
		f.run(now, e, s)
		x = f.entryOf(now, d)
	}
	if x == nil {
		f.counts.Unknown++
		return ""
	}
	if x.searched.IsZero() {
		f.run(now, e, s)
	}
	text := f.textOf(now, e, s, x)
	if !x.waits && now.Sub(x.searched) >= searchEvery {
		f.await(x)
	}
	f.run(now, e, s)
	if text == "" {
		text = f.textOf(now, e, s, x) // the text may have been found by this run
	}
	switch {
	case text != "":
		f.counts.Given++
	case x.searched.IsZero() || x.waits:
		f.counts.Unknown++
	default:
		f.counts.Nothing++
	}
	return text
}

// advisable reports whether a change of the pod may help. It excludes members of groups,
// and pods that preempt others.
func advisable(d *plan.Decision) bool {
	pod := d.Pod
	return d.Outcome == plan.Unschedulable && d.Group == nil && d.Rejection != nil && d.Rejection.Group == "" && d.Rejection.PreFilter == "" &&
		len(d.Evictions) == 0 && pod.NominatedNode == "" && d.NominationOf(pod).Mode != plan.Set
}

// entryOf returns the stored entry of the pod's kind. It returns nil if the kind is not
// determined yet or the limit is reached; the kind is then determined later.
func (f *Finder) entryOf(now time.Time, d *plan.Decision) *entry {
	pod := d.Pod
	at := recently{d.Rejection, ownUID(pod), spellingOf(pod)}
	x, known := f.recent[at]
	switch {
	case x != nil && !x.gone:
		x.usedAt = now
		f.used.MoveToFront(x.element)
		return x
	case known && x == nil, len(f.unsorted) == maxKinds:
		return nil
	}
	f.unsorted = append(f.unsorted, unsorted{at, pod})
	f.remember(at, nil)
	return nil
}

func (f *Finder) remember(at recently, x *entry) {
	if _, known := f.recent[at]; !known && len(f.recent) == maxRecent {
		maps.DeleteFunc(f.recent, func(_ recently, x *entry) bool { return x != nil })
	}
	f.recent[at] = x
}

// sort determines the kind of the pod that has waited longest for this.
func (f *Finder) sort(now time.Time, e *engine.Engine, s *state.State) {
	next := f.unsorted[0]
	f.unsorted = slices.Delete(f.unsorted, 0, 1)
	if x := f.find(now, e, s, next.pod, next.spells); x != nil {
		f.remember(next.recently, x)
	} else {
		delete(f.recent, next.recently)
	}
}

// find returns the entry of a pod's kind, and adds one with a pending search if none
// exists. It returns nil if the limit of kinds is reached.
func (f *Finder) find(now time.Time, e *engine.Engine, s *state.State, pod *model.Pod, spells spelling) *entry {
	of := kind{spells: spells}
	var alike bool
	f.spend(e, func() { of.shape, alike = e.ShapeOf(s.View(), pod) })
	if !alike || ownUID(pod) != "" {
		if profile := e.Profile(pod.SchedulerName); profile == nil || profile.External != nil || len(profile.Extenders) > 0 {
			return nil // External plugins and extenders cannot be called here.
		}
		of.shape, of.uid, of.needs = engine.Shape{}, string(pod.UID), engine.KindOf(pod)
	}
	if x := f.kinds[of]; x != nil {
		return x
	}
	if !f.makeRoom(now) {
		return nil
	}
	x := &entry{kind: of, pod: pod, usedAt: now}
	x.element = f.used.PushFront(x)
	f.kinds[of] = x
	f.await(x)
	return x
}

// makeRoom drops entries that were not used for maxUnused and, at the limit, the least
// recently used one. Entries with a pending search stay. It reports whether another entry
// fits.
func (f *Finder) makeRoom(now time.Time) bool {
	for back := f.used.Back(); back != nil; back = f.used.Back() {
		x := back.Value.(*entry)
		if x.waits || len(f.kinds) < maxKinds && now.Sub(x.usedAt) < maxUnused {
			break
		}
		x.gone = true
		f.used.Remove(back)
		delete(f.kinds, x.kind)
	}
	return len(f.kinds) < maxKinds
}

func spellingOf(pod *model.Pod) (s spelling) {
	spec := &pod.Object.Spec
	s.selectors, s.containers, s.hostNetwork = len(spec.NodeSelector), len(spec.Containers)+len(spec.InitContainers)<<16, spec.HostNetwork
	s.overheadCPU, s.overheadMemory = amount.Milli(*spec.Overhead.Cpu()), amount.Whole(*spec.Overhead.Memory())
	if affinity := pod.Object.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		if required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			s.terms = len(required.NodeSelectorTerms)
		}
	}
	return s
}

// textOf returns the suggestion for a kind of pods if it was verified recently.
func (f *Finder) textOf(now time.Time, e *engine.Engine, s *state.State, x *entry) string {
	if x.text == "" {
		return ""
	}
	if age := now.Sub(x.tried); age >= freshFor {
		switch {
		case f.budget.affords():
			var fits bool
			f.spend(e, func() { x.node, fits = e.FitsOn(s.View(), x.with, x.node) })
			if !fits {
				x.text, x.with = "", nil
				f.await(x)
				return ""
			}
			x.tried = now
		case age >= maxStale:
			return ""
		}
	}
	return fmt.Sprintf("Would fit on node %s with this change: %s.", x.node, x.text)
}

// await adds an entry to the pending searches.
func (f *Finder) await(x *entry) {
	if !x.waits {
		x.waits = true
		f.waiting = append(f.waiting, x)
	}
}

// Search continues the pending searches.
func (f *Finder) Search(now time.Time, e *engine.Engine, s *state.State) {
	if f.isBusy() {
		f.budget.earn(now)
		f.run(now, e, s)
	}
}

// Next returns the time of the next step; ok is false if no search is pending.
func (f *Finder) Next() (at time.Time, ok bool) {
	if !f.isBusy() {
		return time.Time{}, false
	}
	return f.budget.next(), true
}

// isBusy reports whether any search is pending.
func (f *Finder) isBusy() bool { return len(f.waiting)+len(f.unsorted) > 0 }

// run continues searches while the budget lasts.
func (f *Finder) run(now time.Time, e *engine.Engine, s *state.State) {
	for f.isBusy() && f.budget.affords() {
		// The two take turns, so that searches make progress while new kinds arrive.
		if f.counts.Steps++; len(f.unsorted) > 0 && (len(f.waiting) == 0 || f.counts.Steps%2 == 0) {
			f.sort(now, e, s)
		} else {
			f.step(now, e, s)
		}
	}
}

// step performs the next step of the first pending search.
func (f *Finder) step(now time.Time, e *engine.Engine, s *state.State) {
	x := f.waiting[0]
	if x.search == nil {
		f.spend(e, func() {
			if f.sample.walk(now, s) {
				x.search = advice.NewSearch(advice.Around{State: s, Nodes: f.sample.nodes, In: f.in}, x.asked(), func(pod *model.Pod) (string, bool) { return e.FitsOn(s.View(), pod, "") })
			}
		})
		return
	}
	before, _ := x.search.Found()
	var over bool
	f.spend(e, func() { over = x.search.Step() })
	found, with := x.search.Found()
	if found != before {
		x.trying = now
	}
	if !over {
		return
	}
	f.counts.Searches++
	f.waiting = slices.Delete(f.waiting, 0, 1)
	x.waits, x.searched, x.text, x.with = false, now, "", nil
	switch {
	// The pod was rejected in another state. A new search begins when it is rejected
	// again.
	case x.search.FitsAsIs():
		x.searched = time.Time{}
	case found != nil:
		x.text, x.with, x.node, x.tried = found.Changes[0].Brief(), with, found.Node, x.trying
	}
	x.search = nil
}

// asked returns the pod to search for. If it stands for other pods, its UID is changed to
// a UID that no pod has. By the time another pod gets the suggestion, the pod itself may
// be nominated to the node, and the space of a pod's own nomination counts as free.
func (x *entry) asked() *v1.Pod {
	if x.kind.uid != "" {
		return x.pod.Object
	}
	pod := *x.pod.Object
	pod.UID += "-and-others"
	return &pod
}

// spend runs a function and charges its cost to the budget.
func (f *Finder) spend(e *engine.Engine, do func()) {
	before := e.Counters()
	var began time.Time
	if f.now != nil {
		began = f.now()
	}
	do()
	after := e.Counters()
	cost := costOf(after.Detailed-before.Detailed, after.AskedAside-before.AskedAside)
	if f.now != nil {
		cost = f.now().Sub(began)
	}
	f.counts.Spent += cost
	f.budget.spend(cost)
}
