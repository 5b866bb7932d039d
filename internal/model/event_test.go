package model

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNodeUpdates(t *testing.T) {
	condition := func(status v1.ConditionStatus, message string) []v1.NodeCondition {
		return []v1.NodeCondition{{Type: v1.NodeReady, Status: status, Message: message}}
	}
	all := func(n *v1.Node) {
		n.Spec.Unschedulable = false
		n.Spec.Taints = []v1.Taint{{Key: "t"}}
		n.Spec.PodPreemptionPolicy = &v1.NodePodPreemptionPolicy{DisableResizePreemption: []string{"a"}}
		n.Labels, n.Annotations = map[string]string{"l": "2"}, map[string]string{"a": "2"}
		n.Status.Allocatable = list("cpu=2")
		n.Status.Conditions = condition(v1.ConditionFalse, "")
		n.Status.DeclaredFeatures = []string{"f"}
	}
	for _, row := range []struct {
		name   string
		before func(*v1.Node)
		after  func(*v1.Node)
		want   []Action
	}{
		{"nothing", nil, nil, nil},
		{"heartbeat", nil, func(n *v1.Node) { n.Status.Conditions = condition(v1.ConditionTrue, "new") }, nil},
		{"condition", nil, func(n *v1.Node) { n.Status.Conditions = condition(v1.ConditionFalse, "") }, []Action{UpdateNodeCondition}},
		{"condition gone", nil, func(n *v1.Node) { n.Status.Conditions = nil }, []Action{UpdateNodeCondition}},
		{"condition listed twice", nil, func(n *v1.Node) { n.Status.Conditions = slices.Concat(condition("True", ""), condition("True", "")) }, nil},
		{"allocatable", nil, func(n *v1.Node) { n.Status.Allocatable = list("cpu=2") }, []Action{UpdateNodeAllocatable}},
		{"allocatable written otherwise", nil, func(n *v1.Node) { n.Status.Allocatable = list("cpu=1000m") }, nil},
		{"allocatable of a name without account", nil, func(n *v1.Node) { n.Status.Allocatable = list("cpu=1 foo=1") }, []Action{UpdateNodeAllocatable}},
		{"allowed pods", nil, func(n *v1.Node) { n.Status.Allocatable = list("cpu=1 pods=1") }, []Action{UpdateNodeAllocatable}},
		{"label", nil, func(n *v1.Node) { n.Labels = map[string]string{"l": "2"} }, []Action{UpdateNodeLabel}},
		{"taint", nil, func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "t"}} }, []Action{UpdateNodeTaint}},
		{"cordoned", nil, func(n *v1.Node) { n.Spec.Unschedulable = true }, nil},
		{"uncordoned", func(n *v1.Node) { n.Spec.Unschedulable = true }, nil, []Action{UpdateNodeTaint}},
		{"annotation", nil, func(n *v1.Node) { n.Annotations = map[string]string{"a": "2"} }, []Action{UpdateNodeAnnotation}},
		{"features", nil, func(n *v1.Node) { n.Status.DeclaredFeatures = []string{"f"} }, []Action{UpdateNodeDeclaredFeature}},
		{"images", nil, func(n *v1.Node) { n.Status.Images = []v1.ContainerImage{{Names: []string{"i"}}} }, nil},
		{"all, in order", func(n *v1.Node) { n.Spec.Unschedulable = true }, all, []Action{
			UpdateNodeTaint, UpdateNodeAllocatable, UpdateNodeLabel, UpdateNodeTaint, UpdateNodeCondition, UpdateNodeAnnotation,
			UpdateNodePreemptionPolicy, UpdateNodeDeclaredFeature,
		}},
	} {
		build := func(change func(*v1.Node)) *Node {
			n := &v1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "1"}},
				Status:     v1.NodeStatus{Allocatable: list("cpu=1"), Conditions: condition(v1.ConditionTrue, "")},
			}
			if change != nil {
				change(n)
			}
			return NewNode(n)
		}
		if got := NodeUpdates(build(row.before), build(row.after)); !slices.Equal(got, row.want) {
			t.Errorf("%s: %b, want %b", row.name, got, row.want)
		}
	}
}

func TestPodUpdates(t *testing.T) {
	const down, up = UpdatePodScaleDown, UpdatePodScaleUp
	ask := func(requests string) *v1.Pod { return testPod{containers: specs(requests)}.build() }
	running := func(spec, allocated, actual string) *v1.Pod {
		return testPod{containers: []container{{spec, allocated, actual}}}.build()
	}
	changed := func(change func(*v1.Pod)) *v1.Pod {
		p := ask("cpu=1")
		change(p)
		return p
	}
	gated := func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "a"}} }
	claim := "claim"
	for _, row := range []struct {
		name          string
		before, after *v1.Pod
		want          []Action
	}{
		{"nothing", ask("cpu=1"), ask("cpu=1"), []Action{Update}},
		{"written otherwise", ask("cpu=1"), ask("cpu=1000m"), []Action{Update}},
		{"cpu fell", ask("cpu=2"), ask("cpu=1"), []Action{down}},
		{"cpu rose", ask("cpu=1"), ask("cpu=2"), []Action{up}},
		{"memory fell", ask("memory=2"), ask("memory=1"), []Action{down}},
		{"ephemeral rose", ask("ephemeral-storage=1"), ask("ephemeral-storage=2"), []Action{up}},
		{"one each way", ask("cpu=2 memory=1"), ask("cpu=1 memory=2"), []Action{down, up}},
		{"cpu vanished", ask("cpu=1"), ask(""), []Action{down}},
		{"cpu appeared", ask(""), ask("cpu=1"), []Action{up}},
		{"a zero vanished", ask("cpu=0"), ask(""), []Action{down}},
		{"a zero appeared", ask(""), ask("memory=0"), []Action{up}},
		{"scalar fell", ask("a.io/x=2"), ask("a.io/x=1"), []Action{down}},
		{"scalar rose", ask("a.io/x=1"), ask("a.io/x=2"), []Action{up}},
		{"scalar vanished", ask("a.io/x=0 b.io/x=1"), ask("b.io/x=1"), []Action{down}},
		{"scalar appeared", ask("b.io/x=1"), ask("b.io/x=1 c.io/x=0"), []Action{up}},
		{"scalar replaced", ask("a.io/x=1 d.io/x=1"), ask("b.io/x=1 d.io/x=1"), []Action{down, up}},
		{"scalar replaced by an earlier one", ask("b.io/x=1"), ask("a.io/x=1"), []Action{down, up}},
		{"less than a byte", ask("memory=1900m"), ask("memory=1100m"), []Action{down}},
		{"less than a unit", ask("a.io/x=100m"), ask("a.io/x=200m"), []Action{up}},
		{"less than a thousandth", ask("cpu=900u"), ask("cpu=100u"), []Action{Update}},
		{"a name without account", ask("foo=2"), ask("foo=1"), []Action{down}},
		{"a name without account appeared", ask("cpu=1"), ask("cpu=1 foo=1"), []Action{up}},
		{"spec fell, actual did not", running("cpu=2", "cpu=2", "cpu=2"), running("cpu=1", "cpu=1", "cpu=2"), []Action{Update}},
		{"then actual fell", running("cpu=1", "cpu=1", "cpu=2"), running("cpu=1", "cpu=1", "cpu=1"), []Action{down}},
		{"spec rose", running("cpu=1", "cpu=1", "cpu=1"), running("cpu=2", "cpu=1", "cpu=1"), []Action{up}},
		{"then actual rose", running("cpu=2", "cpu=1", "cpu=1"), running("cpu=2", "cpu=2", "cpu=2"), []Action{Update}},
		{"labels", ask("cpu=1"), changed(func(p *v1.Pod) { p.Labels = map[string]string{"l": "1"} }), []Action{UpdatePodLabel}},
		{"gates gone", changed(gated), ask("cpu=1"), []Action{UpdatePodSchedulingGatesEliminated}},
		{"gates come", ask("cpu=1"), changed(gated), []Action{Update}},
		{"one toleration more", ask("cpu=1"), changed(func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{}} }), []Action{UpdatePodToleration}},
		{"claims generated", ask("cpu=1"), changed(func(p *v1.Pod) {
			p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "c", ResourceClaimName: &claim}}
		}), []Action{UpdatePodGeneratedResourceClaim}},
		{"all, in order", changed(func(p *v1.Pod) {
			gated(p)
			p.Spec.Containers[0].Resources.Requests = list("cpu=2 memory=1")
			p.Labels = map[string]string{"l": "1"}
		}), changed(func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests = list("cpu=1 memory=2")
			p.Spec.Tolerations = []v1.Toleration{{}}
			p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "c"}}
		}), []Action{UpdatePodLabel, down, up, UpdatePodSchedulingGatesEliminated, UpdatePodToleration, UpdatePodGeneratedResourceClaim}},
	} {
		if got := PodUpdates(NewPod(row.before), NewPod(row.after)); !slices.Equal(got, row.want) {
			t.Errorf("%s: %b, want %b", row.name, got, row.want)
		}
		// Without the flag occupiesAll, as for a pod compiled by hand, the result is the
		// same.
		x, y := *NewPod(row.before), *NewPod(row.after)
		x.occupiesAll = false
		if got := PodUpdates(&x, &y); !slices.Equal(got, row.want) {
			t.Errorf("%s, by lists: %b, want %b", row.name, got, row.want)
		}
	}
}

func TestConcerns(t *testing.T) {
	for _, row := range []struct {
		name     string
		resource EventResource
		actions  Action
		raised   Event
		want     bool
	}{
		{"same", NodeEvent, Add, Event{Resource: NodeEvent, Action: Add}, true},
		{"one of several", NodeEvent, Add | UpdateNodeLabel, Event{Resource: NodeEvent, Action: Add}, true},
		{"another action", NodeEvent, Add | UpdateNodeLabel, Event{Resource: NodeEvent, Action: Delete}, false},
		{"another resource", NodeEvent, Add, Event{Resource: AssignedPodEvent, Action: Add}, false},
		{"any update", TargetPodEvent, Update, Event{Resource: TargetPodEvent, Action: UpdatePodLabel}, true},
		{"any update of a node", NodeEvent, Update, Event{Resource: NodeEvent, Action: UpdateNodeTaint}, true},
		{"unspecific for unspecific", AssignedPodEvent, Update, Event{Resource: AssignedPodEvent, Action: Update}, true},
		{"unspecific for specific", AssignedPodEvent, UpdatePodLabel, Event{Resource: AssignedPodEvent, Action: Update}, false},
		{"unspecific for several", AssignedPodEvent, Delete | UpdatePodLabel | UpdatePodScaleDown, Event{Resource: AssignedPodEvent, Action: Update}, false},
		{"any pod: assigned", AnyPodEvent, Delete, Event{Resource: AssignedPodEvent, Action: Delete}, true},
		{"any pod: unscheduled", AnyPodEvent, Delete, Event{Resource: UnscheduledPodEvent, Action: Delete}, true},
		{"any pod: target", AnyPodEvent, Delete, Event{Resource: TargetPodEvent, Action: Delete}, true},
		{"any pod: node", AnyPodEvent, Delete, Event{Resource: NodeEvent, Action: Delete}, false},
		{"one kind of pod", TargetPodEvent, Delete, Event{Resource: AssignedPodEvent, Action: Delete}, false},
	} {
		if got := (EventToRegister{Resource: row.resource, Actions: row.actions}).Concerns(row.raised); got != row.want {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}

func TestHelps(t *testing.T) {
	pod, event := &Pod{Name: "p"}, Event{Resource: NodeEvent, Action: Add}
	answer := func(yes bool) func(*Pod, Event) bool {
		return func(waiting *Pod, e Event) bool { return yes && waiting == pod && e.Action == Add }
	}
	for _, row := range []struct {
		name  string
		hint  func(*Pod, Event) bool
		event Event
		want  bool
	}{
		{"no hint", nil, event, true},
		{"hint agrees", answer(true), event, true},
		{"hint does not", answer(false), event, false},
		{"not concerned", answer(true), Event{Resource: NodeEvent, Action: Delete}, false},
	} {
		if got := (EventToRegister{Resource: NodeEvent, Actions: Add, Hint: row.hint}).Helps(pod, row.event); got != row.want {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}

// Comparing registrations with events depends on kube-scheduler's order of the actions.
func TestActionOrder(t *testing.T) {
	order := []Action{
		Add, Delete, UpdateNodeAllocatable, UpdateNodeLabel, UpdateNodeTaint, UpdateNodeCondition, UpdateNodeAnnotation,
		UpdateNodeDeclaredFeature, UpdateNodePreemptionPolicy, UpdatePodLabel, UpdatePodScaleDown, UpdatePodScaleUp,
		UpdatePodToleration, UpdatePodSchedulingGatesEliminated, UpdatePodGeneratedResourceClaim,
	}
	var updates Action
	for i, action := range order {
		if action != 1<<i {
			t.Errorf("action %d is %b", i, action)
		}
		if i > 1 {
			updates |= action
		}
	}
	if updates != Update {
		t.Errorf("Update is %b, want %b", Update, updates)
	}
}
