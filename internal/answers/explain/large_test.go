package explain_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/answers/advice"
	"github.com/berth-scheduler/berth/internal/answers/attribution"
	"github.com/berth-scheduler/berth/internal/answers/explain"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// large returns a full cluster with n nodes in ten pools and three zones, with ten pods
// on each node, and a pod that fits nowhere. Most nodes lack cpu; others have taints or
// are cordoned.
func large(nodes int) (all []*v1.Node, pods []*v1.Pod) {
	for i := range nodes {
		labels := fmt.Sprintf("topology.kubernetes.io/zone=z%d kubernetes.io/hostname=n%d pool=p%d disk=%s", i%3, i, i%10, []string{"ssd", "hdd"}[i%2])
		node := build.Node(fmt.Sprintf("n%05d", i), build.NodeLabels(labels), build.Allocatable("cpu=16 memory=64Gi pods=110"))
		switch i % 10 {
		case 8:
			node.Spec.Taints = []v1.Taint{{Key: "dedicated", Value: "gpu", Effect: v1.TaintEffectNoSchedule}}
		case 9:
			node.Spec.Unschedulable = true
			node.Spec.Taints = []v1.Taint{{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}}
		}
		all = append(all, node)
		for j := range 10 {
			pods = append(pods, build.Pod(build.Named(fmt.Sprintf("p%05d-%d", i, j)), build.NodeName(node.Name), build.Container("cpu=1500m memory=4Gi"), build.Labels(fmt.Sprintf("app=a%d", (i*10+j)%1000))))
		}
	}
	web := build.Pod(build.Named("web"), build.Container("cpu=4 memory=8Gi"), build.Labels("app=web"), build.NodeSelector("disk=sdd"),
		build.DoNotSchedule("topology.kubernetes.io/zone", "app=web"), build.RequiredAntiAffinity(build.Term("kubernetes.io/hostname", "app=web")))
	return all, append(pods, web)
}

func largeSnapshot(t testing.TB, nodes int) *explain.Snapshot {
	t.Helper()
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	all, pods := large(nodes)
	s, err := explain.New(scheduler, all, pods, []runtime.Object{build.Namespace("default", "")}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// whole returns the whole answer about the pending pod, given the number of other pending
// pods of its owner.
func whole(t testing.TB, s *explain.Snapshot, pending int) *explain.Explanation {
	t.Helper()
	a, err := s.Of(s.Pending()[0])
	if err != nil {
		t.Fatal(err)
	}
	s.Advise(a, pending)
	sum := s.Summarize(a)
	if classes := explain.NodeClassesOf(a); len(classes) > 20 || len(sum.Reported) > 6 {
		t.Fatalf("%d sorts of nodes, %d reasons", len(classes), len(sum.Reported))
	}
	return a
}

// TestWorkOfAdvice checks the number of decisions for one answer. With many nodes of a
// sort, it depends only on the logarithm of their number. Other pods of the owner add
// decisions per suggestion, independent of the number of pods. The total is bounded.
func TestWorkOfAdvice(t *testing.T) {
	build.NotRaced(t)
	const (
		perDoubling = 2  // Requests are bisected, for cpu and for memory.
		counted     = 21 // the pods of the owner, including the pod itself
	)
	few, many := largeSnapshot(t, 400), largeSnapshot(t, 800)
	alone, wide, beside := whole(t, few, 0).Advice, whole(t, many, 0).Advice, whole(t, many, 1000).Advice
	if len(alone.Suggestions) == 0 || len(wide.Suggestions) == 0 {
		t.Errorf("no suggestions: %+v, %+v", alone, wide)
	}
	if wide.Decisions > alone.Decisions+perDoubling || alone.Decisions > 80 {
		t.Errorf("%d decisions for 400 nodes, %d for 800", alone.Decisions, wide.Decisions)
	}
	if most := wide.Decisions + counted*len(beside.Suggestions); beside.Decisions > most || beside.Decisions <= wide.Decisions || most > advice.MaxDecisions {
		t.Errorf("%d decisions where others of the owner wait, %d without them; want %d at most", beside.Decisions, wide.Decisions, most)
	}
	for _, s := range beside.Suggestions {
		if s.Changes[len(s.Changes)-1].Kind == advice.Label {
			continue // Each of the other pods would need a labelled node of its own.
		}
		if s.Pending != 1000 || s.Follow != counted-1 {
			t.Errorf("%s: %d of %d would follow", s.Changes[0].Text, s.Follow, s.Pending)
		}
	}
}

// BenchmarkWholeAnswer measures the whole answer about a pod that fits nowhere, including
// suggestions. The cluster has 15,000 nodes and 150,000 pods; reading it is not included.
func BenchmarkWholeAnswer(b *testing.B) {
	s := largeSnapshot(b, build.Sized(15_000))
	b.ReportAllocs()
	var a *explain.Explanation
	for b.Loop() {
		a = whole(b, s, 0)
	}
	b.ReportMetric(float64(a.Advice.Decisions), "decisions/op")
}

// later returns two snapshots of the cluster of large. In the second, every node has a
// new version, each tenth pod has been replaced, and one node of a hundred has changed.
// In the first, one node had room for a large pod; pods that arrived since fill it.
func later(nodes []*v1.Node, pods []*v1.Pod) (then, now explain.Objects) {
	then = explain.Objects{Nodes: nodes, Pods: slices.Clone(pods), Others: []runtime.Object{build.Namespace("default", "")}}
	now.Others = then.Others
	for i, node := range nodes {
		node = node.DeepCopy()
		node.ResourceVersion = "2"
		node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
		if i%100 == 50 {
			node.Labels["seen"] = "twice"
		}
		now.Nodes = append(now.Nodes, node)
	}
	for i, pod := range pods {
		switch {
		case pod.Name == "web":
			web := build.Pod(build.Named("web"), build.Container("cpu=4 memory=8Gi"))
			then.Pods[i], now.Pods = web, append(now.Pods, web)
			continue
		case i%10 == 3:
			after := pod.DeepCopy()
			after.Name, after.UID = pod.Name+"-b", pod.UID+"-b"
			pod = after
		}
		now.Pods = append(now.Pods, pod)
		// These pods did not exist then.
		if pod.Spec.NodeName == nodes[7].Name && i%10 < 4 {
			then.Pods[i] = build.Pod(build.Named("ended"+pod.Name), build.Container("cpu=1"))
			then.Pods[i].Status.Phase = v1.PodSucceeded
		}
	}
	return then, now
}

func since(t testing.TB, nodes int) *attribution.Result {
	t.Helper()
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	then, now := later(large(nodes))
	r, err := explain.Since(scheduler, then, now, model.PodKey{Namespace: "default", Name: "web"}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestWorkOfSince expects a number of decisions that does not depend on the number of
// differences on irrelevant nodes.
func TestWorkOfSince(t *testing.T) {
	build.NotRaced(t)
	few, many := since(t, 200), since(t, 800)
	for _, r := range []*attribution.Result{few, many} {
		if len(r.Causes) != 1 || r.Causes[0].Node != "n00007" || !r.Causes[0].Exact || r.CutShort {
			t.Errorf("%+v", r.Causes)
		}
	}
	if many.Decisions != few.Decisions || few.Decisions > 30 || many.Differences < 3*few.Differences {
		t.Errorf("%d decisions about %d differences, %d about %d", few.Decisions, few.Differences, many.Decisions, many.Differences)
	}
}

// BenchmarkSince measures the attribution between two snapshots of 15,000 nodes with
// 150,000 pods, of them a tenth replaced. Reading them is not included.
func BenchmarkSince(b *testing.B) {
	b.ReportAllocs()
	var r *attribution.Result
	for b.Loop() {
		r = since(b, build.Sized(15_000))
	}
	b.ReportMetric(float64(r.Decisions), "decisions/op")
	b.ReportMetric(float64(r.Differences), "differences/op")
}
