package framework_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	st "github.com/berth-scheduler/berth/framework/testing"
)

// These tests fix the behaviour that parity/plugged compares with kube-scheduler.

// judge is a plugin with a result at PreFilter. It rejects all nodes at Filter, and
// records statuses.
type judge struct {
	named
	result *fwk.PreFilterResult
	status *fwk.Status
	noted  []string
}

func (p *judge) PreFilter(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return p.result, p.status
}

func (*judge) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (*judge) Filter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) *fwk.Status {
	return fwk.NewStatus(fwk.Unschedulable, "refused")
}

func (p *judge) PostFilter(_ context.Context, _ fwk.CycleState, _ *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	for _, name := range []string{"a", "b", "none"} {
		s := statuses.Get(name)
		p.noted = append(p.noted, fmt.Sprintf("%s %v %q %s", name, s.Code(), s.Reasons(), s.Plugin()))
	}
	if all, ok := statuses.(interface{ Len() int }); ok {
		p.noted = append(p.noted, fmt.Sprint(all.Len(), " by name"))
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// TestStatusesOfNodesWithoutFilter checks the statuses of nodes without a filter call,
// and of names without a node. They share one status, which lists the reasons of
// PreFilter separately.
func TestStatusesOfNodesWithoutFilter(t *testing.T) {
	for _, test := range []struct {
		name   string
		result *fwk.PreFilterResult
		status *fwk.Status
		want   []string
	}{
		{"two reasons", nil, fwk.NewStatus(fwk.Unschedulable, "one", "two"), []string{
			`a Unschedulable ["one" "two"] Judge`, `b Unschedulable ["one" "two"] Judge`, `none Unschedulable ["one" "two"] Judge`, "0 by name"}},
		{"unresolvable", nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "one"), []string{
			`a UnschedulableAndUnresolvable ["one"] Judge`, `b UnschedulableAndUnresolvable ["one"] Judge`, `none UnschedulableAndUnresolvable ["one"] Judge`, "0 by name"}},
		{"narrowed", &fwk.PreFilterResult{NodeNames: sets.New("a", "none")}, nil, []string{
			`a Unschedulable ["refused"] Judge`, `b UnschedulableAndUnresolvable ["node(s) didn't satisfy plugin(s) [Judge]"] `,
			`none UnschedulableAndUnresolvable ["node(s) didn't satisfy plugin(s) [Judge]"] `, "1 by name"}},
		{"filtered", nil, nil, []string{`a Unschedulable ["refused"] Judge`, `b Unschedulable ["refused"] Judge`, `none UnschedulableAndUnresolvable [] `, "2 by name"}},
	} {
		p := &judge{named: "Judge", result: test.result, status: test.status}
		c := probed(t, nil, st.WithPlugin("Judge", func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return p, nil }, nil))
		c.Schedule(podOf("web", "1").Obj())
		if len(p.noted) > len(test.want) { // the plugin has no EventsToRegister: its pod is retried
			p.noted = p.noted[:len(test.want)]
		}
		if !slices.Equal(p.noted, test.want) {
			t.Errorf("%s: the statuses are\n%q, want\n%q", test.name, p.noted, test.want)
		}
	}
}

// holder is a plugin that gates a pod until it has a label, and records its hint's
// arguments.
type holder struct {
	named
	noted []string
}

func (*holder) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if pod.Labels["go"] == "yes" {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "held")
}

func (p *holder) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel},
		QueueingHintFn: func(_ klog.Logger, pod *v1.Pod, before, after any) (fwk.QueueingHint, error) {
			p.noted = append(p.noted, fmt.Sprintf("%s: %q to %q", pod.Name, before.(*v1.Pod).Labels["go"], after.(*v1.Pod).Labels["go"]))
			return fwk.QueueSkip, nil
		},
	}}, nil
}

// TestHintOfHeldPod changes the labels of a gated pod. The plugin's hint is called with
// both versions, as in kube-scheduler, and the plugin is called again whatever the hint
// returns.
func TestHintOfHeldPod(t *testing.T) {
	p := &holder{named: "Holder"}
	c := probed(t, nil, st.WithPlugin("Holder", func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return p, nil }, nil))
	c.Schedule(podOf("web", "1").Label("go", "no").Obj())
	c.Set(podOf("web", "1").Label("go", "soon").Obj())
	c.Settle()
	c.Set(podOf("web", "1").Label("go", "yes").Obj())
	c.Settle()
	if want := []string{`web: "no" to "soon"`, `web: "soon" to "yes"`}; !slices.Equal(p.noted, want) {
		t.Errorf("the hint was called for %q, want %q", p.noted, want)
	}
	if node := c.Pod("shop", "web").Spec.NodeName; node == "" {
		t.Error("the pod is held though it may go")
	}
}
