package preempt_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// cluster is a state and an engine with the default profile.
type cluster struct {
	state  *state.State
	engine *engine.Engine
	config *config.Config
}

func newCluster(t testing.TB, seed uint64, objects ...runtime.Object) *cluster {
	t.Helper()
	return newClusterFor(t, config.Release37, seed, objects...)
}

func newClusterFor(t testing.TB, release config.Release, seed uint64, objects ...runtime.Object) *cluster {
	t.Helper()
	c, err := config.Read(config.Request{Release: release})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{Profiles: c.Profiles, Seed: seed, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	s := state.New()
	plugintest.Set(s, objects...)
	return &cluster{s, e, c}
}

func (c *cluster) decide(pod *v1.Pod) plan.Decision {
	compiled := model.NewPod(pod)
	c.config.Profiles[0].Compile(compiled)
	return c.engine.Decide(c.state.View(), plan.Alone(compiled))
}

// outcome writes a decision about preemption as "n1: a b -q": the victims in order, and
// the pods that lose their nomination. With "keep" or "clear" for the nomination, the
// text follows.
func outcome(d plan.Decision) string {
	if d.Outcome != plan.Unschedulable {
		return fmt.Sprintf("%s %v", d.Outcome, d.Err)
	}
	own := d.NominationOf(d.Pod)
	switch own.Mode {
	case plan.Keep:
		return "keep " + d.PostFilter
	case plan.Clear:
		return "clear " + d.PostFilter
	}
	words := []string{own.NodeName + ":"}
	for _, e := range d.Evictions {
		words = append(words, e.Pod.Name)
	}
	for _, n := range d.Nominations[1:] {
		words = append(words, "-"+n.Pod.Name)
	}
	if want := fmt.Sprintf("preemption: found a potential placement for pod on node %s, preempting %d victims", own.NodeName, len(d.Evictions)); d.PostFilter != want {
		words = append(words, d.PostFilter)
	}
	return strings.Join(words, " ")
}

func priority(p int) build.PodOption {
	return func(pod *v1.Pod) { value := int32(p); pod.Spec.Priority = &value }
}

func started(hour, minute int) build.PodOption {
	return func(pod *v1.Pod) {
		pod.Status.StartTime = &metav1.Time{Time: time.Date(2026, 1, 1, hour, minute, 0, 0, time.UTC)}
	}
}

// preempted is a pod that a scheduler evicted and that is not gone yet.
func preempted(pod *v1.Pod) {
	build.Terminating(pod)
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler}}
}

func never(pod *v1.Pod) { policy := v1.PreemptNever; pod.Spec.PreemptionPolicy = &policy }

// on reads "a(10,2) b(5,2)": pods on a node with priority and cpu. Without cpu they
// request 4. They are labelled app=<name>, and those further left started earlier.
func on(node, text string, options ...build.PodOption) []runtime.Object {
	var all []runtime.Object
	for i, field := range strings.Fields(text) {
		name, rest, _ := strings.Cut(strings.TrimSuffix(field, ")"), "(")
		prio, cpu, _ := strings.Cut(rest, ",")
		value, err := strconv.Atoi(prio)
		if err != nil {
			panic(err)
		}
		if cpu == "" {
			cpu = "4"
		}
		own := []build.PodOption{
			build.Named(name), build.NodeName(node), priority(value), build.Container("cpu=" + cpu), build.Labels("app=" + name), started(9, i),
		}
		all = append(all, build.Pod(slices.Concat(own, options)...))
	}
	return all
}

func nodes(text string, options ...build.NodeOption) []runtime.Object {
	var all []runtime.Object
	for _, n := range build.NodesInZones(text, slices.Concat([]build.NodeOption{build.Allocatable("cpu=4")}, options)...) {
		all = append(all, n)
	}
	return all
}

func budget(name, selector string, allowed int32) []runtime.Object {
	return []runtime.Object{&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: build.Selector(selector)},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}}
}

func preemptor(cpu string, options ...build.PodOption) *v1.Pod {
	return build.Pod(slices.Concat([]build.PodOption{build.Container("cpu=" + cpu), priority(100)}, options)...)
}

// pending returns a pending pod that is nominated to a node.
func pending(name string, prio int, cpu, node string) []runtime.Object {
	return []runtime.Object{build.Pod(build.Named(name), priority(prio), build.Container("cpu="+cpu), build.NominatedNodeName(node))}
}

// TestExamples has the worked examples of kube-scheduler's behaviour, by their numbers.
// Example 22 is about the number of candidates in kube-scheduler, and 23 about the
// eviction of a victim at Permit.
func TestExamples(t *testing.T) {
	lowest := -2147483648
	for _, row := range []struct {
		name    string
		cluster [][]runtime.Object
		pod     *v1.Pod
		want    string
	}{
		{"1", [][]runtime.Object{nodes("n1="), on("n1", "a(10,2) b(5,2)")}, preemptor("2"), "n1: b"},
		{"2", [][]runtime.Object{nodes("n1="), on("n1", "a(10,1) b(5,3)")}, preemptor("1"), "n1: b"},
		{"3", [][]runtime.Object{nodes("n1=", build.Allocatable("cpu=3")), on("n1", "a(5,1) b(5,1) c(5,1)")}, preemptor("1"), "n1: c"},
		{"4", [][]runtime.Object{nodes("n1="), on("n1", "b(10,2) a(5,2)"), budget("x", "app=a", 0)}, preemptor("2"), "n1: b"},
		{"5", [][]runtime.Object{nodes("n1="), on("n1", "a(5,4)"), budget("x", "app=a", 0)}, preemptor("2"), "n1: a"},
		{"6", [][]runtime.Object{nodes("n1= n2="), on("n1", "a(50)"), on("n2", "b(10,1) c(10,1) d(10,2)")}, preemptor("4"), "n2: b c d"},
		{"7", [][]runtime.Object{nodes("n1= n2="), on("n1", "a(10)"), on("n2", "b(10,2) c(5,2)")}, preemptor("4"), "n1: a"},
		{
			"8", [][]runtime.Object{nodes("n1= n2="), on("n1", "a(1000,2) b(1000,2)"), on("n2", "c(1000,2) d(-2000000000,1) e(-2000000000,1)")},
			preemptor("4", priority(2000)), "n2: c d e",
		},
		{"9", [][]runtime.Object{nodes("n1= n2="), on("n1", "a(0)"), on("n2", fmt.Sprintf("b(0,2) c(%d,2)", lowest))}, preemptor("4"), "n1: a"},
		{"10", [][]runtime.Object{nodes("n1= n2="), on("n1", "a(10)", started(10, 0)), on("n2", "b(10)", started(10, 30))}, preemptor("4"), "n2: b"},
		{"11", [][]runtime.Object{nodes("n1= n2="), on("n1", "a(90)"), on("n2", "b(1)"), budget("x", "app=b", 0)}, preemptor("4"), "n1: a"},
		{
			"12", [][]runtime.Object{nodes("n1="), on("n1", "a(100)")}, preemptor("1", build.NominatedNodeName("n1")),
			"clear preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
		},
		{
			"13", [][]runtime.Object{nodes("n1= n2= n3=", build.Taints("a=b:NoSchedule")), nodes("n4= n5="), on("n4", "a(100)"), on("n5", "b(200)")},
			preemptor("1", build.NominatedNodeName("n4")),
			"clear preemption: 0/5 nodes are available: 2 No preemption victims found for incoming pod, 3 Preemption is not helpful for scheduling.",
		},
		{
			"14", [][]runtime.Object{nodes("n1= n2= n3="), on("n1", "a(1)")}, preemptor("8", build.NominatedNodeName("n1")),
			"clear preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
		},
		{
			"15", [][]runtime.Object{nodes("n1="), on("n1", "a(1)")}, preemptor("1", never, build.NominatedNodeName("n1")),
			"keep preemption: not eligible due to preemptionPolicy=Never.",
		},
		{
			"16", [][]runtime.Object{nodes("n1= n2="), on("n1", "a(1)", preempted), on("n2", "b(1)")}, preemptor("1", build.NominatedNodeName("n1")),
			"keep preemption: not eligible due to a terminating pod on the nominated node.",
		},
		{
			"17", [][]runtime.Object{nodes("n1=", build.Unschedulable), nodes("n2="), on("n1", "a(1)", preempted), on("n2", "b(1)")},
			preemptor("1", build.NominatedNodeName("n1")), "n2: b",
		},
		{"18", [][]runtime.Object{nodes("n1="), on("n1", "a(1)", build.Terminating)}, preemptor("1", build.NominatedNodeName("n1")), "n1: a"},
		{
			"19: nothing is evicted, so nobody loses a nomination",
			[][]runtime.Object{nodes("n1="), on("n1", "a(1)", build.Terminating), pending("q", 50, "1", "n1")}, preemptor("1"), "n1: a",
		},
		{
			"20", [][]runtime.Object{nodes("n1="), on("n1", "v(5)")},
			preemptor("1", build.RequiredAffinity(build.Term("kubernetes.io/hostname", "app=v")), build.NominatedNodeName("n1")),
			"clear preemption: 0/1 nodes are available: 1 node(s) didn't match pod affinity rules.",
		},
		{
			"21", [][]runtime.Object{nodes("n1=z n2=z"), on("n1", "y(1)"), on("n2", "x(5,1)")},
			preemptor("1", build.RequiredAntiAffinity(build.Term("topology.kubernetes.io/zone", "app=x"))), "n2: x",
		},
		{"24", [][]runtime.Object{nodes("n1="), on("n1", "a(1)"), pending("q", 50, "1", "n1")}, preemptor("4"), "n1: a -q"},
		{
			"25", [][]runtime.Object{nodes("n1="), on("n1", "a(1)"), pending("q", 100, "4", "n1")}, preemptor("4", build.NominatedNodeName("n2")),
			"clear preemption: 0/1 nodes are available: 1 Insufficient cpu.",
		},
		{"26: the nominated pod leaves room", [][]runtime.Object{nodes("n1="), on("n1", "a(1,2) b(2,2)"), pending("q", 100, "2", "n1")}, preemptor("2"), "n1: b a"},
		{
			"27: the node that it is nominated to is gone", [][]runtime.Object{nodes("n2="), on("n1", "a(1)", preempted), on("n2", "b(1)")},
			preemptor("1", build.NominatedNodeName("n1")), "n2: b",
		},
		{
			"28: rejected before any node is looked at", [][]runtime.Object{nodes("n1= n2="), on("n1", "a(1)", preempted)},
			preemptor("1", build.Claims("missing"), build.NominatedNodeName("n1")),
			"keep not found", // DynamicResources ends the chain
		},
		{
			"29: named node", [][]runtime.Object{nodes("n1= n2= n3="), on("n1", "a(100)"), on("n2", "b(1)")},
			preemptor("1", inNode("n1"), build.NominatedNodeName("n1")),
			"clear preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling.",
		},
		{
			"30: budgets by importance", [][]runtime.Object{nodes("n1="), on("n1", "a(3,1) b(2,1) c(1,1) d(1,1)"), budget("x", "app In a,b,c", 1)}, preemptor("2"),
			"n1: a d", // a is covered, b and c would violate and return first
		},
		{"31: unstarted goes first", [][]runtime.Object{nodes("n1="), on("n1", "a(1,2)", unstarted), on("n1", "b(1,2)")}, preemptor("2"), "n1: a"},
		{"32: unstarted is the latest", [][]runtime.Object{nodes("n1= n2="), on("n1", "a(1)", unstarted), on("n2", "b(1)")}, preemptor("2"), "n1: a"},
		{"33: equals by name", [][]runtime.Object{nodes("n1="), on("n1", "b(1,2) a(1,2)", started(10, 0))}, preemptor("2"), "n1: b"},
		{"34: ports", [][]runtime.Object{nodes("n1= n2="), on("n1", "a(1,1) b(2,1)", hostPort(80)), on("n2", "c(3,1)", hostPort(80))}, preemptor("1", hostPort(80)), "n1: b a"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := newCluster(t, 1, slices.Concat(row.cluster...)...)
			if got := outcome(c.decide(row.pod)); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
}

func inNode(name string) build.PodOption {
	return func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{name}}}}},
		}}}
	}
}

func hostPort(port int32) build.PodOption {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: port, HostPort: port, Protocol: v1.ProtocolTCP}}
	}
}

func unstarted(pod *v1.Pod) { pod.Status.StartTime = nil }
