package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine/rank"
	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// postFilter runs the PostFilter plugins, in order, until one ends the chain, usually
// after it found victims. counts are the objections to the nodes, nil if PreFilter
// rejected the pod.
//
// The pod is rejected in this turn in any case; an error is part of the rejection's text.
// passing means that the result is valid in this turn only.
func (e *Engine) postFilter(of *cycle, d *plan.Decision, counts *objectionCounts) (passing bool) {
	if d.Group != nil { // a change that helps a member alone need not help its group
		return false
	}
	if d.Rejection.Kept { // no pod is evicted for space that exists but is held
		endNomination(of.view, of.pod, d)
		return false
	}
	if len(of.profile.PostFilters) == 0 {
		d.Nominations = clearNomination(of.pod)
		return false
	}
	e.enter(PostFilter)
	own := *of // a copy, so that cycles of placed pods stay on the stack
	c := &postFilterCycle{engine: e, cycle: &own, counts: counts, rejection: d.Rejection}
	if counts != nil || own.open {
		e.prepare(c.cycle) // a remembered rejection needed no filters
	}
	var texts []string
	var last plugin.PostFilterResult // the last result that changes the nomination
	for i, p := range own.profile.PostFilters {
		if i > 0 {
			own.renominate() // the plugin before may have nominated pods
		}
		result, err := p.PostFilter(c, own.pod)
		if err != nil {
			d.PostFilter, d.PostFilterErr = err.Error(), err
			return true
		}
		passing = passing || result.Passing
		d.Writes = append(d.Writes, result.Writes...)
		if result.Nomination != plan.Keep {
			last = result
		}
		if result.Message != "" {
			texts = append(texts, result.Message)
		}
		if result.Done {
			last, texts = result, []string{result.Message}
			break
		}
	}
	d.PostFilter, d.Evictions = strings.Join(texts, ", "), last.Evictions
	switch last.Nomination {
	case plan.Set:
		d.Nominations = []plan.Nomination{{Pod: own.pod, Mode: plan.Set, NodeName: last.NodeName}}
	case plan.Clear:
		d.Nominations = clearNomination(own.pod)
	}
	for _, pod := range last.Outranked {
		d.Nominations = append(d.Nominations, plan.Nomination{Pod: pod, Mode: plan.Clear})
	}
	return passing
}

// endNomination ends the nomination of a pod that leaves space to a group, as for a pod
// without possible victims. Otherwise other pods would leave space on a node that this
// pod does not use. While a victim is still leaving the node, the pod keeps the
// nomination.
func endNomination(v state.View, pod *model.Pod, d *plan.Decision) {
	if slot, ok := v.Slot(pod.NominatedNode); ok {
		for other := range v.PodsOn(slot) {
			if other.Priority < pod.Priority && v.IsLeaving(other) {
				return
			}
		}
	}
	d.Nominations = clearNomination(pod)
}

// ShowTurn passes the turn of a pod up to its filters to see, in the form that PostFilter
// plugins get, whether or not a node is feasible. It skips turns that end before any
// plugin runs. The error is a PreFilter plugin's.
func (e *Engine) ShowTurn(v state.View, pod *model.Pod, see func(plugin.Cycle)) error {
	if pod.Malformed != "" || v.Nodes() == 0 {
		return nil
	}
	v.State().BeginTurn()
	p, ok := e.profiles[pod.SchedulerName]
	if !ok {
		return fmt.Errorf("no profile for scheduler name %q", pod.SchedulerName)
	}
	c, rejection, err := e.preFilter(v, p, pod)
	if err != nil {
		return err
	}
	shown := &postFilterCycle{engine: e, cycle: &c, rejection: rejection}
	if rejection == nil {
		shown.counts = &objectionCounts{}
	}
	if rejection == nil || c.open {
		e.prepare(&c)
	}
	see(shown)
	return nil
}

// nothingHelps caches the result of PostFilter plugins that found nothing to do for pods
// of a remembered rejection.
type nothingHelps struct {
	text     string
	priority int32
	never    bool // the pods must not preempt
	// versions are those of the rejection at that time.
	versions state.Versions
	known    bool
}

// postFilterAgain runs the PostFilter plugins for a pod of a remembered rejection. It
// skips them if they found nothing to do for an equal pod and nothing has changed since.
// So a wave of equal pods costs one search. Pods with objects of their own that matter
// are not equal.
func (e *Engine) postFilterAgain(c *cycle, d *plan.Decision, r *rejected) {
	if d.Group != nil { // a change that helps a member alone need not help its group
		return
	}
	if d.Rejection.Kept {
		endNomination(c.view, c.pod, d)
		return
	}
	had := &r.nothingHelps
	own := c.profile.looksAtOwn(c.view, c.pod)
	same := !own && had.known && had.versions == r.versions && had.priority == c.pod.Priority && had.never == c.pod.NeverPreempts()
	if same && !e.audits {
		e.enter(PostFilter)
		d.PostFilter = had.text
		return
	}
	// a plugin that failed has no result
	passing := e.postFilter(c, d, &r.objectionCounts)
	if e.unfinished {
		*had = nothingHelps{}
		return
	}
	nothing := len(d.Evictions) == 0 && len(d.Writes) == 0 && len(d.Nominations) == 0 && !passing
	if same && (!nothing || d.PostFilter != had.text) {
		e.doubts = append(e.doubts, fmt.Sprintf("what PostFilter plugins say about pod %s was remembered as %q; now it is %q", c.pod, had.text, d.PostFilter))
	}
	*had = nothingHelps{d.PostFilter, c.pod.Priority, c.pod.NeverPreempts(), r.versions, nothing && !own}
}

// looksAtOwn reports whether a PostFilter plugin's result depends on objects of the pod's
// own.
func (p *profile) looksAtOwn(v state.View, pod *model.Pod) bool {
	return slices.ContainsFunc(p.PostFilters, func(f plugin.PostFilter) bool {
		own, ok := f.(plugin.OwnPostFilter)
		return ok && own.LooksAtOwn(v, pod)
	})
}

// postFilterCycle is the plugin.Cycle of PostFilter plugins.
type postFilterCycle struct {
	engine *Engine
	cycle  *cycle
	// counts are the objections to the nodes, nil if PreFilter rejected the pod.
	counts *objectionCounts
	// rejection is the result of the filters, or of PreFilter.
	rejection *plan.Rejection
	// use is a node's usage with the nominated pods. It is unset if nominated is empty.
	use       state.Use
	nominated []*model.Pod
	salt      uint64
}

var _ plugin.Cycle = (*postFilterCycle)(nil)

// View returns the view of the cycle.
func (p *postFilterCycle) View() state.View { return p.cycle.view }

// Extenders returns the extenders of the profile.
func (p *postFilterCycle) Extenders() []plugin.Extender { return p.cycle.profile.Extenders }

// PreFiltered reports whether the plugin has run at PreFilter: it is in the order, and no
// earlier plugin rejected the pod.
func (p *postFilterCycle) PreFiltered(name string) bool {
	order := p.cycle.profile.PreFilterOrder
	at := slices.Index(order, name)
	// a rejection that preemption may resolve does not end the chain
	if at < 0 || p.counts != nil || p.cycle.open {
		return at >= 0
	}
	// if several plugins together left no node, the last of them rejected the pod
	last := -1
	for _, by := range p.rejection.Plugins {
		last = max(last, slices.Index(order, by))
	}
	return last < 0 || at <= last
}

// Alike returns the key and the versions that objections in dry runs depend on.
func (p *postFilterCycle) Alike() (plugin.Alike, bool) {
	c := p.cycle
	s, ok := shapeOf(c)
	if !ok || p.counts == nil {
		return plugin.Alike{}, false
	}
	now := p.engine.versionsFor(c)
	versions, ok := c.ruleVersions([]uint64{now.Terms, now.DefaultSelectors, now.Devices})
	return plugin.Alike{Key: s, Versions: versions, Reads: c.reads() | model.Usage | model.PodLabels | model.Nominations}, ok
}

// Tie returns the tie-breaking number of a node among equally good ones.
func (p *postFilterCycle) Tie(slot int32) uint64 {
	return rank.Tie(p.Salt(), p.Place(slot))
}

// Place returns the place of a node among equally good ones.
func (p *postFilterCycle) Place(slot int32) uint64 {
	return rank.Mix(p.cycle.view.State().NameHashes()[slot])
}

// Salt returns the input, besides node names, to the order of equally good nodes.
func (p *postFilterCycle) Salt() uint64 {
	if p.salt == 0 {
		p.salt = p.engine.salt(p.cycle.pod)
	}
	return p.salt
}

// Remembered identifies the remembered rejection.
func (p *postFilterCycle) Remembered() (rejection uint64, reads model.Aspect) {
	if p.counts == nil || p.counts.bySlot == nil || p.counts.decided == 0 {
		return 0, 0
	}
	return p.counts.decided, p.cycle.reads()
}

// Potential returns the nodes whose rejection preemption can resolve.
func (p *postFilterCycle) Potential() []int32 {
	c, e := p.cycle, p.engine
	if c.open {
		return e.alive(c.view.State().Alive())
	}
	if p.counts == nil {
		return nil
	}
	slots := e.scratch.potential[:0]
	counts := p.counts
	if counts.bySlot == nil {
		counts = &objectionCounts{bySlot: e.objectionColumn(c)}
		e.countObjections(c, counts)
		p.counts = counts
	}
	if counts.bySlot == nil { // too many different objections
		for _, slot := range e.slotsToCheck(c) {
			if p.Resolvable(slot) {
				slots = append(slots, slot)
			}
		}
	}
	resolvable := make([]bool, len(counts.list)+1)
	for i := range counts.list {
		resolvable[i+1] = !counts.list[i].code.IsUnresolvable()
	}
	for slot, at := range counts.bySlot {
		if resolvable[at] {
			slots = append(slots, int32(slot))
		}
	}
	e.scratch.potential = slots
	return slots
}

// PotentialNodes returns the number of nodes in Potential.
func (p *postFilterCycle) PotentialNodes() (n int) {
	if p.counts == nil || len(p.counts.list) == 0 {
		return len(p.Potential())
	}
	for i := range p.counts.list {
		if o := &p.counts.list[i]; !o.code.IsUnresolvable() {
			n += o.nodes
		}
	}
	return n
}

// Resolvable reports whether preemption may resolve the node's rejection.
func (p *postFilterCycle) Resolvable(slot int32) bool {
	c := p.cycle
	if c.open {
		return true
	}
	if p.counts == nil || !c.narrowed.has(slot) {
		return false
	}
	if by := p.counts.bySlot; by != nil {
		return by[slot] > 0 && !p.counts.list[by[slot]-1].code.IsUnresolvable()
	}
	if before := c.nominatedBefore(slot); len(before) > 0 {
		if o, err := p.engine.besideNominated(c, slot, before); err == nil && o.code != reason.None {
			return !o.code.IsUnresolvable()
		}
	}
	return !p.engine.first(c, &c.here, slot).code.IsUnresolvable()
}

// Objection returns the first objection to a node in a dry run. Filters run with the
// node's nominated pods first, then without them.
func (p *postFilterCycle) Objection(dryRun *state.Draft, slot int32) plugin.Objection {
	e, c := p.engine, p.cycle
	if !c.narrowed.has(slot) {
		return plugin.Objection{Filter: plugin.LeftOut}
	}
	if before := c.nominatedBefore(slot); len(before) > 0 {
		beside := dryRun.View().DryRun(&e.scratch.dryRun)
		for _, pod := range before {
			beside.Add(pod, slot)
		}
		e.scratch.dry = e.filtersIn(c, beside.View(), e.scratch.dry)
		if o := e.first(c, &e.scratch.dry, slot); o.code != reason.None {
			return plugin.Objection{Filter: o.filter, Code: o.code}
		}
	}
	e.scratch.dry = e.filtersIn(c, dryRun.View(), e.scratch.dry)
	o := e.first(c, &e.scratch.dry, slot)
	return plugin.Objection{Filter: o.filter, Code: o.code}
}

// OnlyUsage reports whether filters read nothing of pods except their resource usage.
func (p *postFilterCycle) OnlyUsage() bool { return p.counts != nil && p.engine.usageOf(p.cycle).only }

// ObjectionWith is Objection for a node with another resource usage.
func (p *postFilterCycle) ObjectionWith(slot int32, use *state.Use) plugin.Objection {
	e, c := p.engine, p.cycle
	if !c.narrowed.has(slot) {
		return plugin.Objection{Filter: plugin.LeftOut}
	}
	if c.hasNominated() {
		p.nominated = c.nominatedBefore(slot)
	}
	own := c.here
	own.verdicts = own.verdicts[:len(c.profile.Filters)] // a dry run excludes extenders
	if p.besideNominated(use) {
		if o := e.firstOf(c, &own, c.view.NodeWith(slot, &p.use)); o.code != reason.None {
			return plugin.Objection{Filter: o.filter, Code: o.code}
		}
	}
	o := e.firstOf(c, &own, c.view.NodeWith(slot, use))
	return plugin.Objection{Filter: o.filter, Code: o.code}
}

// FitsWith reports whether a node passes the filters with a higher usage. It must be the
// node of the last ObjectionWith, which found no objection.
func (p *postFilterCycle) FitsWith(slot int32, use *state.Use) bool {
	if p.besideNominated(use) && !p.passes(p.cycle.view.NodeWith(slot, &p.use)) {
		return false
	}
	return p.passes(p.cycle.view.NodeWith(slot, use))
}

func (p *postFilterCycle) passes(node state.Node) bool {
	for _, i := range p.engine.usageOf(p.cycle).by {
		p.engine.asked(p.cycle.profile.first+int32(i), 1)
		if p.cycle.here.verdicts[i].Filter(node) != reason.None {
			return false
		}
	}
	return true
}

// besideNominated stores the usage of a node plus its nominated pods in p.use. It returns
// false if the node has no nominated pods.
func (p *postFilterCycle) besideNominated(use *state.Use) bool {
	if len(p.nominated) == 0 {
		return false
	}
	p.use.Copy(use)
	for _, pod := range p.nominated {
		p.use.Add(pod, +1)
	}
	return true
}

// Request returns the resources that the pod needs free on a node, or nil if no filter
// checks them.
func (p *postFilterCycle) Request() *model.Resources {
	if p.counts == nil {
		return nil
	}
	request, _ := p.cycle.requestOf()
	return request
}

// OnlyRequest reports whether all nodes were rejected only for lack of the resources of
// Request, and filters read nothing else of pods.
func (p *postFilterCycle) OnlyRequest() bool {
	if !p.OnlyUsage() {
		return false
	}
	request, filter := p.cycle.requestOf()
	by := p.cycle.usage.by
	if request == nil || len(by) != 1 || by[0] != filter {
		return false
	}
	for i := range p.counts.list {
		if o := &p.counts.list[i]; o.nodes > 0 && o.filter != filter && !o.code.IsUnresolvable() {
			return false
		}
	}
	return true
}

// Kept returns the plugin's cache across turns, building it on first use.
func (p *postFilterCycle) Kept(name string, build func() any) any {
	kept, ok := p.engine.kept[name]
	if !ok {
		kept = build()
		p.engine.kept[name] = kept
	}
	return kept
}

// Worked counts the nodes that a plugin considered, the nodes whose lower bound it
// computed, and the nodes on which it searched for victims.
func (p *postFilterCycle) Worked(looked, rated, tried int) {
	p.engine.work.Looked += int64(looked)
	p.engine.work.Rated += int64(rated)
	p.engine.work.Tried += int64(tried)
	p.engine.meter.Spend(price.Victims, lookedUnits*int64(looked)+ratedUnits*int64(rated)+triedUnits*int64(tried))
}

// Reasons returns the texts of an objection as in kube-scheduler, or its error.
func (p *postFilterCycle) Reasons(o plugin.Objection) ([]string, error) {
	switch {
	case o.Filter == plugin.LeftOut:
		return []string{p.cycle.narrowed.text()}, nil
	case o.Code.IsFailed():
		return nil, p.cycle.failure(&p.cycle.here, objection{filter: o.Filter, code: o.Code})
	}
	return p.cycle.here.verdicts[o.Filter].Reasons(o.Code), nil
}

// Rejected returns the filters' rejection of a node.
func (p *postFilterCycle) Rejected(slot int32) reason.Rejection {
	c, e := p.cycle, p.engine
	if p.counts == nil || !c.narrowed.has(slot) {
		return p.Unexamined()
	}
	verdicts := c.here.verdicts
	var o objection
	if before := c.nominatedBefore(slot); len(before) > 0 {
		dry := e.filtersBesideNominated(c, slot, before)
		o, verdicts = e.first(c, &dry, slot), dry.verdicts
	}
	if o.code == reason.None {
		o, verdicts = e.first(c, &c.here, slot), c.here.verdicts
	}
	if o.code == reason.None {
		return reason.Rejection{}
	}
	return reason.Rejection{
		Plugin: c.profile.nameOf(o.filter), Unresolvable: o.code.IsUnresolvable(), Failed: o.code.IsFailed(), Pending: isPending(verdicts[o.filter], o.code),
		Reasons: verdicts[o.filter].Reasons(o.code),
	}
}

// Unexamined returns the rejection of the nodes that no filter has looked at.
func (p *postFilterCycle) Unexamined() reason.Rejection {
	switch {
	case p.counts == nil:
		r := reason.Rejection{Unresolvable: !p.cycle.open, Reasons: []string{p.rejection.PreFilter}}
		if len(p.rejection.Plugins) == 1 {
			r.Plugin = p.rejection.Plugins[0]
		}
		return r
	case len(p.cycle.narrowed.by) > 0:
		return reason.Rejection{Unresolvable: true, Reasons: []string{p.cycle.narrowed.text()}}
	}
	return reason.Rejection{Unresolvable: true}
}

// RejectionIn returns the filters' rejection of a node in a dry run, without nominated
// pods.
func (p *postFilterCycle) RejectionIn(dryRun *state.Draft, slot int32) (reason.Rejection, error) {
	e, c := p.engine, p.cycle
	if len(c.counting) != len(c.profile.Filters) {
		return reason.Rejection{}, errors.New("filters cannot be run: the pod was rejected before all plugins had run at PreFilter")
	}
	if p.counts == nil && len(c.here.verdicts) == 0 {
		e.prepare(c)
	}
	if !c.narrowed.has(slot) {
		return reason.Rejection{Unresolvable: true, Reasons: []string{c.narrowed.text()}}, nil
	}
	e.scratch.dry = e.filtersIn(c, dryRun.View(), e.scratch.dry)
	o := e.first(c, &e.scratch.dry, slot)
	if o.code == reason.None {
		return reason.Rejection{}, nil
	}
	if err := c.failure(&e.scratch.dry, o); err != nil {
		return reason.Rejection{}, err
	}
	return reason.Rejection{
		Plugin: c.profile.nameOf(o.filter), Unresolvable: o.code.IsUnresolvable(), Pending: isPending(e.scratch.dry.verdicts[o.filter], o.code),
		Reasons: e.scratch.dry.verdicts[o.filter].Reasons(o.code),
	}, nil
}
