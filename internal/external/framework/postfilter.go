package framework

import (
	"context"
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

type postFilter struct {
	external
	plugin fwk.PostFilterPlugin
}

// run runs the plugin, which may run the filters through the Handle until it returns.
// Skip and Wait, which terminate kube-scheduler, are errors.
func (p *postFilter) run(c plugin.Cycle, pod *model.Pod) (plugin.PostFilterResult, error) {
	t := p.r.turn
	// This may run out-of-tree filters on the lane, so it precedes the opening of the
	// gate.
	statuses := p.r.statusesOf(c)
	type result struct {
		outcome
		message    string
		nomination *fwk.NominatingInfo
	}
	cycle, object, gate := t.state, t.object, &p.r.handle.gate
	gate.openFor(c, pod)
	found, err := call(p.r.lane, PostFilter, p.name, func(ctx context.Context) (found result) {
		r, status := p.plugin.PostFilter(ctx, cycle, object, statuses)
		found.outcome, found.message = read(status, PostFilter, success|failing|rejecting), status.Message()
		if r != nil && r.NominatingInfo != nil {
			nomination := *r.NominatingInfo
			found.nomination = &nomination
		}
		return found
	})
	gate.close()
	p.observe(PostFilter, found.code, 1, err)
	if err == nil {
		err = found.err
	}
	if err != nil {
		return plugin.PostFilterResult{}, err
	}
	to := plugin.PostFilterResult{Message: found.message, Done: found.code == fwk.Success || found.code == fwk.UnschedulableAndUnresolvable}
	switch n := found.nomination; {
	case n.Mode() == fwk.ModeNoop:
	case n.NominatedNodeName == "":
		to.Nomination = plan.Clear
	default:
		to.Nomination, to.NodeName = plan.Set, n.NominatedNodeName
	}
	return to, nil
}

// statusesOf returns the filter status of each node. As in kube-scheduler, nodes on which
// no filter ran have no explicit status. They, and names without a node, share a status.
func (r *Runtime) statusesOf(c plugin.Cycle) fwk.NodeToStatusReader {
	v := c.View()
	byName := make(map[string]*fwk.Status, v.Nodes())
	unexamined := c.Unexamined()
	var last *fwk.Status // nodes are often rejected alike
	var like reason.Rejection
	for slot, alive := range v.State().Alive() {
		if !alive {
			continue
		}
		rejected := c.Rejected(int32(slot))
		if rejected.Plugin == "" && len(rejected.Reasons) == 0 || alike(&rejected, &unexamined) {
			continue
		}
		if last == nil || !alike(&like, &rejected) {
			last, like = statusOf(&rejected), rejected
		}
		byName[v.Node(int32(slot)).Name()] = last
	}
	if said := r.turn.preFilter[unexamined.Plugin]; said != nil {
		unexamined.Reasons = said // the engine has them in one text
	}
	return r.config.Types.NewNodeToStatus(byName, statusOf(&unexamined))
}

func alike(a, b *reason.Rejection) bool {
	if a.Plugin != b.Plugin || a.Unresolvable != b.Unresolvable || a.Pending != b.Pending || a.Failed != b.Failed || len(a.Reasons) != len(b.Reasons) {
		return false
	}
	for i := range a.Reasons {
		if a.Reasons[i] != b.Reasons[i] {
			return false
		}
	}
	return true
}

// statusOf returns a rejection as a status.
func statusOf(r *reason.Rejection) *fwk.Status {
	code := fwk.Unschedulable
	switch {
	case r.Failed:
		return fwk.AsStatus(fmt.Errorf("running %q filter plugin: %s", r.Plugin, r.Message())).WithPlugin(r.Plugin)
	case r.Pending:
		code = fwk.Pending
	case r.Unresolvable:
		code = fwk.UnschedulableAndUnresolvable
	}
	return fwk.NewStatus(code, r.Reasons...).WithPlugin(r.Plugin)
}
