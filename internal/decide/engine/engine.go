package engine

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine/preempt"
	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Config is the configuration of an engine.
type Config struct {
	// Profiles are the scheduling profiles, one for each scheduler name.
	Profiles []*plugin.Profile
	// Seed decides among equally good nodes. The same seed gives the same choices.
	Seed uint64
	// ColumnBytes bounds the memory of all profiles' columns together; 0 means
	// DefaultColumnBytes.
	ColumnBytes int
	// RankingBytes bounds the memory of rankings; 0 means DefaultRankingBytes.
	RankingBytes int
	// RejectionBytes bounds the memory of remembered rejections; 0 means
	// DefaultRejectionBytes.
	RejectionBytes int
	// Audit is for debugging and tests. The engine decides again whenever a remembered
	// rejection or a ranking answers, and runs the PreFilter plugins that pods skip. The
	// method Audit returns the differences.
	Audit bool
	// GroupRetries bounds the decisions about members of a pod group in other orders,
	// before the group is rejected. 0 means none.
	GroupRetries int
	// OnPhase, unless nil, is called when a phase of a decision begins. The engine has no
	// clock, so the function can measure how long each phase takes. It must not use the
	// engine.
	OnPhase func(Phase)
	// Timing, unless nil, measures the plugins of some decisions.
	Timing Timing
}

// DefaultGroupRetries is enough for sixteen passes over a group of 32.
const DefaultGroupRetries = 512

// DefaultColumnBytes suffices for a thousand needs in a cluster of 30,000 nodes.
const DefaultColumnBytes = 128 << 20

// DefaultRejectionBytes suffices for a thousand shapes in a cluster of 50,000 nodes.
const DefaultRejectionBytes = 64 << 20

// Engine makes decisions. It is not safe for concurrent use.
type Engine struct {
	profiles   map[string]*profile
	columns    columns
	rankings   rankings
	indices    indices
	rejections rejections
	// audits enables the checks of Config.Audit; doubts are the differences found.
	audits  bool
	doubts  []string
	seed    uint64
	retries int
	scratch scratch
	work    Counters
	meter   *price.Meter // of the state that was read last
	onPhase func(Phase)
	// timing measures plugins while sampled is set, which is during a decision.
	timing  Timing
	sampled bool
	// victims is the memory of searches for victims across turns.
	victims preempt.Memory
	// byPlugin counts the nodes that each plugin was called for. The index is the
	// plugin's position among the plugins of all profiles.
	byPlugin []int64
	// unfinished means that a plugin ran out of the turn's budget before a result.
	unfinished bool
	// For tests: maxGroups, unless 0, bounds the groups of a table, and withoutRanking
	// makes every decision scan.
	maxGroups      int32
	withoutRanking bool
	// alwaysIndex builds an index for the first pod, also if an equal pod was seen.
	alwaysIndex bool
}

// scratch is memory that cycles reuse, so that a decision allocates none. The next cycle
// must not read its content.
type scratch struct {
	needs    []model.Need
	own      []plugin.FilterNeed
	counting []plugin.Counting
	here     filters // of the cycle's view
	dry      filters // of a dry run
	again    filters // of a remembered rejection
	versions []uint64
	dryRun   state.Draft
	usage    []int
	use      state.Use // of a node with nominated pods
	slots    []int32   // the feasible slots
	// potential are the slots of nodes where preemption may help. objections is the index
	// of the objection by slot.
	potential  []int32
	objections []uint8
	totals     []int64                 // scores by position in slots
	set        []int64                 // one plugin's scores by position in slots
	shares     []int64                 // normalised score times weight, by raw score
	raw        []int32                 // raw scores by slot, of a view with differences
	turn       map[int32]*turnVerdicts // by the number of the turn filter
	sight      sight
	amounts    amountNeeds
	chunk      []state.NodeAmounts // of a scan of amounts
	axes       []plugin.Axis       // of a Score plugin with Set
	// placement is passed to Reserve and the later extension points, so that the decision
	// itself stays on the stack.
	placement plan.Placement
	// tied are the feasible slots with the highest total. places are their positions in
	// the order that breaks the tie.
	tied   []int32
	places []uint64
	// byPlugin saves Engine.byPlugin while Detail runs.
	byPlugin []int64
}

// Counters measure the work of decisions. They only grow.
type Counters struct {
	// Decisions counts decisions; Recalled counts those answered by a remembered
	// rejection.
	Decisions, Recalled int64
	// Asked counts plugin calls, one for each node. Found counts lookups of existing
	// columns, Filled columns that were built.
	Asked, Found, Filled int64
	// Visited counts slots visited by scans, and to build or update rankings.
	Visited int64
	// Ranked counts decisions by a ranking, without a scan; Grouped the groups visited.
	Ranked, Grouped int64
	// Indexed counts decisions by an index, without a scan.
	Indexed int64
	// Looked counts nodes that PostFilter plugins considered, Rated nodes whose lower
	// bound was computed, Tried nodes on which victims were searched for.
	Looked, Rated, Tried int64
	// Detailed counts slots visited for Detail, FitsOn and ShapeOf. AskedAside counts the
	// plugin calls of these questions. The other counters include neither.
	Detailed, AskedAside int64
}

// profile is a Profile with the numbers of its plugins.
type profile struct {
	*plugin.Profile
	// first is the position of Filters[0] among the plugins of all profiles, as used by
	// Engine.byPlugin. Scores follow.
	first int32
	// ids are the numbers of Filters and Scores, part of the key of a column. Profiles
	// built with the same plugin share its number.
	ids []int32
	// filters is the number of the list of Filters, part of the key of a remembered
	// rejection. Profiles with equal lists share it.
	filters int32
	// stateful are the positions of the filters with NeedIn, in the order in which their
	// needs are computed. varying, counting and turnFilters are those of the filters with
	// Varying, Count and Turn.
	stateful, varying, counting, turnFilters []int
	// scorers are Scores by their kinds.
	scorers []scorer
}

// New builds an engine. Two profiles with the same name are an error.
func New(config Config) (*Engine, error) {
	e := &Engine{profiles: map[string]*profile{}, seed: config.Seed, retries: config.GroupRetries, onPhase: config.OnPhase, timing: config.Timing, audits: config.Audit}
	e.columns = newColumns(cmp.Or(config.ColumnBytes, DefaultColumnBytes))
	e.rankings = rankings{byKey: map[rankKey]*ranking{}, maxBytes: cmp.Or(config.RankingBytes, DefaultRankingBytes)}
	e.indices = indices{byKey: map[rankKey]*indexed{}, recent: map[model.Need]struct{}{}}
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

// Profile returns the profile of a scheduler name, or nil.
func (e *Engine) Profile(schedulerName string) *plugin.Profile {
	if p := e.profiles[schedulerName]; p != nil {
		return p.Profile
	}
	return nil
}

// GroupRetries returns Config.GroupRetries.
func (e *Engine) GroupRetries() int { return e.retries }

// Counters returns the work done so far.
func (e *Engine) Counters() Counters { return e.work }

// Decide returns a placement of a pod, or the reasons why no node is feasible. It ignores
// nodes outside the view's restriction, and does not change the state.
func (e *Engine) Decide(v state.View, m plan.Member) plan.Decision {
	return e.decideBy(v, m, nil, 0)
}

// decideBy is Decide, within a Run unless run is nil. following is the number of equal
// pods that follow this one.
func (e *Engine) decideBy(v state.View, m plan.Member, run *Run, following int) plan.Decision {
	e.work.Decisions++
	v.State().BeginTurn()
	v.Meter().Spend(price.Nodes, decisionUnits)
	d := plan.Decision{Member: m, Nodes: v.ToChooseAmong()}
	pod := m.Pod
	p, ok := e.profiles[pod.SchedulerName]
	switch {
	case !ok:
		fail(&d, fmt.Errorf("no profile for scheduler name %q", pod.SchedulerName))
	case pod.Terminating:
		d.Outcome = plan.Terminating
	case pod.Malformed != "":
		// PostFilter plugins are skipped, because the pod's requirements are unknown.
		// kube-scheduler has no such pods. If a plugin rejects a pod before
		// DynamicResources has run at PreFilter, its PostFilter fails: no pod is evicted,
		// and the nomination stays. Berth has the same result.
		d.Outcome, d.Rejection = plan.Unschedulable, &plan.Rejection{PreFilter: pod.Malformed}
	case v.Nodes() == 0:
		d.Outcome, d.Nominations = plan.NoNodes, clearNomination(pod)
	default:
		e.sampled = e.timing != nil && e.timing.Sample()
		e.decide(v, p, &d, run, following)
		e.sampled = false
		e.endUnfinished(&d)
	}
	return d
}

// decide runs one pod's cycle.
func (e *Engine) decide(v state.View, p *profile, d *plan.Decision, run *Run, following int) {
	if p.External != nil {
		p.External.Begin(v, d.Pod)
		defer p.External.End()
	}
	// 1. PreFilter: everything that can be found out without a node.
	e.enter(PreFilter)
	c, rejection, err := e.preFilter(v, p, d.Pod)
	found := verdict{rejection: rejection}
	if err == nil && rejection == nil {
		if run != nil {
			c.tie = run.Tie
		}
		// 2. The remembered rejection of an equal pod, if it is still true.
		// 3. The best node: of a ranking, or else by Filter and Score of all nodes.
		e.enter(Filter)
		found, err = e.choose(&c, run, following)
	}
	switch d.Feasible = found.feasible; {
	case err != nil:
		fail(d, err)
	case found.feasible > 0:
		// 4. Reserve on the best node.
		e.reserve(&c, d, found.choice)
	default:
		// 5. No node: PostFilter.
		e.noNode(&c, d, &found)
	}
}

// verdict is the result of the first three steps of a decision.
type verdict struct {
	// choice is the best node. Without a feasible node it is zero.
	choice
	// rejection is the result of PreFilter, nil if it did not reject the pod. remembered
	// holds the rejection of an equal pod, nil without one.
	rejection  *plan.Rejection
	remembered *rejected
}

// choose finds the best node or the remembered rejection of a pod.
func (e *Engine) choose(c *cycle, run *Run, following int) (found verdict, err error) {
	if found.remembered = e.recall(c); found.remembered != nil {
		if e.audits {
			e.doubt(c, found.remembered.rejection)
		}
		return found, nil
	}
	e.prepare(c)
	if best, ok := e.chooseForNew(c, following); ok {
		found.choice = best
		return found, nil
	}
	if best, ranked := e.chooseByRank(c, run, following); ranked {
		found.choice = best
		return found, nil
	}
	slots, err := e.filter(c)
	if err != nil || len(slots) == 0 {
		return found, err
	}
	found.choice = choice{slot: slots[0], feasible: len(slots)}
	if len(slots) > 1 {
		e.enter(Score)
		found.slot, found.total, err = e.best(c, slots)
	}
	return found, err
}

// reserve places the pod on the chosen node, unless a plugin refuses it there.
func (e *Engine) reserve(c *cycle, d *plan.Decision, best choice) {
	chosen := &e.scratch.placement
	*chosen = plan.Placement{
		Pod: d.Pod, NodeName: c.view.Node(best.slot).Name(), Total: best.total, Nodes: d.Nodes, Feasible: d.Feasible,
	}
	if err := e.reserveIn(c.profile, c.view, chosen, best.slot); err != nil {
		e.refuse(c.profile, d, chosen, err)
		return
	}
	d.Outcome, d.Placement = plan.Placed, *chosen
}

// noNode rejects a pod without a feasible node, and runs the PostFilter plugins.
func (e *Engine) noNode(c *cycle, d *plan.Decision, found *verdict) {
	d.Outcome = plan.Unschedulable
	switch {
	case found.rejection != nil:
		d.Rejection = found.rejection
		e.postFilter(c, d, nil)
	case found.remembered != nil:
		d.Rejection = found.remembered.rejection
		e.postFilterAgain(c, d, found.remembered)
	default:
		var counts objectionCounts
		if d.Rejection, counts = e.reject(c); e.unfinished {
			return
		}
		if len(c.profile.turnFilters) > 0 {
			if err := c.failureIn(&counts); err != nil {
				fail(d, err)
				return
			}
		}
		e.postFilter(c, d, &counts)
	}
}

// fail ends a decision with an error, or leaves it unfinished.
func fail(d *plan.Decision, err error) {
	if errors.Is(err, plugin.ErrUnfinished) {
		*d = plan.Decision{Member: d.Member, Outcome: plan.Unfinished, Nodes: d.Nodes}
		return
	}
	d.Outcome, d.Err = plan.Failed, err
	d.Nominations = clearNomination(d.Pod)
}

// clearNomination removes the pod's nomination, if any. In kube-scheduler, too, an
// attempt that fails with an error ends the nomination.
func clearNomination(pod *model.Pod) []plan.Nomination {
	if pod.NominatedNode == "" {
		return nil
	}
	return []plan.Nomination{{Pod: pod, Mode: plan.Clear}}
}
