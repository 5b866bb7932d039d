package simulate_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/offline/manifest"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

func node(name, cpu string) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourcePods: resource.MustParse("110")}},
	}
}

// pod returns a pod that is created the given number of seconds after pods of age 0.
func pod(name, cpu string, age int, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, age, 0, time.UTC))},
		Spec: v1.PodSpec{SchedulerName: v1.DefaultSchedulerName, Containers: []v1.Container{{
			Name: "main", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}},
		}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func defaults(t testing.TB) simulate.Config {
	t.Helper()
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	return simulate.Config{Scheduler: scheduler}
}

// TestRun has pods contend for one node and expects the most important, and then the
// oldest, to win, whatever their order.
func TestRun(t *testing.T) {
	important := func(p *v1.Pod) { priority := int32(5); p.Spec.Priority = &priority }
	pods := []*v1.Pod{
		pod("young", "1", 9), pod("b", "1", 3), pod("a", "1", 3), pod("high", "1", 20, important),
		pod("gated", "1", 0, func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}} }),
		pod("leaving", "1", 0, func(p *v1.Pod) { at := metav1.Now(); p.DeletionTimestamp = &at }),
		pod("foreign", "1", 0, func(p *v1.Pod) { p.Spec.SchedulerName = "other" }),
		pod("done", "9", 0, func(p *v1.Pod) { p.Spec.NodeName, p.Status.Phase = "n", v1.PodSucceeded }),
		pod("old", "1", 0, func(p *v1.Pod) { p.Spec.NodeName = "n" }),
	}
	var last int
	result, err := simulate.Run(defaults(t), &manifest.Cluster{Nodes: []*v1.Node{node("n", "3")}, Pods: pods}, func(decided, pending int) { last = 100 * decided / pending })
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range result.Pods {
		got = append(got, fmt.Sprintf("%s %s %s", p.Pod, p.Status, p.Node))
	}
	want := []string{"foreign Ignored ", "gated Gated ", "leaving Ignored ", "a Scheduled n", "b Pending ", "young Pending ", "high Scheduled n"}
	if !slices.Equal(got, want) {
		t.Errorf("placements\n%q\nwant\n%q", got, want)
	}
	const rejected = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
	if message := result.Pods[4].Message; message != rejected {
		t.Errorf("message %q", message)
	}
	s := result.Summary
	if s.Placed != 2 || s.Waiting != 5 || s.PodsBefore != 1 || s.Resources[0].AfterPercent != 100 || s.Resources[0].BeforePercent != 33.3 || last == 0 {
		t.Errorf("summary %+v, progress %d", s, last)
	}
}

// TestRunEnds checks that permanent errors do not keep a simulation going.
func TestRunEnds(t *testing.T) {
	result, err := simulate.Run(defaults(t), &manifest.Cluster{Pods: []*v1.Pod{pod("web", "1", 0)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p := result.Pods[0]; p.Status != simulate.Failed || p.Message != "no nodes available to schedule pods" {
		t.Errorf("placement %+v", p)
	}
	if s := result.Summary; s.Nodes != 0 || s.MostLoaded != nil {
		t.Errorf("summary %+v", s)
	}
}

// TestRunWaitsForWhatNobodyTells places a pod with affinity to pods of a namespace with a
// certain label. Its first attempt fails. The later placement of a pod in that namespace
// wakes no pod, as in kube-scheduler. So the first pod gets its node only after
// MaxParked.
func TestRunWaitsForWhatNobodyTells(t *testing.T) {
	near := v1.PodAffinityTerm{
		TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "data"}},
	}
	files := &manifest.Cluster{
		Namespaces: []*v1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "store", Labels: map[string]string{"team": "data"}}}},
		Nodes:      []*v1.Node{node("a", "1"), node("b", "1")},
		Pods: []*v1.Pod{
			pod("web", "500m", 0, func(p *v1.Pod) {
				p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{near}}}
			}),
			pod("db", "500m", 1, func(p *v1.Pod) { p.Namespace, p.Labels = "store", near.LabelSelector.MatchLabels }),
		},
	}
	for i, zone := range []string{"za", "zb"} {
		files.Nodes[i].Labels = map[string]string{"zone": zone}
	}
	result, err := simulate.Run(defaults(t), files, nil)
	if err != nil {
		t.Fatal(err)
	}
	web, db := result.Pods[0], result.Pods[1]
	if web.Pod != "web" || web.Status != simulate.Scheduled || web.Node != db.Node {
		t.Errorf("placements %+v and %+v; want both on one node", web, db)
	}
}

// BenchmarkRun places 10,000 pods of twenty kinds on 1,000 nodes.
func BenchmarkRun(b *testing.B) {
	var nodes []*v1.Node
	for i := range 1000 {
		nodes = append(nodes, node(fmt.Sprintf("node-%d", i), "16"))
	}
	var pods []*v1.Pod
	for i := range 10_000 {
		pods = append(pods, pod(fmt.Sprintf("pod-%d", i), fmt.Sprintf("%dm", 100+50*(i%20)), i%60))
	}
	c := defaults(b)
	b.ReportAllocs()
	for b.Loop() {
		result, err := simulate.Run(c, &manifest.Cluster{Nodes: nodes, Pods: pods}, nil)
		if err != nil || result.Summary.Placed != len(pods) {
			b.Fatalf("%v, %d placed", err, result.Summary.Placed)
		}
	}
}
