package framework

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

type preFilter struct {
	external
	plugin fwk.PreFilterPlugin
}

// run runs the plugin for all nodes. As in kube-scheduler 1.37, a status Pending is an
// error here.
func (p *preFilter) run(state.View, *model.Pod) plugin.PreFilterResult {
	t := p.r.turn
	nodes, err := p.r.config.Snapshot.Lister().NodeInfos().List()
	if err != nil {
		return plugin.PreFilterResult{Err: fmt.Errorf("getting all nodes: %w", err)}
	}
	type result struct {
		outcome
		nodes    []string
		narrowed bool
	}
	cycle, object := t.state, t.object
	found, err := call(p.r.lane, PreFilter, p.name, func(ctx context.Context) (found result) {
		r, status := p.plugin.PreFilter(ctx, cycle, object, nodes)
		found.outcome = readPreFilter(status)
		if found.code == fwk.Success && !r.AllNodes() {
			found.nodes, found.narrowed = sets.List(r.NodeNames), true
		}
		return found
	})
	p.observe(PreFilter, found.code, 1, err)
	switch {
	case err != nil:
		return plugin.PreFilterResult{Err: err}
	case found.err != nil:
		return plugin.PreFilterResult{Err: found.err}
	case found.code == fwk.Skip:
		t.skippedFilters.Insert(p.name)
		// An abandoned call may still read the last set.
		t.state.SetSkipFilterPlugins(t.skippedFilters.Clone())
		return plugin.PreFilterResult{}
	case found.isRejection():
		if t.preFilter == nil {
			t.preFilter = map[string][]string{}
		}
		t.preFilter[p.name] = found.reasons
		return plugin.PreFilterResult{Rejection: p.rejection(&found.outcome), Resolvable: found.code == fwk.Unschedulable}
	}
	return plugin.PreFilterResult{Narrowed: found.narrowed, Nodes: found.nodes}
}

func readPreFilter(status *fwk.Status) outcome {
	o := read(status, PreFilter, success|failing|rejecting|skips)
	if o.code == fwk.Pending {
		return outcome{code: fwk.Error, err: said(status.AsError())}
	}
	return o
}

// rejection returns the text of a rejection, which must not be empty.
func (o *external) rejection(said *outcome) string {
	if text := said.message(); text != "" {
		return text
	}
	return "plugin " + o.name + " gave no reason"
}
