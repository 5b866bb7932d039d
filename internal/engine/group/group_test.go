package group

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/build"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugins/plugintest"
)

// TestRefuses has groups whose members do not belong together. All of them fail; one that leaves, or is on a node already, counts as well.
func TestRefuses(t *testing.T) {
	never := func(p *v1.Pod) { policy := v1.PreemptNever; p.Spec.PreemptionPolicy = &policy }
	scheduler := func(p *v1.Pod) { p.Spec.SchedulerName = "other" }
	with := func(node string, options ...build.PodOption) []build.PodOption {
		return append(options, build.NodeName(node))
	}
	for _, c := range []struct {
		name    string
		there   [][]build.PodOption // members on nodes
		waiting [][]build.PodOption
		want    string
	}{
		{"alike", [][]build.PodOption{with("n", priority(5))}, [][]build.PodOption{{priority(5)}, {priority(5)}}, ""},
		{"scheduler", nil, [][]build.PodOption{{priority(5)}, {priority(5), scheduler}},
			`all pods in a single pod group should have the same .spec.schedulerName set, got: "default-scheduler" and "other"`},
		{"priority of the group", nil, [][]build.PodOption{{priority(5)}, {priority(4)}},
			"all pods in a single pod group should have the same priority as the pod group's priority, got 4 and 5"},
		{"policy", nil, [][]build.PodOption{{priority(5)}, {priority(5), never}},
			"all pods in a single pod group should have the same preemption policy, got PreemptLowerPriority and Never"},
		{"one that leaves", nil, [][]build.PodOption{{priority(5)}, {priority(5), never, build.Terminating}},
			"all pods in a single pod group should have the same preemption policy, got PreemptLowerPriority and Never"},
		{"on nodes, the first by name", [][]build.PodOption{with("n", priority(5)), with("n", priority(3)), with("n", priority(2))}, [][]build.PodOption{{priority(5)}},
			"all pods in a single pod group should have the same priority as the pod group's priority, got 3 and 5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := podGroup("g", 1, 5)
			crowd := newCrowd(t, 1, g, build.Node("n", build.Allocatable("cpu=9 pods=20")))
			names := []string{"a", "b", "c"}
			for i, options := range c.there {
				plugintest.Set(crowd.state, newMember("on-"+names[i], options...))
			}
			var members []*v1.Pod
			for i, options := range c.waiting {
				members = append(members, newMember(names[i], options...))
			}
			d := Decide(crowd.state, crowd.engine, crowd.work(g, members...), nil)
			if d.Message != c.want || (d.Outcome == plan.Failed) != (c.want != "") {
				t.Errorf("%s: %s", d.Outcome, d.Message)
			}
			for i := range d.Members {
				if m := &d.Members[i]; c.want != "" && (m.Outcome != plan.Failed || m.Err.Error() != c.want) {
					t.Errorf("member %d: %s: %v", i, m.Outcome, m.Err)
				}
			}
		})
	}
}
