package defaultpreemption

import (
	"errors"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func TestContract(t *testing.T) {
	p, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	plugintest.CheckContract(t, p, plugintest.Contract{
		Name: "DefaultPreemption", Reads: []model.Kind{model.PodDisruptionBudgetKind}, Events: []string{"AssignedPodDelete, hint"},
	})
	gone := model.Event{Resource: model.AssignedPodEvent, Action: model.Delete, OldPod: model.NewPod(build.Pod())}
	if plugintest.Helped(t, p, model.NewPod(build.Pod()), gone) || p.PreEnqueue(model.NewPod(build.Pod())) != "" {
		t.Error("the plugin itself wakes or holds back a pod")
	}
}

// cycle is a cycle whose filters read only the pods' usage, and reject every node that
// still has pods.
type cycle struct {
	plugin.Cycle
	view  state.View
	found plugin.Preemption
	err   error
}

func (c *cycle) View() state.View { return c.view }
func (c *cycle) Preempt(plugin.PreemptionRules) (plugin.Preemption, error) {
	if c.found.Candidate != nil {
		c.found.Candidate.Outranked = c.view.NominatedBelow(model.NewPod(priority(10, build.Named("p"))), c.found.Candidate.Slot)
	}
	return c.found, c.err
}

// evicting is a turn whose search finds victims on the first node.
func evicting(victims ...*v1.Pod) cycle {
	found := &plugin.Candidate{}
	for _, v := range victims {
		found.Victims = append(found.Victims, model.NewPod(v))
	}
	return cycle{found: plugin.Preemption{Candidate: found}}
}

func priority(p int32, options ...build.PodOption) *v1.Pod {
	pod := build.Pod(options...)
	pod.Spec.Priority = &p
	return pod
}

func TestPostFilter(t *testing.T) {
	on := build.NodeName("n1")
	nodes := []*v1.Node{build.Node("n1"), build.Node("n2")}
	leaving := priority(1, on, build.Named("leaving"), build.Terminating)
	broken := errors.New("broken")
	a, weak := priority(2, on, build.Named("a")), priority(1, on, build.Named("a"))
	preemptor := model.NewPod(priority(10, build.Named("p")))
	never := model.NewPod(priority(10, build.Named("p"), func(p *v1.Pod) { policy := v1.PreemptNever; p.Spec.PreemptionPolicy = &policy }))
	nominated := priority(5, build.Named("outranked"), build.NominatedNodeName("n1"))
	unhelpful := &plan.Rejection{Counts: []reason.Count{{Nodes: 2, Reason: "Preemption is not helpful for scheduling"}}}
	for _, row := range []struct {
		name      string
		pod       *model.Pod
		placed    []*v1.Pod
		cycle     cycle
		want      plugin.PostFilterResult
		victims   []string
		outranked []string
		err       string
	}{
		{name: "never", pod: never, cycle: cycle{found: plugin.Preemption{Ineligible: "not eligible due to preemptionPolicy=Never."}}, want: plugin.PostFilterResult{Message: "preemption: not eligible due to preemptionPolicy=Never."}},
		{name: "nothing helps", pod: preemptor, cycle: cycle{found: plugin.Preemption{Rejection: unhelpful}}, want: plugin.PostFilterResult{
			Message:    "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
			Nomination: plan.Clear,
		}},
		{name: "a victim", pod: preemptor, placed: []*v1.Pod{weak, nominated}, cycle: evicting(weak),
			want: plugin.PostFilterResult{
				Done: true, Message: "preemption: found a potential placement for pod on node n1, preempting 1 victims", Nomination: plan.Set, NodeName: "n1",
			}, victims: []string{"a"}, outranked: []string{"outranked"}},
		{name: "all victims are leaving", pod: preemptor, placed: []*v1.Pod{leaving, nominated}, cycle: evicting(leaving),
			want: plugin.PostFilterResult{
				Done: true, Message: "preemption: found a potential placement for pod on node n1, preempting 1 victims", Nomination: plan.Set, NodeName: "n1",
			}, victims: []string{"leaving"}},
		{name: "one victim is leaving", pod: preemptor, placed: []*v1.Pod{leaving, a, nominated}, cycle: evicting(a, leaving),
			want: plugin.PostFilterResult{
				Done: true, Message: "preemption: found a potential placement for pod on node n1, preempting 2 victims", Nomination: plan.Set, NodeName: "n1",
			}, victims: []string{"a", "leaving"}, outranked: []string{"outranked"}},
		{name: "an extender leaves none", pod: preemptor, placed: []*v1.Pod{weak},
			want: plugin.PostFilterResult{Message: "preemption: no candidate node for preemption", Transient: true}},
		{name: "an error", pod: preemptor, placed: []*v1.Pod{weak}, cycle: cycle{err: broken}, err: "preemption: broken"},
	} {
		c := row.cycle
		c.view = plugintest.Cluster(nodes, row.placed...).View()
		p, err := New(nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.PostFilter(&c, row.pod)
		if text := errorText(err); text != row.err || err != nil && !errors.Is(err, broken) {
			t.Errorf("%s: error %q, want %q", row.name, text, row.err)
		}
		var victims, outranked []string
		for _, e := range got.Evictions {
			if victims = append(victims, e.Pod.Name); e.NodeName != "n1" {
				t.Errorf("%s: %s is evicted from %s", row.name, e.Pod.Name, e.NodeName)
			}
		}
		for _, o := range got.Outranked {
			outranked = append(outranked, o.Name)
		}
		plugintest.Equal(t, row.name+": victims", victims, row.victims...)
		plugintest.Equal(t, row.name+": outranked", outranked, row.outranked...)
		got.Evictions, got.Outranked = nil, nil
		if !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s: got %+v, want %+v", row.name, got, row.want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
