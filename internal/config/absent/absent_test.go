package absent

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
)

// rejecting returns the names of the plugins that reject the pod, and the message of the
// first.
func rejecting(t *testing.T, spec v1.PodSpec) (plugins, text string) {
	t.Helper()
	var names []string
	for _, name := range []string{
		"GangScheduling", "TopologyPlacementGenerator",
	} {
		p, err := New(name)
		if err != nil {
			t.Fatal(err)
		}
		pod := model.NewPod(&v1.Pod{Spec: spec})
		result := p.PreFilter.Run(state.View{}, pod)
		if p.PreFilter.Skips(pod) != result.IsZero() {
			t.Errorf("%s returns %+v; skips: %t", name, result, p.PreFilter.Skips(pod))
		}
		rejection := result.Rejection
		if result.Narrowed || result.Err != nil {
			t.Errorf("%s narrows to %v, error %v", name, result.Nodes, result.Err)
		}
		if rejection == "" {
			continue
		}
		names = append(names, name)
		need, ok := strings.CutPrefix(rejection, name+" is not part of this version of Berth: the pod ")
		if !ok {
			t.Errorf("%s says %q", name, rejection)
		}
		if text == "" {
			text = need
		}
	}
	return strings.Join(names, " "), text
}

func TestDemands(t *testing.T) {
	group := "workers"
	for _, row := range []struct {
		name          string
		spec          v1.PodSpec
		plugins, text string
	}{
		{"nothing", v1.PodSpec{}, "", ""},
		{"group", v1.PodSpec{SchedulingGroup: &v1.PodSchedulingGroup{PodGroupName: &group}}, "GangScheduling TopologyPlacementGenerator", `belongs to pod group "workers"`},
		{"nameless group", v1.PodSpec{SchedulingGroup: &v1.PodSchedulingGroup{}}, "GangScheduling TopologyPlacementGenerator", `belongs to a pod group`},
	} {
		if plugins, text := rejecting(t, row.spec); plugins != row.plugins || text != row.text {
			t.Errorf("%s: rejected by %q: %s\nwant %q: %s", row.name, plugins, text, row.plugins, row.text)
		}
	}
}

func TestNew(t *testing.T) {
	for _, name := range []string{"DeferredPodScheduling", "PodGroupPodsCount"} {
		if plugin, err := New(name); plugin != nil || err != nil {
			t.Errorf("%s: %v, %v, want nothing", name, plugin, err)
		}
	}
	if _, err := New("Nonsense"); err == nil {
		t.Error("a plugin that nobody has thought about is passed over")
	}
}

// Only an update of the pod itself requeues it, and only if it removes the demand.
func TestEventsToRegister(t *testing.T) {
	p, err := New("GangScheduling")
	if err != nil {
		t.Fatal(err)
	}
	with, without := model.NewPod(&v1.Pod{Spec: v1.PodSpec{SchedulingGroup: &v1.PodSchedulingGroup{}}}), model.NewPod(&v1.Pod{})
	for _, row := range []struct {
		name  string
		event model.Event
		want  bool
	}{
		{"demand gone", model.Event{Resource: model.TargetPodEvent, Action: model.Update, OldPod: with, Pod: without}, true},
		{"relabelled", model.Event{Resource: model.TargetPodEvent, Action: model.UpdatePodLabel, OldPod: with, Pod: with}, false},
		{"status", model.Event{Resource: model.TargetPodEvent, Action: model.Update, OldPod: with, Pod: with}, false},
		{"node", model.Event{Resource: model.NodeEvent, Action: model.Add, Node: model.NewNode(&v1.Node{})}, false},
		{"pod gone", model.Event{Resource: model.AssignedPodEvent, Action: model.Delete, OldPod: without}, false},
	} {
		helps := false
		for _, event := range p.EnqueueExtensions.Events {
			helps = helps || event.Helps(with, row.event)
		}
		if helps != row.want {
			t.Errorf("%s: helps = %t, want %t", row.name, helps, row.want)
		}
	}
}
