package scene

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// arrival is a pod that is created while the binder runs.
type arrival struct {
	*v1.Pod
	pending bool // it stays so
}

// TestAnswersCanBeCarriedOut checks that every pod fits on the node of its answer once
// the victims are gone.
func TestAnswersCanBeCarriedOut(t *testing.T) {
	for _, scale := range []float64{0.00013, 0.001, 0.02} {
		for name, beside := range map[string]func(i, nodes int) arrival{
			"PreemptionAsync/5000Nodes_AsyncAPICallsEnabled": func(i, nodes int) arrival { return arrival{preemptor(i), i >= nodes} },
			"PreemptionBurst/5000Preemptors":                 nil,
			"Unschedulable/5kNodes/100Init/10kPods":          func(i, _ int) arrival { return arrival{tooLarge(i), true} },
			"Unschedulable/5kNodes/20kInit/10kPods":          func(i, _ int) arrival { return arrival{tooLarge(i), true} },
		} {
			s := Workloads(name, scale)[0]
			var arriving []arrival
			for i := range s.Measured.Count {
				arriving = append(arriving, arrival{s.Measured.Pod(i), false})
			}
			for i := 0; beside != nil && i < s.Site.Nodes+2; i++ {
				arriving = append(arriving, beside(i, s.Site.Nodes))
			}
			checkAnswers(t, s, arriving)
		}
	}
}

func checkAnswers(t *testing.T, s *Scene, arriving []arrival) {
	t.Helper()
	type place struct {
		node int
		cpu  int64
	}
	requests := func(p *v1.Pod) int64 { return p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() }
	free := make([]int64, s.Site.Nodes)
	for i := range free {
		free[i] = s.Site.Node(i).Status.Allocatable.Cpu().MilliValue()
	}
	running := map[types.NamespacedName]place{}
	for _, group := range append(append([]Pods{}, s.Standing...), s.Fresh...) {
		for i := range group.Count {
			p := group.Pod(i)
			running[types.NamespacedName{Namespace: group.NamespaceOf(i), Name: p.Name}] = place{group.Node(i), requests(p)}
			free[group.Node(i)] -= requests(p)
		}
	}
	for _, p := range arriving {
		a := s.Answer(p.Pod)
		if a.Pending() != p.pending {
			t.Fatalf("%s: %s stays pending: %v", s.Name, p.Name, a.Pending())
		}
		if (a.Message != "") != (p.pending || len(a.Victims) > 0) {
			t.Fatalf("%s: %s with %d victims has the message %q", s.Name, p.Name, len(a.Victims), a.Message)
		}
		if p.pending {
			continue
		}
		for _, victim := range a.Victims {
			at, runs := running[victim]
			if !runs || at.node != a.Node {
				t.Fatalf("%s: %s has to make room on node %d for %s, and is on %+v", s.Name, victim, a.Node, p.Name, at)
			}
			free[a.Node] += at.cpu
			delete(running, victim)
		}
		if free[a.Node] -= requests(p.Pod); free[a.Node] < 0 {
			t.Fatalf("%s: %s does not fit on node %d", s.Name, p.Name, a.Node)
		}
	}
}

func TestSequenceOfNames(t *testing.T) {
	for _, test := range []struct {
		name, prefix string
		i            int
	}{{"pod-000012", "pod", 12}, {"too-large-000003", "too-large", 3}, {"probe", "probe", 0}, {"scheduler-perf-node", "scheduler-perf-node", 0}, {"", "", 0}} {
		if prefix, i := sequence(test.name); prefix != test.prefix || i != test.i {
			t.Errorf("%q is %q and %d", test.name, prefix, i)
		}
	}
	if m := Workloads("Unschedulable", 0.001)[0].Answer(tooLarge(0)).Message; !strings.HasPrefix(m, "0/5 nodes are available: 5 Insufficient cpu. preemption: 0/5") {
		t.Errorf("the message is %q", m)
	}
}
