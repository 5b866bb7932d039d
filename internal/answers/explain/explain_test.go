package explain_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/answers/explain"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/explaintest"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// TestRandomClusters checks that explanations do not influence each other, that their
// order and the order of the objects do not matter, and that summaries add up.
func TestRandomClusters(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) {
			t.Parallel()
			r := random.New(seed)
			cluster := random.Cluster(r, random.Size{Nodes: r.IntN(30), Placed: r.IntN(60), Pending: 8})
			s := explaintest.Snapshot(t, cluster.Nodes, cluster.Pods)
			all := explaintest.Answers(t, s)
			if diff := cmp.Diff(all, explaintest.Answers(t, s)); diff != "" {
				t.Errorf("the second explanations differ:\n%s", diff)
			}
			for _, pod := range s.Pending() {
				a, err := s.Of(pod)
				if err != nil {
					t.Fatal(err)
				}
				checkSummary(t, a, s.Summarize(a))
				alone := slices.DeleteFunc(slices.Clone(cluster.Pods), func(p *v1.Pod) bool { return p.Spec.NodeName == "" && p != pod.Object })
				slices.Reverse(alone)
				if got := explaintest.Answers(t, explaintest.Snapshot(t, cluster.Nodes, alone))[a.Pod]; got != all[a.Pod] {
					t.Errorf("alone, %s gets\n%s\namong others\n%s", a.Pod, got, all[a.Pod])
				}
			}
		})
	}
}

func checkSummary(t *testing.T, a *explain.Explanation, sum explain.Summary) {
	t.Helper()
	left := sum.Nodes
	for _, stage := range sum.Funnel {
		if left -= stage.First; stage.Left != left || stage.First > stage.Rejects {
			t.Errorf("%s: the funnel does not add up: %+v", a.Pod, sum.Funnel)
		}
	}
	if left != sum.Feasible || sum.Nodes != len(a.Nodes) || (sum.Taken != "") != (sum.Feasible > 0 && a.Error == "") {
		t.Errorf("%s: the summary does not add up: %+v", a.Pod, sum)
	}
	for _, r := range sum.Reasons {
		if text := fmt.Sprintf("%d %s", r.Nodes, r.Text); a.Message != "" && !strings.Contains(a.Message, text) && !strings.Contains(a.Message, r.Text+".") {
			t.Errorf("%s: %q is not in the message %q", a.Pod, text, a.Message)
		}
		if len(r.Examples) != min(r.Nodes, 3) {
			t.Errorf("%s: %d examples for %d nodes", a.Pod, len(r.Examples), r.Nodes)
		}
	}
	for i := 1; i < len(sum.Best); i++ {
		if sum.Best[i].Total != nil && *sum.Best[i].Total > *sum.Best[i-1].Total {
			t.Errorf("%s: %s is better than %s", a.Pod, sum.Best[i].Name, sum.Best[i-1].Name)
		}
	}
	if len(sum.Best) > 0 && sum.Taken != "" && sum.Best[0].Name != sum.Taken {
		t.Errorf("%s: %s would be taken, not %s", a.Pod, sum.Taken, sum.Best[0].Name)
	}
}

func node(name, cpu string, change ...func(*v1.Node)) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
		v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("2"),
	}}}
	for _, c := range change {
		c(n)
	}
	return n
}

func pod(name, cpu, nodeName string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name},
		Spec: v1.PodSpec{SchedulerName: v1.DefaultSchedulerName, NodeName: nodeName, Containers: []v1.Container{{
			Name: "main", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}},
		}}},
	}
}

// TestShortages expects the amounts that nodes lack, the smallest first.
func TestShortages(t *testing.T) {
	cordoned := func(n *v1.Node) { n.Spec.Unschedulable = true }
	nodes := []*v1.Node{node("far", "1"), node("full", "8"), node("near", "4"), node("both", "1", cordoned), node("closed", "8", cordoned)}
	for i := range 5 {
		nodes = append(nodes, node(fmt.Sprintf("further-%d", i), "500m"))
	}
	pods := []*v1.Pod{pod("web", "4", ""), pod("x", "1m", "full"), pod("y", "1m", "full"), pod("z", "1500m", "near")}
	s := explaintest.Snapshot(t, nodes, pods)
	a, err := s.Of(s.Pending()[0])
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, near := range s.Summarize(a).Near {
		got = append(got, fmt.Sprintf("%s %d", near.Plugin, near.Nodes))
		for _, n := range near.Examples {
			line := n.Name + ":"
			for i := range n.Short {
				s := &n.Short[i]
				line += fmt.Sprintf(" %s %s/%s/%s", s.Resource, &s.Asks, &s.Free, &s.Allocatable)
			}
			got = append(got, line)
		}
	}
	want := []string{
		"NodeUnschedulable 1", "closed:",
		"NodeResourcesFit 8", "near: cpu 4/2500m/4", "far: cpu 4/1/1", "further-0: cpu 4/500m/500m", "further-1: cpu 4/500m/500m", "further-2: cpu 4/500m/500m",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("near misses (- want, + got):\n%s", diff)
	}
	pods[0] = pod("web", "1", "")
	s = explaintest.Snapshot(t, nodes[1:2], pods)
	if a, err = s.Of(s.Pending()[0]); err != nil {
		t.Fatal(err)
	}
	if short := s.Summarize(a).Near[0].Examples[0].Short[0]; short.Resource != "pods" || short.Free.Value() != 0 || short.Allocatable.Value() != 2 {
		t.Errorf("shortage of pods: %+v", short)
	}
}

// TestNominated expects the nominated node first, and no choice by scores.
func TestNominated(t *testing.T) {
	web := pod("web", "1", "")
	web.Status.NominatedNodeName = "small"
	s := explaintest.Snapshot(t, []*v1.Node{node("large", "8"), node("small", "2")}, []*v1.Pod{web})
	a, err := s.Of(s.Pending()[0])
	if err != nil {
		t.Fatal(err)
	}
	sum := s.Summarize(a)
	if !sum.Nominated || sum.Taken != "small" || sum.Best[0].Name != "small" || sum.Equals != 0 || *sum.Best[1].Total <= *sum.Best[0].Total {
		t.Errorf("summary %+v", sum)
	}
}

// TestNoResult explains pods whose attempt ends without a result.
func TestNoResult(t *testing.T) {
	preferring := random.WithBrokenPreference(pod("web", "1", ""))
	preferring.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}}
	s := explaintest.Snapshot(t, []*v1.Node{node("a", "2"), node("b", "2"), node("c", "500m")}, []*v1.Pod{preferring})
	a, err := s.Of(s.Pending()[0])
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(a.Error, "running PreScore plugin \"NodeAffinity\": ") || a.Message != "" || a.Gated != "waiting for scheduling gates: [g]" ||
		!a.Nodes[0].Feasible || a.Nodes[0].Scores != nil || a.Nodes[0].Total != nil || a.Nodes[2].Feasible {
		t.Errorf("broken preference: %+v", a)
	}
	if sum := s.Summarize(a); sum.Taken != "" || sum.Feasible != 2 || len(sum.Best) != 2 {
		t.Errorf("broken preference: %+v", sum)
	}
	malformed := &model.Pod{Object: pod("odd", "1", ""), Namespace: "a", Name: "odd", SchedulerName: v1.DefaultSchedulerName, Malformed: "the pod cannot be read: odd"}
	if a, err = s.Of(malformed); err != nil || a.Message != "0/3 nodes are available: the pod cannot be read: odd." || a.Nodes == nil || len(a.Nodes) > 0 {
		t.Errorf("malformed pod: %+v, %v", a, err)
	}
	if sum := s.Summarize(a); sum.Nodes != 3 || sum.Feasible != 0 || sum.Funnel != nil {
		t.Errorf("malformed pod: %+v", sum)
	}
}

// broken fails after some bytes.
type broken struct{ left int }

func (b *broken) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errors.New("no space left")
	}
	return len(p), nil
}

// TestWriteJSON writes lines, and returns every error.
func TestWriteJSON(t *testing.T) {
	s := explaintest.Snapshot(t, []*v1.Node{node("a", "1"), node("b", "2")}, []*v1.Pod{pod("web", "1500m", "")})
	a, err := s.Of(s.Pending()[0])
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := a.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	want := `{"pod":"a/web","profile":"default-scheduler","nodes":[
{"name":"a","feasible":false,"rejections":[{"plugin":"NodeResourcesFit","code":"UnschedulableAndUnresolvable","reasons":["Insufficient cpu"]}]},
{"name":"b","feasible":true}
]}`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &text, want)
	}
	for size := range text.Len() {
		if err := a.WriteJSON(&broken{size}); err == nil || !strings.Contains(err.Error(), "a/web: no space left") {
			t.Fatalf("after %d bytes: %v", size, err)
		}
	}
}

// TestOtherObjectsCount checks that a Service spreads the pods it selects, and that a
// term can select namespaces by their labels.
func TestOtherObjectsCount(t *testing.T) {
	inZone := func(zone string) func(*v1.Node) {
		return func(n *v1.Node) { n.Labels = map[string]string{v1.LabelTopologyZone: zone} }
	}
	nodes := []*v1.Node{node("a", "8", inZone("a")), node("b", "8", inZone("b"))}
	web := func(name, nodeName string) *v1.Pod {
		p := pod(name, "1", nodeName)
		p.Labels = map[string]string{"app": "web"}
		return p
	}
	service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web"}, Spec: v1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
	pods := []*v1.Pod{web("running", "a"), web("waiting", "")}
	if text := explaintest.Answers(t, explaintest.Snapshot(t, nodes, pods, service))["a/waiting"]; !strings.Contains(text, `"PodTopologySpread"`) {
		t.Errorf("the service's pods are not spread: %s", text)
	}
	if text := explaintest.Answers(t, explaintest.Snapshot(t, nodes, pods))["a/waiting"]; strings.Contains(text, `"PodTopologySpread"`) {
		t.Errorf("pods without a default selector are spread: %s", text)
	}

	shy := pod("shy", "1", "")
	shy.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
		TopologyKey: v1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"loud": "yes"}},
	}}}}
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"loud": "yes"}}}
	text := explaintest.Answers(t, explaintest.Snapshot(t, nodes, []*v1.Pod{web("running", "a"), shy}, namespace))["a/shy"]
	if !strings.Contains(text, "node(s) didn't match pod anti-affinity rules") {
		t.Errorf("the term does not select the namespace: %s", text)
	}
}
