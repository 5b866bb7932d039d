package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// cycle is one pod's turn in one view, after its PreFilter. It is valid until the
// engine's next cycle or the next change of the state.
type cycle struct {
	view    state.View
	tie     uint64 // of a Run
	profile *profile
	pod     *model.Pod
	// narrowed is the result of narrowing.
	narrowed narrowed
	// These are indexed by filter of the profile. needs are the pod's needs, zero where
	// every node passes. own are the needs of filters with NeedIn, and varying needs.
	// counting are the counts of filters with Count, nil where no rule applies.
	needs    []model.Need
	own      []plugin.FilterNeed
	counting []plugin.Counting
	// sharesDevices means that verdicts of own depend on devices shared by nodes.
	sharesDevices bool
	// usage caches the result of usageOf.
	usage usage
	// here are the filters for single nodes of the view, set by prepare. The last entry
	// holds extenders' verdicts, if any extender was called.
	here     filters
	extended *extended
	// open means that PreFilter rejected the pod and preemption may help.
	open bool
	// amounts are the parts of a new pod that depend on amounts, during its scan.
	amounts *amountNeeds
	// renominated are nominations that out-of-tree plugins have changed in this turn.
	renominated *state.Renominated
}

// preFilter runs all work that does not depend on a single node. It narrows the nodes,
// and finds the pod's needs and the counts of pods around nodes. A rejection rejects
// every node. Call prepare before filters run on nodes.
func (e *Engine) preFilter(v state.View, p *profile, pod *model.Pod) (cycle, *plan.Rejection, error) {
	e.meter = v.Meter()
	e.unfinished = false
	if horizon, swept := e.columns.tick(); swept {
		e.rankings.sweep(horizon)
		e.indices.sweep(horizon)
	}
	if e.audits {
		e.doubtSkips(v, p, pod)
	}
	c := cycle{view: v, profile: p, pod: pod, needs: pod.Needs[:len(p.Filters)]}
	var first *preFilterRejection
	var err error
	if c.narrowed, first, err = e.narrow(p, v, pod); err != nil || first != nil && p.External == nil {
		return c, first.rejection(), err
	}
	c.renominate()
	rejection, err := e.preFilterBuiltIn(&c)
	if err != nil && first.precedes(p, err) {
		err = nil // kube-scheduler would not have run that plugin
	}
	if err != nil || first == nil || rejection != nil && (first.open || p.PreFilterAt(rejection.Plugins[0]) < first.position) {
		return c, rejection, err
	}
	if c.open = first.open; c.open {
		// preemption is tried on all nodes, since a rejection by any plugin leaves no
		// node out
		c.narrowed = narrowed{}
	}
	return c, first.rejection(), nil
}

// preFilterBuiltIn runs the PreFilter of filters with NeedIn or Count.
func (e *Engine) preFilterBuiltIn(c *cycle) (*plan.Rejection, error) {
	if len(c.profile.stateful)+len(c.profile.varying) > 0 {
		if rejection, err := e.workOutNeeds(c); rejection != nil || err != nil {
			return rejection, err
		}
	}
	return e.findCounts(c)
}

// preFilterRejection is a rejection by one of PreFilters.
type preFilterRejection struct {
	plan.Rejection
	// position is the plugin's position in PreFilterOrder.
	position int
	// open means that preemption may help. Rejections of later plugins are reported
	// instead, if preemption cannot resolve these.
	open bool
}

// precedes reports whether the rejection ended the chain before the plugin that failed.
func (r *preFilterRejection) precedes(p *profile, err error) bool {
	var of *plan.PluginError
	return r != nil && !r.open && errors.As(err, &of) && r.position < p.PreFilterAt(of.Plugin)
}

func (r *preFilterRejection) rejection() *plan.Rejection {
	if r == nil {
		return nil
	}
	return &r.Rejection
}

// prepare prepares the cycle's filters for single nodes.
func (e *Engine) prepare(c *cycle) {
	c.here = e.filtersIn(c, c.view, e.scratch.here)
	if c.extended != nil {
		c.here.verdicts = append(c.here.verdicts, &c.extended.own)
	}
	e.scratch.here = c.here
}

// workOutNeeds computes the needs of filters with NeedIn in the view, and varying needs.
func (e *Engine) workOutNeeds(c *cycle) (*plan.Rejection, error) {
	c.needs = append(e.scratch.needs[:0], c.needs...)
	c.own = slices.Grow(e.scratch.own[:0], len(c.needs))[:len(c.needs)]
	clear(c.own)
	e.scratch.needs, e.scratch.own = c.needs, c.own
	for _, i := range c.profile.stateful {
		f := c.profile.Filters[i]
		e.begin()
		found, err := f.NeedIn(c.view, c.pod)
		e.endAt(preFilterPoint, c.profile, i, statusOf(found.Need == nil, found.Rejection, err))
		if found.Rejection != "" || err != nil {
			return preFilterResult(f.Name, found.Rejection, err)
		}
		c.own[i], c.needs[i] = found.Need, plugin.NeedOf(found.Need)
		c.sharesDevices = c.sharesDevices || found.SharesDevices
	}
	for _, i := range c.profile.varying {
		e.begin()
		if need, varies := c.profile.Filters[i].Varying(c.view, c.pod); varies {
			e.endAt(preFilterPoint, c.profile, i, Success)
			c.own[i], c.needs[i] = need, plugin.NeedOf(need)
		}
	}
	return nil, nil
}

// findCounts runs the PreFilter of filters with Count, which find the counts for their
// rules.
func (e *Engine) findCounts(c *cycle) (*plan.Rejection, error) {
	c.counting = slices.Grow(e.scratch.counting[:0], len(c.profile.Filters))[:len(c.profile.Filters)]
	e.scratch.counting = c.counting
	clear(c.counting)
	for _, i := range c.profile.counting {
		if c.needs[i].IsZero() {
			continue
		}
		e.begin()
		counting := e.countingOf(c, i)
		check, text, err := counting.PreFilter(c.view)
		e.endAt(preFilterPoint, c.profile, i, statusOf(!check, text, err))
		if rejection, err := preFilterResult(c.profile.Filters[i].Name, text, err); rejection != nil || err != nil {
			return rejection, err
		}
		if check {
			c.counting[i] = counting
		}
	}
	return nil, nil
}

// preFilterResult adds kube-scheduler's texts to the result of a plugin's PreFilter.
func preFilterResult(name string, rejection string, err error) (*plan.Rejection, error) {
	switch {
	case err != nil:
		return nil, &plan.PluginError{Point: "PreFilter", Plugin: name, Err: err}
	case rejection != "":
		return &plan.Rejection{PreFilter: rejection, Plugins: []string{name}}, nil
	}
	return nil, nil
}

// narrowed is the set of nodes that PreFilter plugins name.
type narrowed struct {
	// by lists the plugins that narrowed, sorted. If empty, the set is all nodes.
	by []string
	// slots are the nodes of the view's restriction that every plugin in by names,
	// ascending. filterNominated adds the pod's nominated node.
	slots []int32
	// rejector is the filter that rejected the pod's nominated node, or "".
	rejector string
}

// addNominated adds the pod's nominated node, and the filter that rejected it; rejector
// is "" if none did. kube-scheduler tries this node first, before PreFilter plugins name
// the nodes to try. So the node keeps its own rejection, and messages name the filter
// beside these plugins.
func (n *narrowed) addNominated(slot int32, rejector string) {
	if len(n.by) == 0 {
		return
	}
	n.rejector = rejector
	if at, found := slices.BinarySearch(n.slots, slot); !found {
		n.slots = slices.Insert(n.slots, at, slot)
	}
}

// toCheck reports whether filters run on a node.
func (c *cycle) toCheck(slot int32) bool {
	return c.narrowed.has(slot) && c.view.Restriction().Has(slot)
}

// has reports whether the plugins name a node.
func (n *narrowed) has(slot int32) bool {
	if len(n.by) == 0 {
		return true
	}
	_, found := slices.BinarySearch(n.slots, slot)
	return found
}

// text returns kube-scheduler's reason for the nodes outside the set.
func (n *narrowed) text() string {
	names := n.by
	if n.rejector != "" && !slices.Contains(names, n.rejector) {
		names = append(slices.Clone(names), n.rejector)
		slices.Sort(names)
	}
	return outsideText(names)
}

func outsideText(names []string) string {
	return fmt.Sprintf("node(s) didn't satisfy plugin(s) [%s]", strings.Join(names, " "))
}

func (n *narrowed) emptyText() string {
	if len(n.by) == 1 {
		return "node(s) didn't satisfy plugin " + n.by[0]
	}
	return outsideText(n.by) + " simultaneously"
}

// narrow intersects the nodes that PreFilter plugins name. Names without a node are
// dropped. A rejection rejects every node. As in kube-scheduler, a rejection that
// preemption may resolve does not end the chain; of several, the last counts.
func (e *Engine) narrow(p *profile, v state.View, pod *model.Pod) (narrowed, *preFilterRejection, error) {
	var n narrowed
	var names []string
	var open *preFilterRejection
	for i, f := range p.PreFilters {
		if pod.SkipsPreFilter&(1<<i) != 0 {
			continue
		}
		result := e.runPreFilter(f, v, pod)
		if rejection, err := preFilterResult(f.Name, result.Rejection, result.Err); err != nil {
			return n, nil, err
		} else if rejection != nil {
			r := &preFilterRejection{*rejection, p.PreFilterAt(f.Name), result.Resolvable}
			if !r.open {
				return n, r, nil
			}
			open = r
			continue
		}
		if !result.Narrowed {
			continue
		}
		if len(n.by) == 0 {
			names = result.Nodes
		} else {
			names = intersect(names, result.Nodes)
		}
		n.by = append(n.by, f.Name)
		if len(names) == 0 {
			slices.Sort(n.by)
			return n, &preFilterRejection{plan.Rejection{PreFilter: n.emptyText(), Plugins: n.by}, p.PreFilterAt(f.Name), false}, nil
		}
	}
	slices.Sort(n.by)
	for _, name := range names {
		if slot, ok := v.Slot(name); ok && v.Restriction().Has(slot) {
			n.slots = append(n.slots, slot)
		}
	}
	slices.Sort(n.slots)
	n.slots = slices.Compact(n.slots)
	if open != nil {
		open.Plugins = append(open.Plugins, n.by...)
		slices.Sort(open.Plugins)
		open.Plugins = slices.Compact(open.Plugins)
	}
	return n, open, nil
}

func intersect(a, b []string) []string {
	var both []string
	for _, name := range a {
		if slices.Contains(b, name) {
			both = append(both, name)
		}
	}
	return both
}
