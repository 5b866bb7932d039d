package framework_test

import (
	"context"
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

type queues struct {
	named
	status *fwk.Status
	panics bool
	events []fwk.ClusterEventWithHint
	err    error
}

func (p *queues) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if p.panics {
		panic("boom")
	}
	pod.Labels = map[string]string{"written": "by a plugin"}
	return p.status
}

func (p *queues) Less(a, b fwk.QueuedEntityInfo) bool {
	if p.panics {
		panic("boom")
	}
	name := func(q fwk.QueuedEntityInfo) string {
		return q.(interface{ GetPodInfo() fwk.PodInfo }).GetPodInfo().GetPod().Name
	}
	return name(a) < name(b)
}

func (p *queues) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return p.events, p.err
}

// TestPreEnqueue makes a plugin return every status.
func TestPreEnqueue(t *testing.T) {
	for _, test := range []struct {
		p    queues
		want string
	}{
		{queues{}, ""},
		{queues{status: status(fwk.Success)}, ""},
		{queues{status: status(fwk.Unschedulable, "not yet")}, "not yet"},
		{queues{status: status(fwk.UnschedulableAndUnresolvable)}, "plugin P gave no reason"},
		{queues{status: fwk.AsStatus(errors.New("broken"))}, "broken"},
		{queues{status: status(50)}, "returned the status code 50 at PreEnqueue, which is unsupported: it is supposed to return Success, Error, Unschedulable, UnschedulableAndUnresolvable or Pending"},
		{queues{panics: true}, `plugin "P" at PreEnqueue: panicked: boom`},
	} {
		test.p.named = "P"
		w := newWorld(t, 1)
		points, err := w.runtime.Adapt(&test.p)
		if err != nil {
			t.Fatal(err)
		}
		pod := w.pod("p", "1")
		if got := points.PreEnqueue.Pod(pod); got != test.want {
			t.Errorf("%q; want %q", got, test.want)
		}
		if pod.Object.Labels["written"] != "" {
			t.Error("a plugin has written to the state's pod")
		}
	}
}

// TestHints makes hints return, fail and panic. After a failure the pod is queued.
func TestHints(t *testing.T) {
	w := newWorld(t, 1)
	waiting := w.pod("p", "1")
	node := model.NewNode(build.Node("n9"))
	event := model.Event{Resource: model.NodeEvent, Action: model.Add, Node: node}
	on := fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}
	hint := func(hint fwk.QueueingHint, err error) fwk.QueueingHintFn {
		return func(_ klog.Logger, pod *v1.Pod, before, after any) (fwk.QueueingHint, error) {
			if n, ok := after.(*v1.Node); before != nil || !ok || n.Name != "n9" || n == node.Object || pod == waiting.Object {
				t.Errorf("the hint got %v and %v", before, after)
			}
			return hint, err
		}
	}
	pre := func(all bool, names ...string) fwk.PreQueueingHintFn {
		return func(klog.Logger, any, any) (fwk.PreQueueingHintResult, error) {
			result := fwk.PreQueueingHintResult{AllPods: all}
			for _, name := range names {
				result.Pods = append(result.Pods, types.NamespacedName{Namespace: waiting.Namespace, Name: name})
			}
			return result, nil
		}
	}
	for name, test := range map[string]struct {
		registered fwk.ClusterEventWithHint
		want       bool
	}{
		"none":       {fwk.ClusterEventWithHint{Event: on}, true},
		"Queue":      {fwk.ClusterEventWithHint{Event: on, QueueingHintFn: hint(fwk.Queue, nil)}, true},
		"Skip":       {fwk.ClusterEventWithHint{Event: on, QueueingHintFn: hint(fwk.QueueSkip, nil)}, false},
		"error":      {fwk.ClusterEventWithHint{Event: on, QueueingHintFn: hint(fwk.QueueSkip, errors.New("broken"))}, true},
		"panic":      {fwk.ClusterEventWithHint{Event: on, QueueingHintFn: func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) { panic("boom") }}, true},
		"pre":        {fwk.ClusterEventWithHint{Event: on, PreQueueingHintFn: pre(false, "p"), QueueingHintFn: hint(fwk.Queue, nil)}, true},
		"pre, other": {fwk.ClusterEventWithHint{Event: on, PreQueueingHintFn: pre(false, "q"), QueueingHintFn: hint(fwk.Queue, nil)}, false},
		"pre, all":   {fwk.ClusterEventWithHint{Event: on, PreQueueingHintFn: pre(true), QueueingHintFn: hint(fwk.QueueSkip, nil)}, false},
	} {
		points, err := w.runtime.Adapt(&queues{named: "P", events: []fwk.ClusterEventWithHint{test.registered}})
		if err != nil {
			t.Fatal(err)
		}
		events := points.EnqueueExtensions.Events
		if len(events) != 1 || events[0].Actions != model.Add|model.UpdateNodeLabel || events[0].Helps(waiting, event) != test.want {
			t.Errorf("%s: helps: %v, of %+v; want %v", name, len(events) > 0 && events[0].Helps(waiting, event), events, test.want)
		}
	}
	points, err := w.runtime.Adapt(&filters{named: "silent"})
	if err != nil {
		t.Fatal(err)
	}
	helped := 0
	for _, e := range points.EnqueueExtensions.Events {
		if e.Helps(waiting, event) {
			helped++
		}
	}
	if helped != 1 {
		t.Errorf("of what is registered for a plugin that does not say, %d help", helped)
	}
	if _, err := w.runtime.Adapt(&queues{named: "P", err: errors.New("broken")}); err == nil || err.Error() != `plugin "P" at EventsToRegister: broken` {
		t.Errorf("%v", err)
	}
	points, err = w.runtime.Adapt(&scores{named: "S"})
	if err != nil || points.EnqueueExtensions != nil {
		t.Errorf("a plugin that cannot reject pods registers: %v, %v", points.EnqueueExtensions, err)
	}
}
