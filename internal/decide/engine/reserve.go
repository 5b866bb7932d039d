package engine

import (
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// reserveIn adds to a placement its holds, and the steps before and after the binding.
func (e *Engine) reserveIn(p *profile, v state.View, placement *plan.Placement, slot int32) error {
	for _, r := range p.Reserve {
		e.begin()
		holds, err := r.Holds(v, placement.Pod, slot)
		if !r.Measured {
			e.end(reservePoint, r.Name, failedIf(err))
		}
		if err != nil {
			return &plan.PluginError{Point: "Reserve", Plugin: r.Name, Err: err}
		}
		placement.Holds = append(placement.Holds, holds...)
	}
	p.outsideSteps(plan.Reserve, placement)
	for _, x := range p.Permit {
		if err := addSteps(placement, plan.Permit, x.Name, v, x.Steps); err != nil {
			return err
		}
	}
	for _, x := range p.PreBind {
		if err := addSteps(placement, plan.PreBind, x.Name, v, x.Steps); err != nil {
			return err
		}
	}
	for _, x := range p.BindSteps {
		if err := addSteps(placement, plan.Bind, x.Name, v, x.Steps); err != nil {
			return err
		}
	}
	p.outsideSteps(plan.Bind, placement)
	for _, x := range p.PostBind {
		if err := addSteps(placement, plan.PostBind, x.Name, v, x.Steps); err != nil {
			return err
		}
	}
	p.outsideSteps(plan.PostBind, placement)
	return nil
}

// outsideSteps adds the steps of out-of-tree plugins that belong to no single plugin.
func (p *profile) outsideSteps(stage plan.Stage, to *plan.Placement) {
	if p.External != nil {
		to.Steps = append(to.Steps, p.External.Steps(stage, to)...)
	}
}

// addSteps adds the steps of one plugin at one stage.
func addSteps(to *plan.Placement, stage plan.Stage, name string, v state.View, steps plugin.Steps) error {
	added, err := steps(v, to)
	if err != nil {
		return &plan.PluginError{Point: stage.String(), Plugin: name, Err: err}
	}
	for _, step := range added {
		step.Stage, step.Plugin = stage, name
		to.Steps = append(to.Steps, step)
	}
	return nil
}
