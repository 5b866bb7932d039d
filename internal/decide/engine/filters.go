package engine

import (
	"fmt"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// filters are a cycle's filters, prepared for single nodes of a view. The view is the
// cycle's own, or a dry run of it.
type filters struct {
	view state.View
	// verdicts is indexed by filter of the profile; nil where every node passes. counts
	// is indexed alike and holds the verdicts of count filters.
	verdicts []*plugin.Verdicts
	counts   []countVerdicts
	// turn is memory for the verdicts of turn filters in a dry run, indexed alike.
	turn []plugin.Verdicts
}

// countVerdicts applies a count filter's rules.
type countVerdicts struct {
	plugin.Counting
	rules []plugin.CountRule
	own   plugin.Verdicts
}

// with returns the verdicts of these rules.
func (c *countVerdicts) with(counting plugin.Counting, rules []plugin.CountRule) *plugin.Verdicts {
	c.Counting, c.rules, c.own.NodeVerdicts = counting, rules, c
	return &c.own
}

// Filter returns the verdict of the first rule that rejects the node.
func (c *countVerdicts) Filter(node state.Node) reason.Code {
	for i := range c.rules {
		if code := c.rules[i].Verdict(node.Slot()); code != reason.None {
			return code
		}
	}
	return reason.None
}

// filtersIn prepares the cycle's filters for a view, reusing the memory of filters that
// are no longer needed. A dry run has the cycle's own verdicts, because only the verdicts
// that returned a code can explain it. Only the rules about counts differ.
func (e *Engine) filtersIn(c *cycle, v state.View, reuse filters) filters {
	f := filters{view: v, verdicts: reuse.verdicts[:0], counts: reuse.counts, turn: reuse.turn}
	if len(f.counts) < len(c.counting) {
		f.counts = make([]countVerdicts, len(c.counting))
	}
	for i := range c.counting {
		var verdicts *plugin.Verdicts
		if counting := c.counting[i]; counting != nil {
			own := &f.counts[i]
			e.begin()
			verdicts = own.with(counting, counting.Rules(v, own.rules[:0]))
			e.endAt(filterPoint, c.profile, i, Success)
		} else if c.profile.Filters[i].Turn != nil {
			verdicts = e.turnVerdictsIn(c, i, &f)
		} else if i < len(c.here.verdicts) {
			verdicts = c.here.verdicts[i]
		} else if c.profile.Filters[i].Count == nil {
			verdicts = e.verdictsOf(c, i)
		}
		f.verdicts = append(f.verdicts, verdicts)
	}
	return f
}

// objection is a filter, by its position in the profile, and its verdict on a node. The
// code is None if no filter objects.
type objection struct {
	filter int
	code   reason.Code
	// kept, unless 0, means that only space held for a pod group makes the node
	// infeasible: see state.View.RoomHolder.
	kept uint32
}

// first returns the first objection to a node, in the order of the filters.
func (e *Engine) first(c *cycle, f *filters, slot int32) objection {
	return e.firstOf(c, f, f.view.Node(slot))
}

// firstOf is first for the view of a node.
func (e *Engine) firstOf(c *cycle, f *filters, node state.Node) objection {
	for i, verdicts := range f.verdicts {
		if verdicts == nil {
			continue
		}
		// the entry behind the filters holds extenders' verdicts
		if i < len(c.profile.Filters) {
			e.asked(c.profile.first+int32(i), 1)
		}
		e.begin()
		code := verdicts.Filter(node)
		if e.sampled {
			e.endFilter(c, i, code)
		}
		if code != reason.None {
			e.unfinished = e.unfinished || code == reason.Unasked
			return objection{filter: i, code: code}
		}
	}
	return objection{}
}

// failure returns the error behind an objection, or nil for a rejection.
func (c *cycle) failure(f *filters, o objection) error {
	if !o.code.IsFailed() {
		return nil
	}
	if o.code == reason.Unasked {
		return &plan.PluginError{Point: plan.FilterPoint, Plugin: c.profile.nameOf(o.filter), Err: plugin.ErrUnfinished}
	}
	err := fmt.Errorf("verdict %d", o.code)
	if failures := f.verdicts[o.filter].Failures; failures != nil {
		err = failures.Err(c.view, c.pod, o.code)
	}
	return &plan.PluginError{Point: plan.FilterPoint, Plugin: c.profile.nameOf(o.filter), Err: err}
}
