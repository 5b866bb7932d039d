package attribution_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/attribution"
	"github.com/berth-scheduler/berth/internal/build"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/explain"
	"github.com/berth-scheduler/berth/internal/model"
)

// TestLongSearch has a pod that needs the whole of either of two nodes, to which many pods have come since. All of a node's are the cause, which takes decisions for each of them: with more pods the search ends before it is
// known. What is then left of a node's is offered if it is short.
func TestLongSearch(t *testing.T) {
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	nodes := []*v1.Node{
		build.Node("n1", build.Allocatable("cpu=1 memory=64Gi pods=1000")),
		build.Node("n2", build.Allocatable("cpu=1 memory=64Gi pods=1000"), build.Taints("slow:PreferNoSchedule")), // tried after n1
	}
	asked := build.Pod(build.Named("asked"), build.Container("cpu=1"))
	then := explain.Objects{Nodes: nodes, Pods: []*v1.Pod{asked}}
	seen := map[string]int{}
	for _, n := range []int{40, 76, 77, 78, 79, 80, 81, 82, 100, 400} {
		now := explain.Objects{Nodes: nodes, Pods: []*v1.Pod{asked}}
		for i := range n {
			now.Pods = append(now.Pods, build.Pod(build.Named(fmt.Sprintf("a-%03d", i)), build.NodeName("n1"), build.Container("cpu=1m")))
		}
		for i := range 8 {
			now.Pods = append(now.Pods, build.Pod(build.Named(fmt.Sprint("b-", i)), build.NodeName("n2"), build.Container("cpu=1m")))
		}
		r, err := explain.Since(scheduler, then, now, model.PodKey{Namespace: asked.Namespace, Name: asked.Name}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Then.Node != "n1" || r.Now.Verdict != attribution.Pending || r.Direction != attribution.Undo || r.Decisions > attribution.DecisionsMax+1 {
			t.Fatalf("%d pods: %+v", n, r)
		}
		if !r.CutShort && len(r.Causes) != 2 || len(r.Causes) == 0 && !r.CutShort {
			t.Errorf("%d pods: %d causes, cut short: %t", n, len(r.Causes), r.CutShort)
		}
		if len(r.Causes) == 0 {
			seen["none"]++
			if r.Decisions != attribution.DecisionsMax {
				t.Errorf("%d pods: %d decisions", n, r.Decisions)
			}
		}
		for i := range r.Causes {
			c := &r.Causes[i]
			switch {
			case c.Minimal:
				seen["minimal"]++
			case !r.CutShort || len(c.Changes) > 20:
				t.Errorf("%d pods: a cause of %d changes is not minimal, cut short: %t", n, len(c.Changes), r.CutShort)
			default:
				seen["short"]++
			}
		}
	}
	if seen["none"] == 0 || seen["minimal"] == 0 || seen["short"] == 0 {
		t.Error(seen)
	}
}
