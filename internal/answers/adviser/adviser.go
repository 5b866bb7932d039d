package adviser

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

// Config is the configuration of an Adviser.
type Config struct {
	// Compile is how pods of each scheduler name are compiled.
	Compile map[string]ingest.Compile
	// Now is a steady clock by which searches are measured. Without one they cost what their work is counted to, so that a simulation is deterministic.
	Now func() time.Time
}

const (
	// kindsMax is of how many kinds of pods advice is kept; that which is not asked for any more goes after unusedMax.
	kindsMax  = 1024
	unusedMax = 30 * time.Minute
	// recentMax is for how many rejections it is remembered of which kind the pods are, or that this is not known yet.
	recentMax = 4 * kindsMax
	// Advice is given as it is for freshFor after it was tried, then tried again. If there is no time for that it is given until staleMax. Another search begins after searchEvery, as there may be a lesser change by then.
	freshFor    = 10 * time.Second
	staleMax    = time.Minute
	searchEvery = 10 * time.Minute
)

// Adviser is a loop.Adviser. The goroutine of the loop is its only user.
type Adviser struct {
	in     *ingest.Ingest // compiles pods, and nothing else
	now    func() time.Time
	budget budget
	// Invariant: each entry is in kinds under its kind, and in used, that which was used last first; waiting has those that wait for a search or are searched for, in their order.
	kinds   map[kind]*entry
	used    *list.List
	waiting []*entry
	// recent are entries by a rejection of pods of their kind: the engine gives equal pods the same rejection. It is nil for one that waits in unsorted, which has pods, at most kindsMax, of which it is not known yet of which kind they are.
	recent   map[recently]*entry
	unsorted []unsorted
	sample   sample
	counts   Counts
}

// kind is equal for pods that have the same verdicts, and demand the same in the same way.
type kind struct {
	shape engine.Shape
	// uid is that of a pod that is a kind by itself, needs are what it asks for, which may change.
	uid    string
	needs  engine.Kind
	spells spelling
}

// spelling tells pods apart that demand the same in different ways, since advice says what to change.
type spelling struct {
	selectors, terms, containers int
	overheadCPU, overheadMemory  int64 // in thousandths of a cpu, in bytes
	hostNetwork                  bool
}

type recently struct {
	rejection *plan.Rejection
	own       string // the UID of a pod with claims of its own, as equal rejections do not make these equal
	spells    spelling
}

// ownUID returns the UID of a pod with claims, of which nothing is true of another pod that is rejected alike; empty for all others.
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

// entry is what is known of a kind of pods.
type entry struct {
	kind    kind
	pod     *model.Pod // one of them, for which was searched
	element *list.Element
	usedAt  time.Time
	gone    bool
	// waits says that it is in waiting. search is nil before it has begun.
	waits  bool
	search *advice.Search
	// searched is when the last search ended, zero before. text is what it has found, empty if nothing: the pod would be with then, and go to node, as was true at tried.
	searched time.Time
	text     string
	with     *model.Pod
	node     string
	tried    time.Time
	// trying is when what the present search has found was tried.
	trying time.Time
}

// Counts are how often something happened so far, and what is kept now.
type Counts struct {
	// Of decisions that a pod has no node, Given got advice; for Nothing it is known that no single change of the pod helps; of the others, Unknown, it is not known yet.
	Given, Nothing, Unknown int64
	// Searches have ended, which took Steps, and Spent by the clock, or as counted without one.
	Searches, Steps int64
	Spent           time.Duration
	// Kinds is of how many kinds of pods something is kept, or looked for; Waiting are the latter. Of Unsorted rejections it is not known yet of which kind their pods are.
	Kinds, Waiting, Unsorted int
}

// New builds an adviser that knows nothing.
func New(config Config) *Adviser {
	return &Adviser{in: ingest.New(config.Compile), now: config.Now, budget: newBudget(), kinds: map[kind]*entry{}, used: list.New(), recent: map[recently]*entry{}}
}

// Counts returns what happened so far, and what is kept.
func (a *Adviser) Counts() Counts {
	c := a.counts
	c.Kinds, c.Waiting, c.Unsorted = len(a.kinds), len(a.waiting), len(a.unsorted)
	return c
}

// Rejected returns the sentence for the event about a pod that has no node, empty if none is known. A search begins for a kind of pod that was not seen lately.
func (a *Adviser) Rejected(now time.Time, e *engine.Engine, s *state.State, d *plan.Decision) string {
	if !advisable(d) {
		return ""
	}
	a.budget.earn(now)
	x := a.entryOf(now, d)
	if x == nil {
		a.run(now, e, s)
		x = a.entryOf(now, d)
	}
	if x == nil {
		a.counts.Unknown++
		return ""
	}
	if x.searched.IsZero() {
		a.run(now, e, s)
	}
	text := a.textOf(now, e, s, x)
	if !x.waits && now.Sub(x.searched) >= searchEvery {
		a.await(x)
	}
	a.run(now, e, s)
	if text == "" {
		text = a.textOf(now, e, s, x) // what was just found
	}
	switch {
	case text != "":
		a.counts.Given++
	case x.searched.IsZero() || x.waits:
		a.counts.Unknown++
	default:
		a.counts.Nothing++
	}
	return text
}

// advisable reports whether a change of the pod may be what it needs: its group is not in question, nor do pods make room for it.
func advisable(d *plan.Decision) bool {
	pod := d.Pods[0].Pod
	return d.Outcome == plan.Unschedulable && len(d.Pods) == 1 && d.Group == nil && d.Rejection != nil && d.Rejection.Group == "" && d.Rejection.PreFilter == "" &&
		len(d.Evictions) == 0 && pod.NominatedNode == "" && d.NominationOf(pod).Mode != plan.Set
}

// entryOf returns what is known of the pod's kind, nil if it is not known which that is, or there is no room for it. Then that is found out when there is time.
func (a *Adviser) entryOf(now time.Time, d *plan.Decision) *entry {
	pod := d.Pods[0].Pod
	at := recently{d.Rejection, ownUID(pod), spellingOf(pod)}
	x, known := a.recent[at]
	switch {
	case x != nil && !x.gone:
		x.usedAt = now
		a.used.MoveToFront(x.element)
		return x
	case known && x == nil, len(a.unsorted) == kindsMax:
		return nil
	}
	a.unsorted = append(a.unsorted, unsorted{at, pod})
	a.remember(at, nil)
	return nil
}

func (a *Adviser) remember(at recently, x *entry) {
	if _, known := a.recent[at]; !known && len(a.recent) == recentMax {
		maps.DeleteFunc(a.recent, func(_ recently, x *entry) bool { return x != nil })
	}
	a.recent[at] = x
}

// sort finds out of which kind the pod is that has waited for that the longest.
func (a *Adviser) sort(now time.Time, e *engine.Engine, s *state.State) {
	next := a.unsorted[0]
	a.unsorted = slices.Delete(a.unsorted, 0, 1)
	if x := a.find(now, e, s, next.pod, next.spells); x != nil {
		a.remember(next.recently, x)
	} else {
		delete(a.recent, next.recently)
	}
}

// find returns what is known of a pod's kind, and has it searched for if that is nothing; nil if there is no room for it.
func (a *Adviser) find(now time.Time, e *engine.Engine, s *state.State, pod *model.Pod, spells spelling) *entry {
	of := kind{spells: spells}
	var alike bool
	a.spend(e, func() { of.shape, alike = e.ShapeOf(s.View(), pod) })
	if !alike || ownUID(pod) != "" {
		if profile := e.Profile(pod.SchedulerName); profile == nil || profile.Outside != nil || len(profile.Extenders) > 0 {
			return nil // nobody can be asked
		}
		of.shape, of.uid, of.needs = engine.Shape{}, string(pod.UID), engine.KindOf(pod)
	}
	if x := a.kinds[of]; x != nil {
		return x
	}
	if !a.makeRoom(now) {
		return nil
	}
	x := &entry{kind: of, pod: pod, usedAt: now}
	x.element = a.used.PushFront(x)
	a.kinds[of] = x
	a.await(x)
	return x
}

// makeRoom forgets what was not used for long, and if there are too many kinds that which was used last the longest ago. It reports whether there is room for another: what is looked for stays.
func (a *Adviser) makeRoom(now time.Time) bool {
	for back := a.used.Back(); back != nil; back = a.used.Back() {
		x := back.Value.(*entry)
		if x.waits || len(a.kinds) < kindsMax && now.Sub(x.usedAt) < unusedMax {
			break
		}
		x.gone = true
		a.used.Remove(back)
		delete(a.kinds, x.kind)
	}
	return len(a.kinds) < kindsMax
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

// textOf returns the advice for a kind of pods, as far as it was true lately.
func (a *Adviser) textOf(now time.Time, e *engine.Engine, s *state.State, x *entry) string {
	if x.text == "" {
		return ""
	}
	if age := now.Sub(x.tried); age >= freshFor {
		switch {
		case a.budget.affords():
			var fits bool
			a.spend(e, func() { x.node, fits = e.FitsOn(s.View(), x.with, x.node) })
			if !fits {
				x.text, x.with = "", nil
				a.await(x)
				return ""
			}
			x.tried = now
		case age >= staleMax:
			return ""
		}
	}
	return fmt.Sprintf("Would fit on node %s with this change: %s.", x.node, x.text)
}

// await has a kind of pods searched for when its turn comes.
func (a *Adviser) await(x *entry) {
	if !x.waits {
		x.waits = true
		a.waiting = append(a.waiting, x)
	}
}

// Search goes on with the searches that have begun.
func (a *Adviser) Search(now time.Time, e *engine.Engine, s *state.State) {
	if a.isBusy() {
		a.budget.earn(now)
		a.run(now, e, s)
	}
}

// Next returns when there is time for another step.
func (a *Adviser) Next() (at time.Time, ok bool) {
	if !a.isBusy() {
		return time.Time{}, false
	}
	return a.budget.next(), true
}

// isBusy reports whether there is anything to look for.
func (a *Adviser) isBusy() bool { return len(a.waiting)+len(a.unsorted) > 0 }

// run searches as long as there is time.
func (a *Adviser) run(now time.Time, e *engine.Engine, s *state.State) {
	for a.isBusy() && a.budget.affords() {
		if a.counts.Steps++; len(a.unsorted) > 0 && (len(a.waiting) == 0 || a.counts.Steps%2 == 0) { // by turns, so that searches go on while ever new kinds come
			a.sort(now, e, s)
		} else {
			a.step(now, e, s)
		}
	}
}

// step does the next thing for the kind of pods whose turn it is.
func (a *Adviser) step(now time.Time, e *engine.Engine, s *state.State) {
	x := a.waiting[0]
	if x.search == nil {
		a.spend(e, func() {
			if a.sample.walk(now, s) {
				x.search = advice.NewSearch(advice.Around{State: s, Nodes: a.sample.nodes, In: a.in}, x.asked(), func(pod *model.Pod) (string, bool) { return e.FitsOn(s.View(), pod, "") })
			}
		})
		return
	}
	before, _ := x.search.Found()
	var over bool
	a.spend(e, func() { over = x.search.Step() })
	found, with := x.search.Found()
	if found != before {
		x.trying = now
	}
	if !over {
		return
	}
	a.counts.Searches++
	a.waiting = slices.Delete(a.waiting, 0, 1)
	x.waits, x.searched, x.text, x.with = false, now, "", nil
	switch {
	case x.search.FitsAsIs(): // it was rejected in another state, and what would help in that is looked for when it is rejected again
		x.searched = time.Time{}
	case found != nil:
		x.text, x.with, x.node, x.tried = found.Changes[0].Brief(), with, found.Node, x.trying
	}
	x.search = nil
}

// asked returns the pod for which is searched. If it stands for others it has a UID that no pod has: by the time that one of them is told what was found, the pod itself may be nominated to the node, and
// a pod's own nomination takes no room from it.
func (x *entry) asked() *v1.Pod {
	if x.kind.uid != "" {
		return x.pod.Object
	}
	pod := *x.pod.Object
	pod.UID += "-and-others"
	return &pod
}

// spend does something and takes its cost from the budget.
func (a *Adviser) spend(e *engine.Engine, do func()) {
	before := e.Counters()
	var began time.Time
	if a.now != nil {
		began = a.now()
	}
	do()
	after := e.Counters()
	cost := costOf(after.Detailed-before.Detailed, after.AskedAside-before.AskedAside)
	if a.now != nil {
		cost = a.now().Sub(began)
	}
	a.counts.Spent += cost
	a.budget.spend(cost)
}
