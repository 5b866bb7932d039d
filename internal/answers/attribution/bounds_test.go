package attribution_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/answers/attribution"
	"github.com/berth-scheduler/berth/internal/answers/explain"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// TestLongSearch has a pod that needs a whole node, and two nodes. New pods have come to
// both: many to the pod's former node, eight or as many to the other.
//
// All new pods of a node together are the cause, and the search takes decisions for each
// of them. With too many pods it reaches its limit; the remaining differences of a node
// are reported if they are few. The node with fewer differences is tried first, so its
// cause is found however many differences the former node has.
func TestLongSearch(t *testing.T) {
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	nodes := []*v1.Node{
		build.Node("n1", build.Allocatable("cpu=1 memory=64Gi pods=1000")),
		// n2 is worse than n1.
		build.Node("n2", build.Allocatable("cpu=1 memory=64Gi pods=1000"), build.Taints("slow:PreferNoSchedule")),
	}
	asked := build.Pod(build.Named("asked"), build.Container("cpu=1"))
	then := explain.Objects{Nodes: nodes, Pods: []*v1.Pod{asked}}
	seen := map[string]int{}
	find := func(then, now explain.Objects) *attribution.Result {
		t.Helper()
		r, err := explain.Since(scheduler, then, now, model.PodKey{Namespace: asked.Namespace, Name: asked.Name}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.Causes {
			c := &r.Causes[i]
			switch {
			case c.Minimal:
				seen["minimal"]++
			case !r.CutShort || len(c.Changes) > 20:
				t.Errorf("%d differences: a cause of %d changes is not minimal, cut short: %t", r.Differences, len(c.Changes), r.CutShort)
			default:
				seen["short"]++
			}
		}
		return r
	}
	for _, row := range [][2]int{{40, 8}, {400, 8}, {40, 40}, {74, 74}, {75, 75}, {76, 76}, {77, 77}, {78, 78}, {79, 79}, {80, 80}, {81, 81}, {82, 82}, {100, 100}, {400, 400}} {
		n, beside := row[0], row[1]
		now := explain.Objects{Nodes: nodes, Pods: []*v1.Pod{asked}}
		for i := range n {
			now.Pods = append(now.Pods, build.Pod(build.Named(fmt.Sprintf("a-%03d", i)), build.NodeName("n1"), build.Container("cpu=1m")))
		}
		for i := range beside {
			now.Pods = append(now.Pods, build.Pod(build.Named(fmt.Sprint("b-", i)), build.NodeName("n2"), build.Container("cpu=1m")))
		}
		r := find(then, now)
		if r.Then.Node != "n1" || r.Now.Verdict != attribution.Pending || r.Direction != attribution.Undo || r.Decisions > attribution.MaxDecisions+1 {
			t.Fatalf("%d pods: %+v", n, r)
		}
		if !r.CutShort && len(r.Causes) != 2 || len(r.Causes) == 0 && !r.CutShort {
			t.Errorf("%d pods: %d causes, cut short: %t", n, len(r.Causes), r.CutShort)
		}
		if len(r.Causes) == 0 {
			seen["none"]++
			if r.Decisions != attribution.MaxDecisions {
				t.Errorf("%d pods: %d decisions", n, r.Decisions)
			}
		}
		if beside == 8 && (len(r.Causes) == 0 || len(r.Causes[0].Changes) != 8 || !r.Causes[0].Minimal || r.Causes[0].Node != "n2") {
			t.Errorf("%d pods came to the node that the pod was on, and the 8 of the other were not found: %+v", n, r.Causes)
		}
	}
	// Pods prevent the placement on five nodes: twenty relevant pods on the last one
	// beside others that are not, and more on the other nodes.
	for size := 20; size < 26; size++ {
		var five []*v1.Node
		now := explain.Objects{Pods: []*v1.Pod{asked}}
		for n := range 5 {
			name := fmt.Sprint("n", n)
			five = append(five, build.Node(name, build.Allocatable("cpu=1 memory=64Gi pods=1000")))
			inTheWay, others := size, 0
			if n == 4 {
				inTheWay, others = 20, 10
			}
			for i := range inTheWay {
				now.Pods = append(now.Pods, build.Pod(build.Named(fmt.Sprint(name, "-a-", i)), build.NodeName(name), build.Container("cpu=1m")))
			}
			for i := range others {
				now.Pods = append(now.Pods, build.Pod(build.Named(fmt.Sprint(name, "-b-", i)), build.NodeName(name)))
			}
		}
		now.Nodes = five
		find(explain.Objects{Nodes: five, Pods: []*v1.Pod{asked}}, now)
	}
	if seen["none"] == 0 || seen["minimal"] == 0 || seen["short"] == 0 {
		t.Error(seen)
	}
}
