package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/internal/cluster/state"
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
// transient means that the result is valid in this turn only.
func (e *Engine) postFilter(of *cycle, d *plan.Decision, counts *objectionCounts) (transient bool) {
	if d.Group != nil { // a change that helps a member alone need not help its group
		return false
	}
	if d.Rejection.HeldRoom { // no pod is evicted for space that exists but is held
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
		result, err := e.runPostFilter(p, c, own.pod)
		if err != nil {
			d.PostFilter, d.PostFilterErr = err.Error(), err
			return true
		}
		transient = transient || result.Transient
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
	return transient
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
	if d.Rejection.HeldRoom {
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
	transient := e.postFilter(c, d, &r.objectionCounts)
	if e.unfinished {
		*had = nothingHelps{}
		return
	}
	nothing := len(d.Evictions) == 0 && len(d.Writes) == 0 && len(d.Nominations) == 0 && !transient
	if same && (!nothing || d.PostFilter != had.text) {
		e.doubts = append(e.doubts, fmt.Sprintf("what PostFilter plugins say about pod %s was remembered as %q; now it is %q", c.pod, had.text, d.PostFilter))
	}
	*had = nothingHelps{d.PostFilter, c.pod.Priority, c.pod.NeverPreempts(), r.versions, nothing && !own}
}

// looksAtOwn reports whether a PostFilter plugin's result depends on objects of the pod's
// own.
func (p *profile) looksAtOwn(v state.View, pod *model.Pod) bool {
	return slices.ContainsFunc(p.PostFilters, func(f *plugin.PostFilter) bool { return f.Own != nil && f.Own(v, pod) })
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
}

var _ plugin.Cycle = (*postFilterCycle)(nil)

// View returns the view of the cycle.
func (p *postFilterCycle) View() state.View { return p.cycle.view }

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
