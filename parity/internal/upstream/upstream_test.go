package upstream_test

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
	"github.com/berth-scheduler/berth/parity/internal/cases"
	"github.com/berth-scheduler/berth/parity/internal/upstream"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

func node(name, cpu string, taints ...v1.Taint) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}}, Spec: v1.NodeSpec{Taints: taints},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("110"),
		}},
	}
}

func pod(name, cpu, nodeName string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec: v1.PodSpec{
			SchedulerName: v1.DefaultSchedulerName, NodeName: nodeName,
			Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}}},
		},
	}
}

func newUpstream(t *testing.T, config []byte) *upstream.Scheduler {
	t.Helper()
	i, err := upstream.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.Close)
	return i
}

func judged(t *testing.T, i *upstream.Scheduler, p *v1.Pod) *upstream.Verdict {
	t.Helper()
	v, err := i.Explain(p)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestVerdict(t *testing.T) {
	i := newUpstream(t, cases.EmptyConfig())
	waiting := pod("waiting", "2", "")
	if v := judged(t, i, waiting); !errors.Is(v.Err, upstream.ErrNoNodes) {
		t.Errorf("without nodes: %+v", v)
	}
	i.SetNode(node("a", "1"))
	i.SetNode(node("b", "4", v1.Taint{Key: "dedicated", Effect: v1.TaintEffectNoSchedule}))
	v := judged(t, i, waiting)
	if want := "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."; v.MessageBefore != want {
		t.Errorf("got %q, want %q", v.MessageBefore, want)
	}
	if got, want := fmt.Sprint(v.Plugins), "[NodeResourcesFit TaintToleration]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	i.SetNode(node("c", "3"))
	i.SetNode(node("d", "8"))
	v = judged(t, i, waiting)
	if v.Feasible != 2 || fmt.Sprint(v.Best) != "[d]" || v.Message != "" || v.Err != nil {
		t.Errorf("with room: %+v", v)
	}
	for _, s := range v.Nodes[3].Scores {
		// (8-2)/8 of the cpu and 8192-200 of 8192 Mi are left.
		if s.Plugin == "NodeResourcesFit" && s != (upstream.Score{Plugin: s.Plugin, Weight: 1, Raw: 86, Normalised: 86, Weighted: 86}) {
			t.Errorf("got %+v", s)
		}
	}
	waiting.Status.NominatedNodeName = "c"
	if v = judged(t, i, waiting); fmt.Sprint(v.Best) != "[c]" {
		t.Errorf("nominated to c: %+v", v.Best)
	}
}

// TestAssumed checks that assumed pods take room, and release it when forgotten.
func TestAssumed(t *testing.T) {
	i := newUpstream(t, cases.EmptyConfig())
	i.SetNode(node("a", "1"))
	first, second := pod("first", "1", ""), pod("second", "1", "")
	expect := func(when string, feasible int) {
		t.Helper()
		if v := judged(t, i, second); v.Feasible != feasible {
			t.Errorf("%s: %d feasible, want %d", when, v.Feasible, feasible)
		}
	}
	do(t, i.SetPod(first))
	expect("pending", 1)
	do(t, i.Assume(first, "a"))
	expect("assumed", 0)
	do(t, i.Forget(first))
	expect("forgotten", 1)
	do(t, i.Assume(first, "a"))
	do(t, i.SetPod(first)) // an older version
	expect("assumed again", 0)
	bound := pod("first", "1", "a")
	do(t, i.SetPod(bound))
	do(t, i.Forget(first))
	expect("confirmed", 0)
	finished := bound.DeepCopy()
	finished.Status.Phase = v1.PodSucceeded
	do(t, i.SetPod(finished))
	expect("finished", 1)
	do(t, i.SetPod(bound))
	namesake := pod("first", "500m", "a")
	namesake.UID = "another"
	do(t, i.SetPod(namesake))
	expect("replaced", 0)
	do(t, i.RemovePod("default", "first"))
	expect("removed", 1)
}

func TestNewRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"kind: Pod\napiVersion: v1\n": "no kind \"Pod\" is registered",
		"kind: KubeSchedulerConfiguration\napiVersion: kubescheduler.config.k8s.io/v1\nparallelism: -1\n": "parallelism: Invalid value",
	} {
		if _, err := upstream.New([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestFollowsChanges checks that the verdicts of a scheduler that was given single
// changes equal those of one that was given the result only.
func TestFollowsChanges(t *testing.T) {
	for seed := range uint64(12) {
		r := cases.Source("changes", seed)
		now := random.TopologyCluster(r, random.Size{Nodes: 6, Placed: 15})
		config := cases.Config(r)
		follower := newUpstream(t, config)
		show(t, follower, now)
		for step := range 60 {
			m := random.TopologyChange(r, now)
			change(t, follower, m)
			now = m.After
			if step%4 > 0 {
				continue
			}
			fresh := newUpstream(t, config)
			show(t, fresh, now)
			p := random.TopologyPod(r, 1000)
			if got, want := judged(t, follower, p), judged(t, fresh, p); !reflect.DeepEqual(texts(got), texts(want)) {
				t.Fatalf("seed %d, step %d, after %s:\n%v\nwant\n%v", seed, step, m, texts(got), texts(want))
			}
		}
	}
}

// texts returns the deterministic part of a verdict as text: errors by their message, and
// reasons sorted, because extended resources come in any order. It leaves out
// preemption's choice among equally good nodes, which differs from run to run.
func texts(v *upstream.Verdict) []string {
	message, _, _ := strings.Cut(v.Message, "found a potential placement")
	all := []string{fmt.Sprint(v.Err, message, v.Plugins, v.Best)}
	for _, n := range v.Nodes {
		all = append(all, fmt.Sprint(n.Name, n.Feasible, n.Scores, n.Total, len(n.All)))
	}
	return all
}

func show(t *testing.T, i *upstream.Scheduler, c oracle.Cluster) {
	t.Helper()
	for _, n := range c.Nodes {
		i.SetNode(n)
	}
	for _, o := range (&cases.Case{Cluster: c}).Others() {
		do(t, i.SetObject(o))
	}
	for _, p := range c.Pods {
		do(t, i.SetPod(p))
	}
}

func change(t *testing.T, i *upstream.Scheduler, m random.Mutation) {
	t.Helper()
	switch {
	case m.NewNode != nil:
		i.SetNode(m.NewNode)
	case m.OldNode != nil:
		do(t, i.RemoveNode(m.OldNode.Name))
	case m.NewPod != nil:
		do(t, i.SetPod(m.NewPod))
	case m.OldPod != nil:
		do(t, i.RemovePod(m.OldPod.Namespace, m.OldPod.Name))
	case m.New != nil:
		do(t, i.SetObject(m.New.(runtime.Object)))
	case m.Old != nil:
		do(t, i.RemoveObject(m.Old.(runtime.Object)))
	}
}
