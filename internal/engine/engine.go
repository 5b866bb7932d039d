package engine

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugins/compiled"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/slab"
	"github.com/berth-scheduler/berth/internal/state"
)

// Config is what an engine needs to be built.
type Config struct {
	// Profiles are the scheduler names it decides for, with their plugins.
	Profiles []*Profile
	// Seed chooses among equally good nodes; the same seed chooses the same.
	Seed uint64
	// ColumnBytes bounds the memory of columns; 0 means DefaultColumnBytes.
	ColumnBytes int
	// OnPhase is called when a phase of a decision begins, unless it is nil: the engine knows no clock, and whoever has one can tell what
	// each phase took. It must not use the engine.
	OnPhase func(Phase)
}

// DefaultColumnBytes holds a thousand needs of a cluster of 30,000 nodes.
const DefaultColumnBytes = 128 << 20

// Engine decides. One goroutine uses it.
type Engine struct {
	profiles map[string]*profile
	columns  columns
	seed     uint64
	scan     scan
	work     Counters
	onPhase  func(Phase)
	// byPlugin is how often each plugin was asked about a node, by its position among all profiles' plugins.
	byPlugin []int64
	places   slab.Slab[plan.Placement]
}

// Counters say how much work decisions took. They only grow.
type Counters struct {
	// Decisions made.
	Decisions int64
	// Asked is how often a plugin was asked about a node; Found how often a column that was needed was there, Filled how many were
	// filled from nothing.
	Asked, Found, Filled int64
	// Visited is how many slots scans looked at.
	Visited int64
}

// profile is a Profile with the positions of its plugins among all profiles' plugins.
type profile struct {
	*Profile
	firstID int32 // of Filters[0]; Scorers follow
}

// New builds an engine. Two profiles of one name are an error.
func New(config Config) (*Engine, error) {
	e := &Engine{profiles: map[string]*profile{}, seed: config.Seed, onPhase: config.OnPhase}
	bytes := config.ColumnBytes
	if bytes == 0 {
		bytes = DefaultColumnBytes
	}
	e.columns = newColumns(bytes)
	var id int32
	for _, p := range config.Profiles {
		if _, ok := e.profiles[p.Name]; ok {
			return nil, fmt.Errorf("profile %q is there twice", p.Name)
		}
		e.profiles[p.Name] = &profile{Profile: p, firstID: id}
		e.scan.layered = append(e.scan.layered, make([]layeredFilter, max(0, len(p.Filters)-len(e.scan.layered)))...)
		id += int32(len(p.Filters) + len(p.Scorers))
	}
	e.byPlugin = make([]int64, id)
	return e, nil
}

// Counters returns the work done so far.
func (e *Engine) Counters() Counters { return e.work }

// Decide says where the pod goes, or why nowhere. It does not change the state.
func (e *Engine) Decide(s *state.State, work plan.Work) plan.Decision {
	e.work.Decisions++
	d := plan.Decision{Work: work, Nodes: s.Nodes()}
	pod := work.Pods[0].Pod
	p, ok := e.profiles[pod.SchedulerName]
	switch {
	case len(work.Pods) > 1:
		e.fail(&d, fmt.Errorf("%d pods are to be decided about together, which is not supported", len(work.Pods)))
	case !ok:
		e.fail(&d, fmt.Errorf("no profile for scheduler name %q", pod.SchedulerName))
	case pod.Terminating:
		d.Outcome = plan.Terminating
	case pod.Malformed != "":
		d.Outcome, d.Rejection = plan.Unschedulable, &plan.Rejection{PreFilter: pod.Malformed}
	case s.Nodes() == 0:
		d.Outcome = plan.NoNodes
		d.Nominations = withdraw(pod)
	default:
		e.decide(s, p, &d, pod)
	}
	return d
}

func (e *Engine) decide(s *state.State, p *profile, d *plan.Decision, pod *model.Pod) {
	e.enter(PreFilter)
	narrowing, rejection, err := e.prepare(s, p, pod)
	switch {
	case err != nil:
		e.fail(d, err)
		return
	case rejection != nil:
		d.Outcome, d.Rejection = plan.Unschedulable, rejection
		return
	}
	e.enter(Filter)
	if slot, ok := e.nominated(s, p, pod); ok {
		d.Feasible = 1
		e.placeOn(s, p, d, slot, 0)
		return
	}
	e.feasible(s, p, pod, narrowing)
	d.Feasible = len(e.scan.slots)
	switch d.Feasible {
	case 0:
		d.Outcome, d.Rejection = plan.Unschedulable, e.reject(s, p, pod, &narrowing)
	case 1:
		e.placeOn(s, p, d, e.scan.slots[0], 0)
	default:
		e.enter(Score)
		slot, total, err := e.best(s, p, pod)
		if err != nil {
			e.fail(d, err)
			return
		}
		e.placeOn(s, p, d, slot, total)
	}
}

// placeOn decides for a node.
func (e *Engine) placeOn(s *state.State, p *profile, d *plan.Decision, slot int32, total int64) {
	placements := e.places.One(plan.Placement{
		QueuedPod: d.Pods[0], NodeName: s.Node(slot).Name(), Total: total, Nodes: d.Nodes, Feasible: d.Feasible,
	})
	for _, r := range p.Reservers {
		if err := r.Reserve(s, &placements[0]); err != nil {
			e.fail(d, fmt.Errorf("running Reserve plugin %q: %w", r.Name(), err))
			return
		}
	}
	if steps := placements[0].Steps; len(steps) > 1 {
		slices.SortStableFunc(steps, func(a, b plan.Step) int { return cmp.Compare(a.Stage, b.Stage) })
	}
	d.Outcome, d.Placements = plan.Placed, placements
}

// Reserver returns the named plugin of a profile, nil if it is none that reserves.
func (e *Engine) Reserver(profile, plugin string) Reserver {
	if p := e.profiles[profile]; p != nil {
		for _, r := range p.Reservers {
			if r.Name() == plugin {
				return r
			}
		}
	}
	return nil
}

// fail ends a decision without an answer.
func (e *Engine) fail(d *plan.Decision, err error) {
	d.Outcome, d.Err = plan.Failed, err
	d.Nominations = withdraw(d.Pods[0].Pod)
}

// withdraw takes back the pod's nomination, if it has one: as in kube-scheduler, it ends with an attempt that gave no answer.
func withdraw(pod *model.Pod) []plan.Nomination {
	if pod.NominatedNode == "" {
		return nil
	}
	return []plan.Nomination{{Pod: pod, Mode: plan.Clear}}
}

// prepare looks at what does not depend on a single node: which nodes are worth looking at, and what the counts of pods ask of a
// node. A rejection rules out every node.
func (e *Engine) prepare(s *state.State, p *profile, pod *model.Pod) (narrowing, *plan.Rejection, error) {
	e.columns.clock++
	n, rejection := p.narrow(s, pod)
	if rejection != nil {
		return n, rejection, nil
	}
	rejection, err := e.layer(s, p, pod)
	return n, rejection, err
}

// layer works out what the counts of pods ask of a node.
func (e *Engine) layer(s *state.State, p *profile, pod *model.Pod) (*plan.Rejection, error) {
	e.scan.layers = e.scan.layers[:0]
	for i, f := range p.Filters {
		layered := &e.scan.layered[i]
		*layered = layeredFilter{}
		if _, ok := f.(LayerFilterer); !ok || pod.Needs[i].IsZero() {
			continue
		}
		layered.need = e.layersOf(p, i, pod)
		first := len(e.scan.layers)
		var text string
		var err error
		if e.scan.layers, text, err = layered.need.Layers(s, e.scan.layers); err != nil {
			return nil, fmt.Errorf("running PreFilter plugin %q: %w", f.Name(), err)
		}
		if text != "" {
			return &plan.Rejection{PreFilter: text, Plugins: []string{f.Name()}}, nil
		}
		layered.first, layered.last = first, len(e.scan.layers)
	}
	for i := range p.Filters {
		layered := &e.scan.layered[i]
		layered.layers = e.scan.layers[layered.first:layered.last]
	}
	return nil, nil
}

// layersOf returns the compiled need of a layer filter.
func (e *Engine) layersOf(p *profile, i int, pod *model.Pod) compiled.Layers {
	key := columnKey{p.firstID + int32(i), pod.Needs[i]}
	l := e.columns.layers[key]
	if l == nil {
		e.columns.makeRoomForCompiled()
		l = &layers{Layers: p.Filters[i].(LayerFilterer).CompileLayers(pod)}
		e.columns.layers[key] = l
	}
	l.used = e.columns.clock
	return l.Layers
}

// nominated returns the node that the pod was promised, if it is still fit for it. It is then taken without a look at
// the others, as in kube-scheduler.
func (e *Engine) nominated(s *state.State, p *profile, pod *model.Pod) (int32, bool) {
	if pod.NominatedNode == "" {
		return 0, false
	}
	slot, ok := s.Slot(pod.NominatedNode)
	if !ok {
		return 0, false
	}
	e.compile(p, pod)
	if promised := s.PromisedBefore(pod, slot); len(promised) > 0 {
		code := e.besidePromised(s, p, pod, slot, promised).code
		e.unpromise(s, p, pod)
		if code != reason.None {
			return slot, false
		}
	}
	_, code := e.firstObjection(s.Node(slot))
	return slot, code == reason.None
}

// filterColumn returns the up-to-date column of filter i of the profile for the pod, or nil when the filter passes everywhere.
func (e *Engine) filterColumn(s *state.State, p *profile, i int, pod *model.Pod) *filterColumn {
	need := pod.Needs[i]
	filterer, ok := p.Filters[i].(ColumnFilterer)
	if !ok || need.IsZero() {
		return nil
	}
	key := columnKey{p.firstID + int32(i), need}
	c := e.columns.filters[key]
	if c == nil {
		e.columns.makeRoom(s.Slots(), e.columns.clock)
		c = &filterColumn{filter: filterer.CompileFilter(pod)}
		c.ask, c.reads = c.filter.Filter, filterer.FilterReads()|model.Presence
		e.columns.filters[key] = c
		e.work.Filled++
	} else {
		e.work.Found++
	}
	c.used = e.columns.clock
	e.asked(key.plugin, c.sync(s))
	return c
}

// scoreColumn returns the up-to-date column of scorer i of the profile for the pod, or nil when the scorer has no say.
func (e *Engine) scoreColumn(s *state.State, p *profile, i int, scorer ColumnScorer, pod *model.Pod) (*scoreColumn, error) {
	at := len(p.Filters) + i
	need := pod.Needs[at]
	if need.IsZero() {
		return nil, nil
	}
	key := columnKey{p.firstID + int32(at), need}
	c := e.columns.scores[key]
	if c == nil {
		asked, err := scorer.CompileScore(pod)
		if err != nil {
			return nil, errPreScore(scorer, err)
		}
		e.columns.makeRoom(s.Slots(), e.columns.clock)
		c = &scoreColumn{scorer: asked}
		c.ask, c.reads = c.scorer.Score, scorer.ScoreReads()|model.Presence
		e.columns.scores[key] = c
		e.work.Filled++
	} else {
		e.work.Found++
	}
	c.used = e.columns.clock
	e.asked(key.plugin, c.sync(s))
	return c, nil
}

// setOf returns the compiled need of a set scorer, or nil when the scorer has no say.
func (e *Engine) setOf(p *profile, i int, scorer SetScorer, pod *model.Pod) (compiled.Set, error) {
	at := len(p.Filters) + i
	if pod.Needs[at].IsZero() {
		return nil, nil
	}
	key := columnKey{p.firstID + int32(at), pod.Needs[at]}
	have := e.columns.sets[key]
	if have == nil {
		asked, err := scorer.CompileSet(pod)
		if err != nil {
			return nil, errPreScore(scorer, err)
		}
		e.columns.makeRoomForCompiled()
		have = &set{Set: asked}
		e.columns.sets[key] = have
	}
	have.used = e.columns.clock
	return have.Set, nil
}

func errPreScore(scorer Scorer, err error) error {
	return fmt.Errorf("running PreScore plugin %q: %w", scorer.Name(), err)
}

// ColumnBytes returns about how many bytes the columns take in a cluster of so many slots.
func (e *Engine) ColumnBytes(slots int) int { return e.Columns() * (columnBytes + valueBytes*slots) }

// Columns returns how many columns the engine keeps.
func (e *Engine) Columns() int { return len(e.columns.filters) + len(e.columns.scores) }
