package compare

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

	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/parity/internal/cases"
	"github.com/berth-scheduler/berth/parity/internal/upstream"
)

// preemptor is the name of the pod in each example.
const preemptor = "p"

// TestExamples has the worked examples of preemption, as kube-scheduler decides them.
// Berth must decide each in the same way. Two examples are missing: the number of
// candidates that kube-scheduler looks for is not compared, and the eviction of a victim
// that waits in memory is not decided here.
func TestExamples(t *testing.T) {
	const cpu = "1 Insufficient cpu. "
	for _, tt := range []struct {
		name    string
		objects [][]runtime.Object
		pod     *v1.Pod
		want    string
	}{
		{"1: the more important one stays", list(nodes("n1="), on("n1", "a(10,2) b(5,2)")), needs("2"), "set n1 [default/b] 0"},
		{"2: greedy", list(nodes("n1="), on("n1", "a(10,1) b(5,3)")), needs("1"), "set n1 [default/b] 0"},
		{"3: the youngest", list(nodes("n1=", build.Allocatable("cpu=3 pods=9")), on("n1", "a(5,1) b(5,1) c(5,1)")), needs("1"), "set n1 [default/c] 0"},
		{"4: violating ones are put back first", list(nodes("n1="), on("n1", "b(10,2) a(5,2)"), budget("a", 0)), needs("2"), "set n1 [default/b] 0"},
		{"5: a budget is no veto", list(nodes("n1="), on("n1", "a(5,4)"), budget("a", 0)), needs("2"), "set n1 [default/a] 1"},
		{"6: lowest first victim", list(nodes("n1= n2="), on("n1", "a(50,4)"), on("n2", "b(10,1) c(10,1) d(10,2)")), needs("4"), "set n2 [default/b default/c default/d] 0"},
		{"7: smallest sum", list(nodes("n1= n2="), on("n1", "a(10,4)"), on("n2", "b(10,2) c(5,2)")), needs("4"), "set n1 [default/a] 0"},
		{"8: sums with very low priorities", list(nodes("n1= n2="), on("n1", "a(1000,2) b(1000,2)"), on("n2", "c(1000,2) d(-2000000000,1) e(-2000000000,1)")),
			needs("4", priority(2000)), "set n2 [default/c default/d default/e] 0"},
		{"9: fewest victims", list(nodes("n1= n2="), on("n1", "a(0,4)"), on("n2", "b(0,2) c(-2147483648,2)")), needs("4"), "set n1 [default/a] 0"},
		{"10: latest start", list(nodes("n1= n2="), on("n1", "a(10,4)", started(0)), on("n2", "b(10,4)", started(30))), needs("4"), "set n2 [default/b] 0"},
		{"11: fewest violations", list(nodes("n1= n2="), on("n1", "a(90,4)"), on("n2", "b(1,4)"), budget("b", 0)), needs("4"), "set n1 [default/a] 0"},
		{"12: equal priority", list(nodes("n1="), on("n1", "a(100,4)")), needs("1", build.NominatedNodeName("n1")),
			"clear: " + cpu + "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."},
		{"13: tainted and full nodes", list(nodes("n1= n2= n3=", build.Taints("a=b:NoSchedule")), nodes("n4= n5="), on("n4", "a(100,4)"), on("n5", "b(200,4)")), needs("1"),
			"clear: 2 Insufficient cpu, 3 node(s) had untolerated taint(s). preemption: 0/5 nodes are available: " +
				"2 No preemption victims found for incoming pod, 3 Preemption is not helpful for scheduling."},
		{"14: larger than any node", list(nodes("n1= n2= n3="), on("n1", "a(1,4)")), needs("8"),
			"clear: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."},
		{"15: policy", list(nodes("n1="), on("n1", "a(1,4)")), needs("1", never), "keep: " + cpu + "preemption: not eligible due to preemptionPolicy=Never."},
		{"16: its victim is on the way out", list(nodes("n1= n2="), on("n1", "a(1,4)", preempted), on("n2", "b(1,4)")), needs("1", build.NominatedNodeName("n1")),
			"keep: 2 Insufficient cpu. preemption: not eligible due to a terminating pod on the nominated node."},
		{"17: the node is cordoned meanwhile", list(nodes("n1=", build.Unschedulable), nodes("n2="), on("n1", "a(1,4)", preempted), on("n2", "b(1,4)")),
			needs("1", build.NominatedNodeName("n1")), "set n2 [default/b] 0"},
		{"18: deleted by a user", list(nodes("n1="), on("n1", "a(1,4)", build.Terminating)), needs("1", build.NominatedNodeName("n1")), "set n1 [default/a] 0"},
		{"19: nothing to evict, so others stay nominated", list(nodes("n1="), on("n1", "a(1,4)", build.Terminating), nominated("q", 50, "1", "n1")), needs("1"),
			"set n1 [default/a] 0"},
		{"20: affinity to a victim", list(nodes("n1="), on("n1", "v(5,4)")), needs("1", build.RequiredAffinity(build.Term("kubernetes.io/hostname", "app=v"))),
			"clear: " + cpu + "preemption: 0/1 nodes are available: 1 node(s) didn't match pod affinity rules."},
		{"21: anti-affinity in the zone", list(nodes("n1=z n2=z"), on("n1", "y(1,4)"), on("n2", "x(5,1)")),
			needs("1", build.RequiredAntiAffinity(build.Term("topology.kubernetes.io/zone", "app=x"))), "set n2 [default/x] 0"},
		{"24: a lower nomination is cleared", list(nodes("n1="), on("n1", "a(1,4)"), nominated("q", 50, "1", "n1")), needs("4"), "set n1 [default/a] 0, not [default/q]"},
		{"25: an equal nomination counts", list(nodes("n1="), on("n1", "a(1,4)"), nominated("q", 100, "4", "n1")), needs("4"),
			"clear: " + cpu + "preemption: 0/1 nodes are available: 1 Insufficient cpu."},
		{"rejected before any node: DynamicResources ends the chain", list(nodes("n1= n2="), on("n1", "a(1,4)")), needs("1", build.Claims("missing")),
			`keep: persistentvolumeclaim "missing" not found. not found`},
		{"budgets by importance", list(nodes("n1="), on("n1", "a(3,1) b(2,1) c(1,1) d(1,1)"), budget("a,b,c", 1)), needs("2"), "set n1 [default/a default/d] 0"},
		{"not started, so youngest", list(nodes("n1="), on("n1", "a(1,2)", unstarted), on("n1", "b(1,2)")), needs("2"), "set n1 [default/a] 0"},
		{"not started, so latest", list(nodes("n1= n2="), on("n1", "a(1,4)", unstarted), on("n2", "b(1,4)")), needs("2"), "set n1 [default/a] 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tc := cases.Case{Config: cases.EmptyConfig()}
			for _, o := range slices.Concat(tt.objects...) {
				switch o := o.(type) {
				case *v1.Node:
					tc.Nodes = append(tc.Nodes, o)
				case *v1.Pod:
					tc.Pods = append(tc.Pods, o)
				default:
					tc.Add(o)
				}
			}
			tc.Pods = append(tc.Pods, tt.pod)
			theirs, err := InProcess().load(tc.Clone())
			if err != nil {
				t.Fatal(err)
			}
			defer theirs.Close()
			v, err := theirs.Judge(tt.pod)
			if err != nil {
				t.Fatal(err)
			}
			if got := outcome(v); got != tt.want {
				t.Errorf("kube-scheduler: got %s, want %s", got, tt.want)
			}
			r, err := InProcess().Case(tc)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range r.Differences {
				t.Error(d)
			}
		})
	}
}

// outcome describes a preemption: the nomination, the node, the victims, the violations,
// and the pods that lose their nomination. Without a nomination it returns the text about
// the nodes.
func outcome(v *upstream.Verdict) string {
	p := v.Preemption
	if p == nil {
		return fmt.Sprintf("feasible %d, error %v", v.Feasible, v.Err)
	}
	if p.Mode != upstream.Set {
		_, text, _ := strings.Cut(v.Message, ": ")
		return fmt.Sprintf("%s: %s", p.Mode, text)
	}
	c := p.Candidate(p.NodeName)
	text := fmt.Sprintf("set %s %v %d", p.NodeName, c.VictimNames(), c.Violations)
	if len(p.Outranked) > 0 {
		text += fmt.Sprintf(", not %v", p.Outranked)
	}
	if want := fmt.Sprintf(" preemption: found a potential placement for pod on node %s, preempting %d victims", p.NodeName, len(c.Victims)); v.Message != v.MessageBefore+want {
		text += ", " + v.Message
	}
	return text
}

func list(parts ...[]runtime.Object) [][]runtime.Object { return parts }

func nodes(text string, options ...build.NodeOption) []runtime.Object {
	var all []runtime.Object
	for _, n := range build.NodesInZones(text, slices.Concat([]build.NodeOption{build.Allocatable("cpu=4 pods=110")}, options)...) {
		all = append(all, n)
	}
	return all
}

// on reads "a(10,2) b(5,2)": pods on a node with priority and cpu, labelled app=<name>.
// Pods further left started earlier.
func on(node, text string, options ...build.PodOption) []runtime.Object {
	var all []runtime.Object
	for i, field := range strings.Fields(text) {
		name, rest, _ := strings.Cut(strings.TrimSuffix(field, ")"), "(")
		of, cpu, _ := strings.Cut(rest, ",")
		value, err := strconv.ParseInt(of, 10, 32)
		if err != nil {
			panic(err)
		}
		own := []build.PodOption{build.Named(name), build.NodeName(node), priority(int32(value)), build.Container("cpu=" + cpu), build.Labels("app=" + name), started(i)}
		all = append(all, build.Pod(slices.Concat(own, options)...))
	}
	return all
}

func needs(cpu string, options ...build.PodOption) *v1.Pod {
	return build.Pod(slices.Concat([]build.PodOption{build.Named(preemptor), build.Container("cpu=" + cpu), priority(100)}, options)...)
}

func nominated(name string, of int32, cpu, node string) []runtime.Object {
	return []runtime.Object{build.Pod(build.Named(name), priority(of), build.Container("cpu="+cpu), build.NominatedNodeName(node))}
}

func budget(apps string, allowed int32) []runtime.Object {
	return []runtime.Object{&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "budget"},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: strings.Split(apps, ",")}}}},
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}}
}

func priority(of int32) build.PodOption { return func(p *v1.Pod) { p.Spec.Priority = &of } }

func started(minute int) build.PodOption {
	return func(p *v1.Pod) {
		p.Status.StartTime = &metav1.Time{Time: time.Date(2026, 1, 1, 10, minute, 0, 0, time.UTC)}
	}
}

func unstarted(p *v1.Pod) { p.Status.StartTime = nil }

func never(p *v1.Pod) { policy := v1.PreemptNever; p.Spec.PreemptionPolicy = &policy }

// preempted makes a pod a preempted one that still terminates.
func preempted(p *v1.Pod) {
	build.Terminating(p)
	p.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler}}
}
