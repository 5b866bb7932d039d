package attribution_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/answers/attribution"
	"github.com/berth-scheduler/berth/internal/answers/explain"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// since explains why the answer about a pod of the default namespace has changed.
func since(t *testing.T, then, now explain.Objects, name string) *attribution.Result {
	t.Helper()
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	r, err := explain.Since(scheduler, then, now, model.PodKey{Namespace: build.Pod(build.Named(name)).Namespace, Name: name}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestDirection has a pod that changes between each two verdicts. Differences are undone
// if the newer answer is worse, and applied if the older one is.
func TestDirection(t *testing.T) {
	nodes := []*v1.Node{build.Node("n", build.Allocatable("cpu=4 memory=8Gi pods=9"))}
	other := build.Pod(build.Named("other"), build.NodeName("n"), build.Container("cpu=3"))
	verdicts := []struct {
		want attribution.Verdict
		pod  *v1.Pod
	}{ // from the worst to the best
		{"gated", build.Pod(build.Named("p"), build.Container("cpu=1"), func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}} })},
		{"pending", build.Pod(build.Named("p"), build.Container("cpu=9"))},
		{"preempts", build.Pod(build.Named("p"), build.Container("cpu=3"), func(p *v1.Pod) { p.Spec.Priority = new(int32(9)) })},
		{"placed", build.Pod(build.Named("p"), build.Container("cpu=1"))},
	}
	for i := range verdicts {
		for j := range verdicts {
			then := explain.Objects{Nodes: nodes, Pods: []*v1.Pod{other, verdicts[i].pod}}
			now := explain.Objects{Nodes: nodes, Pods: []*v1.Pod{other, verdicts[j].pod}}
			r := since(t, then, now, "p")
			var want attribution.Direction
			switch {
			case i > j:
				want = attribution.Undo
			case i < j:
				want = attribution.Apply
			}
			if r.Then.Verdict != verdicts[i].want || r.Now.Verdict != verdicts[j].want || r.Direction != want || (want == "") != (len(r.Causes) == 0) {
				t.Errorf("from %s to %s: %+v", verdicts[i].want, verdicts[j].want, r)
			}
			for _, cause := range r.Causes {
				if got := cause.Changes[0].Object; got != "pod default/p" {
					t.Errorf("from %s to %s: because of %q", verdicts[i].want, verdicts[j].want, got)
				}
			}
		}
	}
}

// TestLost expects the reasons of the lost nodes, and that each node is tried once
// separately.
func TestLost(t *testing.T) {
	node := func(name string, more ...build.NodeOption) *v1.Node {
		return build.Node(name, append([]build.NodeOption{build.Allocatable("cpu=4 memory=8Gi pods=9")}, more...)...)
	}
	asked := build.Pod(build.Named("p"), build.Container("cpu=3"))
	full := func(name string) *v1.Pod {
		return build.Pod(build.Named("on-"+name), build.NodeName(name), build.Container("cpu=2"))
	}
	then := explain.Objects{Nodes: []*v1.Node{node("a"), node("b"), node("c"), node("d"), node("e"), node("f")}, Pods: []*v1.Pod{asked}}
	now := explain.Objects{
		Nodes: []*v1.Node{node("a"), node("b"), node("c"), node("d"), node("e", build.Taints("k=v:NoSchedule"))},
		Pods:  []*v1.Pod{asked, full("a"), full("b"), full("c"), full("d")},
	}
	r := since(t, then, now, "p")
	want := []attribution.Lost{
		{Plugin: "NodeResourcesFit", Reasons: []string{"Insufficient cpu"}, Nodes: 4, Examples: []string{"a", "b", "c"}},
		{Plugin: "TaintToleration", Reasons: []string{"node(s) had untolerated taint(s)"}, Nodes: 1, Examples: []string{"e"}},
		{Reasons: []string{"the node is not there"}, Nodes: 1, Examples: []string{"f"}},
	}
	if diff := cmp.Diff(want, r.Lost); diff != "" {
		t.Errorf("(- want, + got)\n%s", diff)
	}
	// Five of the six are found. Decisions: both answers and, per node, one that its
	// differences suffice and one for the resulting node.
	if len(r.Causes) != 5 || r.Decisions != 2+2*5 || r.CutShort {
		t.Errorf("%d causes, %d decisions, cut short: %t", len(r.Causes), r.Decisions, r.CutShort)
	}
	about := map[string]bool{}
	for _, cause := range r.Causes {
		about[cause.Changes[0].Object] = true
	}
	if (!about["node e"] && !about["node f"]) || !about["pod default/on-a"] && !about["pod default/on-b"] {
		t.Errorf("causes are about %v", about)
	}
	// Causes of one change each are sorted by their texts, whichever node is tried first.
	for _, name := range []string{"p", "q", "r", "s"} {
		named := asked.DeepCopy()
		named.Name, then.Pods, now.Pods[0] = name, []*v1.Pod{named}, named
		if r := since(t, then, now, name); !slices.IsSortedFunc(r.Causes, func(a, b attribution.Cause) int { return strings.Compare(a.Changes[0].Text, b.Changes[0].Text) }) {
			t.Errorf("%+v", r.Causes)
		}
	}
	then.Pods = []*v1.Pod{asked}
	// A node that is still feasible is not lost. The pod's two nodes are not tried again
	// among the other feasible ones.
	now = explain.Objects{Nodes: then.Nodes, Pods: []*v1.Pod{asked, full(r.Then.Node)}}
	if r = since(t, then, now, "p"); len(r.Lost) != 1 || r.Lost[0].Nodes != 1 || r.Lost[0].Examples[0] != r.Then.Node || len(r.Causes) != 1 || r.Decisions != 4 {
		t.Errorf("%+v", r)
	}
}
