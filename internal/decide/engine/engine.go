package engine

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/kit/slab"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Config is the configuration of an engine.
type Config struct {
	// Profiles are the profiles that it decides for, one for each scheduler name.
	Profiles []*plugin.Profile
	// Seed decides among equally good nodes; the same seed gives the same choices.
	Seed uint64
	// ColumnBytes bounds the memory of columns, those of all profiles together; 0 means DefaultColumnBytes.
	ColumnBytes int
	// RankingBytes bounds the memory of rankings; 0 means DefaultRankingBytes.
	RankingBytes int
	// RejectionBytes bounds the memory of remembered rejections; 0 means DefaultRejectionBytes.
	RejectionBytes int
	// Audit means that the engine decides again whenever it has a remembered rejection or a ranking, and runs the PreFilter plugins that pods skip; the method
	// Audit returns how they differ. It is for debugging and tests.
	Audit bool
	// GroupRetries is how many decisions about members of a pod group may be made in other orders before the group is rejected; 0 means none.
	GroupRetries int
	// OnPhase, unless nil, is called when a phase of a decision begins. The engine has no clock; the function can measure how long each phase
	// takes. It must not use the engine.
	OnPhase func(Phase)
}

// DefaultGroupRetries is enough for sixteen passes over a group of 32.
const DefaultGroupRetries = 512

// DefaultColumnBytes suffices for a thousand needs in a cluster of 30,000 nodes.
const DefaultColumnBytes = 128 << 20

// DefaultRejectionBytes suffices for a thousand shapes of pods in a cluster of 50,000 nodes.
const DefaultRejectionBytes = 64 << 20

// Engine decides. One goroutine uses it.
type Engine struct {
	profiles   map[string]*profile
	columns    columns
	rankings   rankings
	rejections rejections
	// audits means that remembered rejections are decided again. doubts are the differences that were found.
	audits  bool
	doubts  []string
	seed    uint64
	retries int
	scratch scratch
	work    Counters
	meter   *price.Meter // of the state that was read last
	onPhase func(Phase)
	// kept is what PostFilter plugins keep from one turn to the next, by plugin.
	kept map[string]any
	// byPlugin is for how many nodes each plugin was called, by its position among all profiles' plugins.
	byPlugin   []int64
	placements slab.Slab[plan.Placement]
	// unfinished says that a plugin could not find something out within the budget of the turn.
	unfinished bool
	// mostGroups, unless it is 0, is how many groups a table may have, in tests. withoutRanking has all pods scanned for, there too.
	mostGroups     int32
	withoutRanking bool
}

// scratch is memory that cycles reuse, so that a decision allocates none. Its content is meaningless to the next cycle.
type scratch struct {
	needs    []model.Need
	own      []plugin.FilterNeed
	counting []plugin.Counting
	here     filters // of the cycle's view
	dry      filters // of a dry run
	again    filters // of a rejection that was remembered
	versions []uint64
	dryRun   state.Draft
	usage    []int
	use      state.Use // of a node with nominated pods
	slots    []int32   // the feasible slots
	// potential are the slots of nodes whose rejection evicting pods may resolve, objections the objections by slot.
	potential  []int32
	objections []uint8
	totals     []int64                 // their scores, by position in slots
	set        []int64                 // one plugin's scores, by position in slots
	shares     []int64                 // normalised score times weight, by raw score
	raw        []int32                 // raw scores by slot, of a view with differences
	turn       map[int32]*turnVerdicts // by the number of the TurnFilter
	sight      sight
	axes       []plugin.Axis // of a SetScore plugin
	// tied are the feasible slots with the highest total, places their places in the order from which one is chosen.
	tied   []int32
	places []uint64
	// byPlugin is what Engine.byPlugin was before Detail.
	byPlugin []int64
}

// Counters measure the work of decisions. They only grow.
type Counters struct {
	// Decisions made; Recalled is how many of them were rejections that were remembered.
	Decisions, Recalled int64
	// Asked is for how many nodes plugins were called; Found how often a needed column existed, Filled how often one was filled from nothing.
	Asked, Found, Filled int64
	// Visited is how many slots were visited, by scans and to make rankings or bring them up to date.
	Visited int64
	// Ranked is how many decisions were made by a ranking, without a scan; Grouped how many groups these looked at.
	Ranked, Grouped int64
	// Looked is how many nodes PostFilter plugins looked at to know which to try, Rated how many they rated by numbers, Tried on how many they tried which pods to evict.
	Looked, Rated, Tried int64
	// Detailed is how many slots were visited for Detail, FitsOn and ShapeOf, AskedAside for how many nodes these called plugins; no other counter has either.
	Detailed, AskedAside int64
}

// filterAt is a filter of a kind, and its position in the profile.
type filterAt[T plugin.Filter] struct {
	at     int
	filter T
}

// nodeReader is a filter that says what its verdict on a node depends on.
type nodeReader interface{ FilterReads() model.Aspect }

// profile is a Profile with the numbers of its plugins.
type profile struct {
	*plugin.Profile
	// first is the position of Filters[0] among the plugins of all profiles, by which they are measured; Scores follow.
	first int32
	// ids are the numbers of Filters and Scores, by which they find columns. Profiles that are built with the same plugin share its number.
	ids []int32
	// filters is the number of the list of Filters, by which it finds remembered rejections. Profiles with equal lists share it.
	filters int32
	// readers are the filters that say what they read of a node, and have columns; nil where another one is.
	readers []nodeReader
	// stateful are the StateFilters, in the order in which their needs are worked out.
	stateful []filterAt[plugin.StateFilter]
	varying  []filterAt[plugin.VaryingFilter]
	// counts are the filters that are CountFilters, nil where another one is. counting are their positions.
	counts   []plugin.CountFilter
	counting []int
	// turn are the filters that are TurnFilters, nil where another one is. turnFilters are their positions.
	turn        []plugin.TurnFilter
	turnFilters []int
	// scorers are Scores by their kinds.
	scorers []scorer
}

// New builds an engine. Two profiles with the same name are an error.
func New(config Config) (*Engine, error) {
	e := &Engine{profiles: map[string]*profile{}, seed: config.Seed, retries: config.GroupRetries, onPhase: config.OnPhase, audits: config.Audit, kept: map[string]any{}}
	e.columns = newColumns(cmp.Or(config.ColumnBytes, DefaultColumnBytes))
	e.rankings = rankings{byKey: map[rankKey]*ranking{}, maxBytes: cmp.Or(config.RankingBytes, DefaultRankingBytes)}
	e.rejections = rejections{byShape: map[shape]*rejected{}, maxBytes: cmp.Or(config.RejectionBytes, DefaultRejectionBytes)}
	known := newNumbers()
	var plugins int32
	for _, p := range config.Profiles {
		if _, ok := e.profiles[p.Name]; ok {
			return nil, fmt.Errorf("profile %q is there twice", p.Name)
		}
		e.profiles[p.Name] = known.profile(p, plugins)
		plugins += int32(len(p.Filters) + len(p.Scores))
	}
	e.byPlugin = make([]int64, plugins)
	return e, nil
}

// Profile returns the profile of a scheduler name, nil if there is none.
func (e *Engine) Profile(schedulerName string) *plugin.Profile {
	if p := e.profiles[schedulerName]; p != nil {
		return p.Profile
	}
	return nil
}

// GroupRetries returns how many decisions about members of a pod group may be made in other orders before the group is rejected.
func (e *Engine) GroupRetries() int { return e.retries }

// Counters returns the work done so far.
func (e *Engine) Counters() Counters { return e.work }

// Decide decides on which nodes of the view the pods of a work go, or why on none. Nodes outside of the view's restriction are not looked at. It does not change the state.
func (e *Engine) Decide(v state.View, work plan.Work) plan.Decision {
	return e.decideBy(v, work, nil, 0)
}

// decideBy is Decide, in a Run unless it is nil; following is how many pods equal to this one follow.
func (e *Engine) decideBy(v state.View, work plan.Work, run *Run, following int) plan.Decision {
	e.work.Decisions++
	v.State().BeginTurn()
	v.Meter().Spend(price.Nodes, decisionUnits)
	d := plan.Decision{Work: work, Nodes: v.ToChooseAmong()}
	pod := work.Pods[0].Pod
	p, ok := e.profiles[pod.SchedulerName]
	switch {
	case len(work.Pods) > 1:
		fail(&d, fmt.Errorf("%d pods are to be decided about together, which is not supported", len(work.Pods)))
	case !ok:
		fail(&d, fmt.Errorf("no profile for scheduler name %q", pod.SchedulerName))
	case pod.Terminating:
		d.Outcome = plan.Terminating
	case pod.Malformed != "":
		// PostFilter plugins are not run, as it is not known what would have to be free. kube-scheduler has no such pods. It runs them only for pods that
		// plugins have rejected; where that was before DynamicResources ran at PreFilter, this fails, so that nobody is evicted and the nomination stays.
		d.Outcome, d.Rejection = plan.Unschedulable, &plan.Rejection{PreFilter: pod.Malformed}
	case v.Nodes() == 0:
		d.Outcome, d.Nominations = plan.NoNodes, clearNomination(pod)
	default:
		e.decide(v, p, &d, run, following)
		e.endUnfinished(&d)
	}
	return d
}

// decide runs one pod's cycle.
func (e *Engine) decide(v state.View, p *profile, d *plan.Decision, run *Run, following int) {
	if p.Outside != nil {
		p.Outside.Begin(v, d.Pods[0].Pod)
		defer p.Outside.End()
	}
	e.enter(PreFilter)
	c, rejection, err := e.preFilter(v, p, d.Pods[0].Pod)
	if err != nil {
		fail(d, err)
		return
	}
	if run != nil {
		c.tie = run.Tie
	}
	if rejection != nil {
		d.Outcome, d.Rejection = plan.Unschedulable, rejection
		e.postFilter(&c, d, nil)
		return
	}
	e.enter(Filter)
	if r := e.recall(&c); r != nil {
		if e.audits {
			e.doubt(&c, r.rejection)
		}
		d.Outcome, d.Rejection = plan.Unschedulable, r.rejection
		e.postFilterAgain(&c, d, r)
		return
	}
	e.prepare(&c)
	best, ranked := e.chooseByRank(&c, run, following)
	if ranked && best.feasible > 0 {
		d.Feasible = best.feasible
		e.conclude(&c, d, best.slot, best.total)
		return
	}
	var slots []int32
	if !ranked {
		if slots, err = e.filter(&c); err != nil {
			fail(d, err)
			return
		}
	}
	if d.Feasible = len(slots); d.Feasible == 0 {
		var counts objectionCounts
		d.Outcome = plan.Unschedulable
		if d.Rejection, counts = e.reject(&c); e.unfinished {
			return
		}
		if len(p.turnFilters) > 0 {
			if err := c.failureIn(&counts); err != nil {
				fail(d, err)
				return
			}
		}
		e.postFilter(&c, d, &counts)
		return
	}
	slot, total := slots[0], int64(0)
	if len(slots) > 1 {
		e.enter(Score)
		if slot, total, err = e.best(&c, slots); err != nil {
			fail(d, err)
			return
		}
	}
	e.conclude(&c, d, slot, total)
}

// conclude places the pod on the node that was chosen, unless a plugin refuses it there.
func (e *Engine) conclude(c *cycle, d *plan.Decision, slot int32, total int64) {
	placements := e.placements.One(plan.Placement{
		QueuedPod: d.Pods[0], NodeName: c.view.Node(slot).Name(), Total: total, Nodes: d.Nodes, Feasible: d.Feasible,
	})
	if err := c.profile.reserve(c.view, &placements[0], slot); err != nil {
		e.refuse(c.profile, d, &placements[0], err)
		return
	}
	d.Outcome, d.Placements = plan.Placed, placements
}

// fail ends a decision with an error, or leaves it unfinished.
func fail(d *plan.Decision, err error) {
	if errors.Is(err, plugin.ErrUnfinished) {
		*d = plan.Decision{Work: d.Work, Outcome: plan.Unfinished, Nodes: d.Nodes}
		return
	}
	d.Outcome, d.Err = plan.Failed, err
	d.Nominations = clearNomination(d.Pods[0].Pod)
}

// clearNomination removes the pod's nomination, if it has one: as in kube-scheduler, an attempt that fails with an error ends it.
func clearNomination(pod *model.Pod) []plan.Nomination {
	if pod.NominatedNode == "" {
		return nil
	}
	return []plan.Nomination{{Pod: pod, Mode: plan.Clear}}
}
