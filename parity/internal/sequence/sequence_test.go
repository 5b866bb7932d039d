package sequence

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/parity/internal/cases"
	"github.com/berth-scheduler/berth/parity/internal/upstream"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

func node(name, cpu string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
		v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("110"),
	}}}
}

func pod(cpu string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "p"},
		Spec: v1.PodSpec{SchedulerName: v1.DefaultSchedulerName, Containers: []v1.Container{
			{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}}}},
	}
}

// takes returns a decision for a node.
func takes(nodeName string, feasible int, total int64) plan.Decision {
	return plan.Decision{
		Outcome: plan.Placed, Feasible: feasible, Placement: plan.Placement{NodeName: nodeName, Feasible: feasible, Total: total},
	}
}

// about sets the pod of a decision, in a cluster of the given number of nodes.
func about(d *plan.Decision, nodes int, pod *model.Pod) {
	d.Member, d.Nodes = plan.Alone(pod), nodes
	if d.Outcome == plan.Placed {
		d.Placement.Pod = pod
	}
}

// TestDecision has nodes a, b and c with 1, 4 and 8 CPUs. A pod that fits b belongs on c.
func TestDecision(t *testing.T) {
	rejection := func(text string, plugins ...string) *plan.Rejection {
		return &plan.Rejection{Counts: []reason.Count{{Nodes: 3, Reason: text}}, Plugins: plugins}
	}
	for _, tt := range []struct {
		name, cpu string
		decision  plan.Decision
		want      string // the first difference
	}{
		{"the best", "2", takes("c", 2, 454), ""},
		{"another", "2", takes("b", 2, 454), "chosen node"},
		{"another total", "2", takes("c", 2, 455), "total of c"},
		{"too few feasible", "2", takes("c", 1, 0), "feasible nodes"},
		{"no choice", "5", takes("c", 1, 0), ""},
		{"one that does not fit", "5", takes("b", 1, 0), "chosen node"},
		{"nowhere although it fits", "2", plan.Decision{Outcome: plan.Unschedulable, Rejection: rejection("Insufficient cpu", "NodeResourcesFit")}, "no node"},
		{"nowhere", "9", plan.Decision{
			Outcome: plan.Unschedulable, Rejection: rejection("Insufficient cpu", "NodeResourcesFit"),
			PostFilter: "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
		}, ""},
		{"another message", "9", plan.Decision{Outcome: plan.Unschedulable, Rejection: rejection("Insufficient CPU", "NodeResourcesFit")}, "no node"},
		{"waits for another plugin", "9", plan.Decision{Outcome: plan.Unschedulable, Rejection: rejection("Insufficient cpu", "NodePorts")}, "no node"},
		{"somewhere although it fits nowhere", "9", takes("c", 1, 0), "chosen node"},
		{"an error", "2", plan.Decision{Outcome: plan.NoNodes}, "no node"},
	} {
		theirs, err := upstream.New(cases.EmptyConfig())
		if err != nil {
			t.Fatal(err)
		}
		c := &check{theirs: theirs, objects: map[model.Ref]runtime.Object{}}
		about(&tt.decision, 3, model.NewPod(pod(tt.cpu)))
		shown := []simulate.Shown{{Object: node("a", "1")}, {Object: node("b", "4")}, {Object: node("c", "8")}, {Object: pod(tt.cpu)}}
		if err := c.round(simulate.Round{Shown: shown, Decided: true, Decisions: []plan.Decision{tt.decision}}); err != nil {
			t.Fatal(err)
		}
		got := ""
		if len(c.result.Differences) > 0 {
			got = c.result.Differences[0].What
		}
		if got != tt.want || (c.result.Failed == 1) != (tt.want != "") || (c.result.Before != nil) != (tt.want != "") {
			t.Errorf("%s: got %q, want %q: %+v", tt.name, got, tt.want, c.result)
		}
		theirs.Close()
	}
}

// TestBefore checks that the pod is pending in the state before a differing decision.
func TestBefore(t *testing.T) {
	theirs, err := upstream.New(cases.EmptyConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	c := &check{theirs: theirs, objects: map[model.Ref]runtime.Object{}}
	placed := pod("1")
	placed.Name, placed.UID, placed.Spec.NodeName = "q", "q", "a"
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	shown := []simulate.Shown{{Object: node("a", "4")}, {Object: placed}, {Object: pod("1")}, {Object: namespace}}
	decision := takes("b", 1, 0)
	about(&decision, 1, model.NewPod(pod("1")))
	if err := c.round(simulate.Round{Shown: shown, Decided: true, Decisions: []plan.Decision{decision}}); err != nil {
		t.Fatal(err)
	}
	before := c.result.Before
	if before == nil || len(before.Nodes) != 1 || len(before.Pods) != 2 || len(before.Namespaces) != 1 || before.Pods[1].Spec.NodeName != "" {
		t.Errorf("got %+v", before)
	}
}
