package engine_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// TestRateAgreesWithAnswer rates each node of a cluster with full, tainted, cordoned and
// unequal nodes, and a node that does not exist.
func TestRateAgreesWithAnswer(t *testing.T) {
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{Profiles: scheduler.Profiles})
	if err != nil {
		t.Fatal(err)
	}
	s, in := state.New(), ingest.New(scheduler.Compile())
	for i := range 12 {
		options := []build.NodeOption{build.Allocatable(fmt.Sprintf("cpu=%d memory=16Gi", 1+i%6)), build.NodeLabels(fmt.Sprintf("disk=%d", i%2))}
		if i%4 == 3 {
			options = append(options, build.Taints("a=b:NoSchedule"))
		}
		if i == 6 {
			options = append(options, build.Unschedulable)
		}
		in.Set(build.Node(fmt.Sprintf("n%02d", i), options...))
	}
	in.Set(build.Pod(build.Named("there"), build.NodeName("n05"), build.Container("cpu=3")))
	// Nominated with higher priority, it leaves too little space for small pods.
	in.Set(build.Pod(build.Named("other"), build.NominatedNodeName("n04"), build.Container("cpu=4")))
	pods := map[string][]build.PodOption{
		"small": {build.Container("cpu=1")}, "large": {build.Container("cpu=5")}, "none": {build.Container("cpu=50")},
		"selecting": {build.Container("cpu=1"), build.NodeSelector("disk=1")}, "two": {build.Container("cpu=3")},
	}
	for name, options := range pods {
		in.Set(build.Pod(append(options, build.Named(name))...))
	}
	kinds := map[string]bool{}
	for _, pod := range s.Apply(in.Drain()).Arrived {
		if pod.Name == "other" { // a decision considers only its nominated node
			continue
		}
		answer, err := e.Answer(s.View(), pod)
		if err != nil {
			t.Fatal(err)
		}
		for _, node := range append(answer.Nodes, plan.NodeAnswer{Name: "none"}) {
			r, err := e.Rate(s.View(), pod, node.Name)
			if err != nil {
				t.Fatal(err)
			}
			if r.IsFeasible != node.Feasible || r.Total != node.Total || !reflect.DeepEqual(r.Rejections, node.Rejections) {
				t.Errorf("pod %s, node %s: rated %+v, the answer is %+v", pod, node.Name, r, node)
			}
			best, feasible := answer.Decision.Placement, answer.Decision.Feasible
			if r.Nodes != 12 || r.Feasible != feasible || r.Best != best.NodeName || best.Pod != nil && r.BestTotal != best.Total {
				t.Errorf("pod %s: rated %+v, the decision is %+v", pod, r, answer.Decision)
			}
			kinds[fmt.Sprint(r.IsFeasible, r.Total == r.BestTotal, len(r.Rejections) > 0)] = true
		}
	}
	for _, kind := range []string{"true true false", "true false false", "false false true", "false false false"} {
		if !kinds[kind] {
			t.Errorf("no node was %q: feasible, best, rejected", kind)
		}
	}
}

// TestRateOfANominatedPod keeps totals and feasibility of the other nodes.
func TestRateOfANominatedPod(t *testing.T) {
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{Profiles: scheduler.Profiles})
	if err != nil {
		t.Fatal(err)
	}
	s, in := state.New(), ingest.New(scheduler.Compile())
	for _, name := range []string{"a", "b"} {
		in.Set(build.Node(name, build.Allocatable("cpu=4 memory=8Gi")))
	}
	in.Set(build.Pod(build.Named("there"), build.NodeName("a"), build.Container("cpu=2")))
	in.Set(build.Pod(build.Named("p"), build.NominatedNodeName("a"), build.Container("cpu=1")))
	pod := s.Apply(in.Drain()).Arrived[0]
	onA, errA := e.Rate(s.View(), pod, "a")
	onB, errB := e.Rate(s.View(), pod, "b")
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if onA.Best != "a" || !onA.ByNomination || !onA.IsFeasible || onA.Total >= onA.BestTotal || onB.Best != "a" || !onB.IsFeasible || onB.Total != onB.BestTotal {
		t.Errorf("on the nominated node %+v, on the other %+v", onA, onB)
	}
	if _, err := e.Rate(s.View(), &model.Pod{SchedulerName: "none"}, "a"); err == nil {
		t.Error("a pod without a profile was rated")
	}
}
