package oracle

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/proof/build"
)

// preemptionPod parses a pod such as "a n1 10 2": name, node, priority, cpus. A node name
// in brackets nominates the pod. Its start time is the minute of the hour that is its
// name's place in the alphabet. P is the preemptor.
func preemptionPod(t *testing.T, text string, parts ...podPart) *v1.Pod {
	t.Helper()
	f := strings.Fields(text)
	prio, err := strconv.ParseInt(f[2], 10, 32)
	if len(f) != 4 || err != nil {
		t.Fatalf("pod %q: %v", text, err)
	}
	p := pod(build.Named(f[0]), run("cpu="+f[3]))
	p.Spec.Priority = ptr(int32(prio))
	p.UID = types.UID(f[0])
	if name, ok := strings.CutPrefix(f[1], "("); ok {
		p.Status.NominatedNodeName = strings.TrimSuffix(name, ")")
	} else if f[1] != "-" {
		p.Spec.NodeName = f[1]
		p.Status.StartTime = &metav1.Time{Time: time.Date(2026, 1, 1, 10, int(f[0][0]-'a'), 0, 0, time.UTC)}
	}
	for _, part := range parts {
		part(p)
	}
	return p
}

func ptr[T any](v T) *T { return &v }

func startedAt(minute int) podPart {
	return func(p *v1.Pod) {
		p.Status.StartTime = &metav1.Time{Time: time.Date(2026, 1, 1, 10, minute, 0, 0, time.UTC)}
	}
}

func unstarted(p *v1.Pod) { p.Status.StartTime = nil }

func neverPreempts(p *v1.Pod) { p.Spec.PreemptionPolicy = ptr(v1.PreemptNever) }

// preempted makes a pod terminate because of a preemption.
func preempted(p *v1.Pod) {
	build.Terminating(p)
	p.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler}}
}

// budget returns a budget for the pods of the default namespace with the labels.
func budget(name, labels string, allowed int32) *Budget {
	b := &Budget{ObjectMeta: metav1.ObjectMeta{Namespace: pod().Namespace, Name: name}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: build.LabelSet(labels)}
	b.Status.DisruptionsAllowed = allowed
	return b
}

// outcome writes the result as "n1: a b" for each candidate, with the number of
// violations, if any, and the pods that lose their nominations. Without candidates it
// writes the message and the effect on the nomination.
func outcome(a Judgment) string {
	if a.Preemption == nil {
		return fmt.Sprintf("best %v", a.Best)
	}
	var all []string
	for _, c := range a.Preemption.Candidates {
		text := c.Node + ":"
		for _, p := range c.Victims {
			text += " " + p.Name
		}
		if c.Violations > 0 {
			text += fmt.Sprintf(", %d violations", c.Violations)
		}
		for _, p := range c.Outranked {
			text += ", not " + p.Name
		}
		all = append(all, text)
	}
	if len(all) > 0 {
		return strings.Join(all, "; ")
	}
	text := strings.TrimPrefix(a.Preemption.Text, "preemption: ")
	if a.Preemption.Clears {
		return text + " cleared"
	}
	return text + " kept"
}

// The rows are the numbered worked examples of the reference, and more.
func TestPreemption(t *testing.T) {
	const (
		noVictims  = "No preemption victims found for incoming pod"
		noHelp     = "Preemption is not helpful for scheduling"
		protected  = "app=x"
		overPolicy = "not eligible due to preemptionPolicy=Never. kept"
		terminates = "not eligible due to a terminating pod on the nominated node. kept"
	)
	on := func(text string, parts ...podPart) *v1.Pod { return preemptionPod(t, text, parts...) }
	app := build.Labels(protected)
	full := has("cpu=4 memory=8Gi pods=110")
	two := []*v1.Node{newNode("n1", full), newNode("n2", full)}
	one := two[:1]
	with := func(text string, nodes []*v1.Node, pods ...*v1.Pod) (*v1.Pod, Cluster) {
		return on(text), Cluster{Nodes: nodes, Pods: pods}
	}
	type row struct {
		name    string
		want    string
		p       *v1.Pod
		cluster Cluster
	}
	var rows []row
	add := func(name, want string, p *v1.Pod, c Cluster) { rows = append(rows, row{name, want, p, c}) }
	protecting := func(c Cluster, all ...*Budget) Cluster {
		c.DisruptionBudgets = all
		return c
	}

	p, c := with("P - 100 2", one, on("a n1 10 2"), on("b n1 5 2"))
	add("1", "n1: b", p, c)
	p, c = with("P - 100 1", one, on("a n1 10 1"), on("b n1 5 3"))
	add("2", "n1: b", p, c)
	three := []*v1.Node{newNode("n1", has("cpu=3 memory=8Gi pods=110"))}
	p, c = with("P - 100 1", three, on("c n1 5 1"), on("b n1 5 1"), on("a n1 5 1"))
	add("3", "n1: c", p, c)
	p, c = with("P - 100 2", one, on("a n1 5 2", app), on("b n1 10 2"))
	add("4", "n1: b", p, protecting(c, budget("x", protected, 0)))
	p, c = with("P - 100 2", one, on("a n1 5 4", app))
	add("5", "n1: a, 1 violations", p, protecting(c, budget("x", protected, 0)))
	p, c = with("P - 100 4", two, on("a n1 50 4"), on("b n2 10 1"), on("c n2 10 1"), on("d n2 10 1"))
	add("6", "n2: b c d", p, c)
	p, c = with("P - 100 4", two, on("a n1 10 4"), on("b n2 10 1"), on("c n2 5 1"))
	add("7", "n1: a", p, c)
	p, c = with("P - 2000 4", two, on("a n1 1000 1"), on("b n1 1000 1"),
		on("c n2 1000 1"), on("d n2 -2000000000 1"), on("e n2 -2000000000 1"))
	add("8", "n2: c d e", p, c)
	p, c = with("P - 100 4", two, on("a n1 0 4"), on("b n2 0 1"), on("c n2 -2147483648 1"))
	add("9", "n1: a", p, c)
	p, c = with("P - 100 4", two, on("a n1 10 4", startedAt(0)), on("b n2 10 4", startedAt(30)))
	add("10", "n2: b", p, c)
	p, c = with("P - 100 4", two, on("a n1 90 4"), on("b n2 1 4", app))
	add("11", "n1: a", p, protecting(c, budget("x", protected, 0)))
	p, c = with("P - 100 1", one, on("a n1 100 4"))
	add("12", "0/1 nodes are available: 1 "+noVictims+". cleared", p, c)
	taint := tainted("a=b:NoSchedule")
	p, c = with("P - 100 1", []*v1.Node{newNode("n1", full), newNode("n2", full), newNode("n3", full, taint), newNode("n4", full, taint), newNode("n5", full, taint)},
		on("a n1 100 4"), on("b n2 200 4"))
	add("13", "0/5 nodes are available: 2 "+noVictims+", 3 "+noHelp+". cleared", p, c)
	p, c = with("P - 100 8", []*v1.Node{newNode("n1", full), newNode("n2", full), newNode("n3", full)}, on("a n1 5 4"))
	add("14", "0/3 nodes are available: 3 "+noHelp+". cleared", p, c)
	_, c = with("P - 100 1", one, on("a n1 5 4"))
	add("15", overPolicy, on("P - 100 1", neverPreempts), c)
	add("15, nominated", overPolicy, on("P (n1) 100 1", neverPreempts), c)
	p, c = with("P (n1) 100 1", two, on("a n1 5 4", preempted), on("b n2 5 4"))
	add("16", terminates, p, c)
	p, c = with("P (n1) 100 1", []*v1.Node{newNode("n1", full, cordoned), two[1]}, on("a n1 5 4", preempted), on("b n2 5 4"))
	add("17", "n2: b", p, c)
	p, c = with("P (n1) 100 1", []*v1.Node{two[1]}, on("a n1 5 4", preempted), on("b n2 5 4"))
	add("17, the node is gone", "n2: b", p, c)
	p, c = with("P (n1) 100 1", one, on("a n1 5 4", build.Terminating))
	add("18", "n1: a", p, c)
	p, c = with("P - 100 1", one, on("a n1 5 4", build.Terminating), on("q (n1) 50 1"))
	add("19, and nobody is outranked", "n1: a", p, c)
	_, c = with("P - 100 1", one, on("v n1 5 4", app))
	add("20", "0/1 nodes are available: 1 node(s) didn't match pod affinity rules. cleared",
		on("P - 100 1", besides(protected, v1.LabelHostname)), c)
	zoned := []*v1.Node{newNode("n1", full, labelled("zone=z1")), newNode("n2", full, labelled("zone=z1"))}
	_, c = with("P - 100 1", zoned, on("x n2 5 1", app), on("y n1 5 4"))
	add("21", "n2: x", on("P - 100 1", awayFrom(protected, "zone")), c)
	p, c = with("P - 100 4", one, on("a n1 10 4"), on("q (n1) 50 1"), on("r (n1) 100 0"), on("s (n2) 50 1"))
	add("24", "n1: a, not q", p, c)
	p, c = with("P - 100 2", one, on("v n1 10 4"), on("q (n1) 100 3"))
	add("25", "0/1 nodes are available: 1 Insufficient cpu. cleared", p, c)
	p, c = with("P - 100 1", one, on("v n1 10 4"), on("q (n1) 100 3"))
	add("beside a nominated pod", "n1: v", p, c)

	p, c = with("P (n1) 100 1", one, on("a n1 100 2", preempted), on("b n1 5 2"))
	add("only pods of lower priority are waited for", "n1: b", p, c)
	p, c = with("P (n1) 100 1", one, on("a n1 5 4"))
	c.Evicted = []types.UID{"a"}
	add("an eviction that is not seen yet is waited for", terminates, p, c)
	other := func(p *v1.Pod) { p.Namespace = "other" }
	for _, r := range []struct {
		name string
		edit func(*Budget)
		pod  podPart
		want string
	}{
		{"a budget", func(*Budget) {}, app, "n1: a, 1 violations"},
		{"of another namespace", func(b *Budget) { b.Namespace = "other" }, app, "n1: a"},
		{"for a pod of another namespace", func(*Budget) {}, func(p *v1.Pod) { app(p); other(p) }, "n1: a"},
		{"without selector", func(b *Budget) { b.Spec.Selector = nil }, app, "n1: a"},
		{"with an empty one", func(b *Budget) { b.Spec.Selector = &metav1.LabelSelector{} }, app, "n1: a"},
		{"with an invalid one", func(b *Budget) {
			b.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}
		}, app, "n1: a"},
		{"that selects pods without the label", func(b *Budget) {
			b.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "y", Operator: metav1.LabelSelectorOpDoesNotExist}}}
		}, app, "n1: a, 1 violations"},
		{"the same for a pod without labels", func(b *Budget) {
			b.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "y", Operator: metav1.LabelSelectorOpDoesNotExist}}}
		}, func(*v1.Pod) {}, "n1: a"},
		{"with the disruption counted", func(b *Budget) { b.Status.DisruptedPods = map[string]metav1.Time{"a": {}} }, app, "n1: a"},
		{"that allows one", func(b *Budget) { b.Status.DisruptionsAllowed = 1 }, app, "n1: a"},
	} {
		b := budget("x", protected, 0)
		r.edit(b)
		p, c := with("P - 100 2", one, on("a n1 5 4", r.pod))
		add(r.name, r.want, p, protecting(c, b))
	}
	both := build.Labels("app=x tier=y")
	p, c = with("P - 100 4", one, on("a n1 30 1", both), on("b n1 20 1", build.Labels("tier=y")), on("c n1 10 1", app))
	add("a budget that is violated spares those after it", "n1: a b c, 2 violations", p,
		protecting(c, budget("2", "tier=y", 1), budget("1", protected, 0)))
	p, c = with("P - 100 4", one, on("a n1 30 1", app), on("b n1 20 1", app), on("c n1 10 1", app))
	add("a budget allows the most important", "n1: a b c, 2 violations", p, protecting(c, budget("x", protected, 1)))
	p, c = with("P - 100 2", one, on("c n1 10 1"), on("b n1 10 1", unstarted), on("a n1 10 1", unstarted), on("d n1 10 1"))
	add("those that are not started go first", "n1: a b", p, c)
	p, c = with("P - 100 4", two, on("a n1 10 4", unstarted), on("b n2 10 4", startedAt(59)))
	add("not started is the latest start", "n1: a", p, c)
	p, c = with("P - 100 4", two, on("a n1 10 2", startedAt(5)), on("b n1 10 2", startedAt(9)), on("c n2 10 2", startedAt(6)), on("d n2 10 2", startedAt(7)))
	add("the earliest start counts", "n2: c d", p, c)
	p, c = with("P - 100 4", two, on("a n1 10 4", startedAt(1)), on("b n2 10 4", startedAt(1)))
	add("equal nodes", "n1: a; n2: b", p, c)
	p, c = with(fmt.Sprint("P - ", math.MaxInt32, " 4"), one, on(fmt.Sprint("a n1 ", math.MinInt32, " 4")))
	add("extreme priorities", "n1: a", p, c)
	_, c = with("P - 100 1", one, on("a n1 -1 4"))
	add("no priority is 0", "n1: a", on("P - 0 1", func(p *v1.Pod) { p.Spec.Priority = nil }), c)

	for _, r := range rows {
		a := Judge(r.cluster, r.p, DefaultProfile())
		if got := outcome(a); got != r.want {
			t.Errorf("%s:\ngot  %s\nwant %s", r.name, got, r.want)
		}
	}
}

// besides and awayFrom require pods with the labels in the pod's domain, or their
// absence.
func besides(labels, key string) podPart {
	return func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: oneTerm(labels, key)}}
	}
}

func awayFrom(labels, key string) podPart {
	return func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: oneTerm(labels, key)}}
	}
}

func oneTerm(labels, key string) []v1.PodAffinityTerm {
	return []v1.PodAffinityTerm{{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: build.LabelSet(labels)}}}
}

// TestPreemptionMessage compares whole messages: examples 1, 14 and 15, several
// candidates, a rejection by PreFilter, and a profile without the plugin.
func TestPreemptionMessage(t *testing.T) {
	full := has("cpu=4 memory=8Gi pods=110")
	one, on := []*v1.Node{newNode("n1", full)}, func(text string, parts ...podPart) *v1.Pod { return preemptionPod(t, text, parts...) }
	two := append(one[:1:1], newNode("n2", full))
	for _, row := range []struct {
		p       *v1.Pod
		c       Cluster
		profile Profile
		node    string
		want    string
	}{
		{on("P - 100 2"), Cluster{Nodes: one, Pods: []*v1.Pod{on("a n1 10 2"), on("b n1 5 2")}}, Profile{}, "n1",
			"0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for pod on node n1, preempting 1 victims"},
		{on("P - 100 4"), Cluster{Nodes: two, Pods: []*v1.Pod{on("a n1 10 4", unstarted), on("b n2 10 4", unstarted)}}, Profile{}, "n2",
			"0/2 nodes are available: 2 Insufficient cpu. preemption: found a potential placement for pod on node n2, preempting 1 victims"},
		{on("P - 100 8"), Cluster{Nodes: one}, Profile{}, "",
			"0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."},
		{on("P - 100 8", neverPreempts), Cluster{Nodes: one}, Profile{}, "",
			"0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."},
		{on("P - 100 1", build.Claims("data")), Cluster{Nodes: one}, Profile{}, "",
			`0/1 nodes are available: persistentvolumeclaim "data" not found. not found`},
		{on("P - 100 8"), Cluster{Nodes: one}, Profile{Disabled: map[string]bool{"DefaultPreemption": true}}, "", "0/1 nodes are available: 1 Insufficient cpu."},
		{on("P - 100 8"), Cluster{}, Profile{}, "", "no nodes available to schedule pods"},
	} {
		a := Judge(row.c, row.p, row.profile)
		if _, got, ok := a.Outcome(row.node); !ok || got != row.want {
			t.Errorf("%s\ngot  %q, %t\nwant %q", row.p.Name, got, ok, row.want)
		}
		if _, _, ok := a.Outcome("n9"); ok {
			t.Error("a node that is no candidate is taken")
		}
	}
}
