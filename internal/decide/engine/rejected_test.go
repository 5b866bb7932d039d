package engine_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// asksWhy is a PostFilter plugin that records the nodes' rejections, as they are and in
// dry runs.
type asksWhy struct {
	rejected []string
	inDryRun func(c plugin.Cycle)
}

func (*asksWhy) Name() string { return "AsksWhy" }

func (a *asksWhy) PostFilter(c plugin.Cycle, _ *model.Pod) (plugin.PostFilterResult, error) {
	a.rejected = nil
	for slot := range int32(c.View().State().Slots()) {
		a.rejected = append(a.rejected, rejectionText(c.Rejected(slot), nil))
	}
	a.inDryRun(c)
	return plugin.PostFilterResult{}, nil
}

func rejectionText(r reason.Rejection, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	if r.Plugin == "" && len(r.Reasons) == 0 && r.StatusCode() == "Unschedulable" {
		return "fits"
	}
	return fmt.Sprintf("%s of %q: %s", r.StatusCode(), r.Plugin, r.Message())
}

// TestWhyNodesAreRejected has nodes of each kind: full, left out by PreFilter, full with
// nominated pods, tainted.
func TestWhyNodesAreRejected(t *testing.T) {
	asks := &asksWhy{}
	b := withPlugins(t, 4, func(p *plugin.Profile) {
		p.PreFilters = append(p.PreFilters, plugintest.PartsOf(&says{"N", plugin.PreFilterResult{Narrowed: true, Nodes: []string{long("0"), long("2"), long("3")}}}).PreFilter)
		p.PreFilterOrder = append(p.PreFilterOrder, "N")
		p.Filters = append(p.Filters, plugintest.Filters(failsWithPods{failing(long("0"))})...)
		p.PostFilters = []*plugin.PostFilter{plugintest.PartsOf(asks).PostFilter}
	})
	place := func(name string, cpuMilli int64) *model.Pod {
		p := benchPreemptor(name, 0, cpuMilli)
		p.Spec.NodeName = long("0")
		return b.compiled(p)
	}
	large := place("large", 31_000)
	tainted := benchNode(3)
	tainted.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}}
	b.state.Apply([]model.Change{{Kind: model.PodSet, Pod: large}, {Kind: model.NodeSet, Node: model.NewNode(tainted)}})
	b.nominate(2, 10, 31_000)

	const (
		full    = `Unschedulable of "NodeResourcesFit": Insufficient cpu`
		leftOut = `UnschedulableAndUnresolvable of "": node(s) didn't satisfy plugin(s) [N]`
		taint   = `UnschedulableAndUnresolvable of "TaintToleration": node(s) had untolerated taint(s)`
	)
	asks.inDryRun = func(c plugin.Cycle) {
		rejections := func(what string, change func(*state.Draft), want ...string) {
			dryRun := c.View().DryRun(new(state.Draft))
			change(dryRun)
			var got []string
			for slot := range int32(4) {
				got = append(got, rejectionText(c.RejectionIn(dryRun, slot)))
			}
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("%s:\ngot\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		// Nominated pods are not on the node.
		rejections("as it is", func(*state.Draft) {}, full, leftOut, "fits", taint)
		rejections("without the large pod", func(d *state.Draft) { d.Remove(large.Key()) }, "fits", leftOut, "fits", taint)
		rejections("with a small one in its place", func(d *state.Draft) { d.Remove(large.Key()); d.Add(place("small", 100), 0) },
			`error: running "Failing" filter plugin: no answer`, leftOut, "fits", taint)
	}
	d := b.engine.Decide(b.state.View(), plan.Alone(b.compiled(benchPreemptor("pod", 10, 31_000))))
	if got, want := strings.Join(asks.rejected, "\n"), strings.Join([]string{full, leftOut, full, taint}, "\n"); d.Outcome != plan.Unschedulable || got != want {
		t.Errorf("%s, %v: got\n%s\nwant\n%s", d.Outcome, d.Err, got, want)
	}
}

// TestWhyPodsAreRejected: the rejection at PreFilter is the rejection of each node.
// Filters can run only if all plugins have run at PreFilter.
func TestWhyPodsAreRejected(t *testing.T) {
	asks := &asksWhy{}
	b := withPlugins(t, 2, func(p *plugin.Profile) {
		p.Filters = append(p.Filters, plugintest.Filters(&claims{})...)
		p.PostFilters = []*plugin.PostFilter{plugintest.PartsOf(asks).PostFilter}
	})
	var inDryRun []string
	asks.inDryRun = func(c plugin.Cycle) {
		inDryRun = append(inDryRun, rejectionText(c.RejectionIn(c.View().DryRun(new(state.Draft)), 0)))
	}
	b.engine.Decide(b.state.View(), plan.Alone(b.compiled(benchPreemptor("pod", 10, 100))))
	const all = `UnschedulableAndUnresolvable of "Claims": no claim`
	const none = "error: filters cannot be run: the pod was rejected before all plugins had run at PreFilter"
	if got, want := fmt.Sprintf("%q %q", asks.rejected, inDryRun), fmt.Sprintf("%q %q", []string{all, all}, []string{none}); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
