package engine

import (
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine/preempt"
	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Preempt searches for victims, unless the pod must not preempt now.
func (p *postFilterCycle) Preempt(rules plugin.PreemptionRules) (plugin.Preemption, error) {
	if text := preempt.Ineligible(p.cycle.view, p, p.cycle.pod); text != "" {
		return plugin.Preemption{Ineligible: text}, nil
	}
	facts := p.facts()
	facts.Rules = rules
	found, work, err := p.engine.victims.Search(p, facts, p.cycle.pod)
	p.engine.preempted(work)
	if c := found.Candidate; c != nil {
		c.Outranked = p.outranked(c.Slot)
	}
	return found, err
}

// facts returns the constants of the turn, except the rules. It counts the potential
// nodes first, because that may compute the objections anew.
func (p *postFilterCycle) facts() preempt.Facts {
	f := preempt.Facts{
		View: p.cycle.view, PotentialNodes: p.potentialNodes(), Salt: p.engine.salt(p.cycle.pod), Extenders: p.cycle.profile.Extenders,
		OnlyUsage: p.onlyUsage(), Request: p.request(), OnlyRequest: p.onlyRequest(),
	}
	f.Rejection, f.Reads = p.remembered()
	return f
}

// preempted counts the work of a search for victims.
func (e *Engine) preempted(w preempt.Work) {
	e.work.Looked += int64(w.Looked)
	e.work.Rated += int64(w.Rated)
	e.work.Tried += int64(w.Tried)
	e.meter.Spend(price.Victims, lookedUnits*int64(w.Looked)+ratedUnits*int64(w.Rated)+triedUnits*int64(w.Tried))
}

// IsKind marks a shape as the kind of a pod, by which preemption keeps dry runs.
func (shape) IsKind() {}

// Alike returns the kind and the versions that objections in dry runs depend on.
func (p *postFilterCycle) Alike() (preempt.Alike, bool) {
	c := p.cycle
	s, ok := shapeOf(c)
	if !ok || p.counts == nil {
		return preempt.Alike{}, false
	}
	now := p.engine.versionsFor(c)
	versions := c.ruleVersions([]uint64{now.Terms, now.DefaultSelectors, now.Devices})
	return preempt.Alike{Kind: s, Versions: versions, Reads: c.reads() | model.Usage | model.PodLabels | model.Nominations}, true
}

// remembered identifies the remembered rejection.
func (p *postFilterCycle) remembered() (rejection uint64, reads model.Aspect) {
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

// potentialNodes returns the number of nodes in Potential.
func (p *postFilterCycle) potentialNodes() (n int) {
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
func (p *postFilterCycle) Objection(dryRun *state.Draft, slot int32) preempt.Objection {
	e, c := p.engine, p.cycle
	if !c.narrowed.has(slot) {
		return preempt.Objection{Filter: preempt.LeftOut}
	}
	if before := c.nominatedBefore(slot); len(before) > 0 {
		beside := dryRun.View().DryRun(&e.scratch.dryRun)
		for _, pod := range before {
			beside.Add(pod, slot)
		}
		e.scratch.dry = e.filtersIn(c, beside.View(), e.scratch.dry)
		if o := e.first(c, &e.scratch.dry, slot); o.code != reason.None {
			return preempt.Objection{Filter: o.filter, Code: o.code}
		}
	}
	e.scratch.dry = e.filtersIn(c, dryRun.View(), e.scratch.dry)
	o := e.first(c, &e.scratch.dry, slot)
	return preempt.Objection{Filter: o.filter, Code: o.code}
}

// onlyUsage reports whether filters read nothing of pods except their resource usage.
func (p *postFilterCycle) onlyUsage() bool { return p.counts != nil && p.engine.usageOf(p.cycle).only }

// ObjectionWith is Objection for a node with another resource usage.
func (p *postFilterCycle) ObjectionWith(slot int32, use *state.Use) preempt.Objection {
	e, c := p.engine, p.cycle
	if !c.narrowed.has(slot) {
		return preempt.Objection{Filter: preempt.LeftOut}
	}
	if c.hasNominated() {
		p.nominated = c.nominatedBefore(slot)
	}
	own := c.here
	own.verdicts = own.verdicts[:len(c.profile.Filters)] // a dry run excludes extenders
	if p.besideNominated(use) {
		if o := e.firstOf(c, &own, c.view.NodeWith(slot, &p.use)); o.code != reason.None {
			return preempt.Objection{Filter: o.filter, Code: o.code}
		}
	}
	o := e.firstOf(c, &own, c.view.NodeWith(slot, use))
	return preempt.Objection{Filter: o.filter, Code: o.code}
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

// request returns the resources that the pod needs free on a node, or nil if no filter
// checks them.
func (p *postFilterCycle) request() *model.Resources {
	if p.counts == nil {
		return nil
	}
	request, _ := p.cycle.requestOf()
	return request
}

// onlyRequest reports whether all nodes were rejected only for lack of the resources of
// request, and filters read nothing else of pods.
func (p *postFilterCycle) onlyRequest() bool {
	if !p.onlyUsage() {
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

// Reasons returns the texts of an objection as in kube-scheduler, or its error.
func (p *postFilterCycle) Reasons(o preempt.Objection) ([]string, error) {
	switch {
	case o.Filter == preempt.LeftOut:
		return []string{p.cycle.narrowed.text()}, nil
	case o.Code.IsFailed():
		return nil, p.cycle.failure(&p.cycle.here, objection{filter: o.Filter, code: o.Code})
	}
	return p.cycle.here.verdicts[o.Filter].Reasons(o.Code), nil
}
