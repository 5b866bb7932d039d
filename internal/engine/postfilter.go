package engine

import (
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

// postFilter runs the PostFilter plugins, in order, until one finds how room can be made for a pod without a feasible node.
func (e *Engine) postFilter(of *cycle, d *plan.Decision) {
	if len(of.profile.PostFilters) == 0 {
		return
	}
	own := *of // a copy, so that cycles of placed pods stay on the stack
	c := &own
	e.prepare(c) // a remembered rejection needed no filters
	for _, p := range c.profile.PostFilters {
		result, err := p.PostFilter(postFilterCycle{e, c}, c.pod)
		switch {
		case err != nil:
			fail(d, &plan.PluginError{Point: "PostFilter", Plugin: p.Name(), Err: err})
			return
		case result.NodeName != "":
			d.Evictions = result.Evictions
			d.Nominations = []plan.Nomination{{Pod: c.pod, Mode: plan.Set, NodeName: result.NodeName}}
			return
		}
	}
}

// postFilterCycle is the plugin.Cycle of PostFilter plugins.
type postFilterCycle struct {
	engine *Engine
	cycle  *cycle
}

var _ plugin.Cycle = postFilterCycle{}

// View returns the view of the cycle.
func (p postFilterCycle) View() state.View { return p.cycle.view }

// Fits reports whether a node passes the filters in a dry run.
func (p postFilterCycle) Fits(dryRun *state.Draft, slot int32) (bool, error) {
	if !p.cycle.narrowed.has(slot) {
		return false, nil
	}
	dry := p.engine.filtersIn(p.cycle, dryRun.View(), p.engine.scratch.dry)
	p.engine.scratch.dry = dry
	o := p.engine.first(p.cycle, &dry, slot)
	return o.code == reason.None, p.cycle.failure(&dry, o)
}

// Resolvable reports whether evicting pods may resolve the node's rejection.
func (p postFilterCycle) Resolvable(slot int32) bool {
	return p.cycle.narrowed.has(slot) && !p.engine.first(p.cycle, &p.cycle.here, slot).code.IsUnresolvable()
}
