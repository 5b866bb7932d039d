package oracle

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// The rules come from design/rules/message.md.
func TestMessage(t *testing.T) {
	big := newNode("n1", has("cpu=4 memory=4Gi"))
	taint := tainted("a=b:NoSchedule")
	tests := []struct {
		name  string
		nodes []*v1.Node
		pod   *v1.Pod
		want  string
	}{
		{"no nodes", nil, pod(run("")), "no nodes available to schedule pods"},
		{"feasible", nodes(big), pod(run("")), ""},
		{"a node counts under each of its reasons", nodes(newNode("n1"), newNode("n2", taint), newNode("n3", taint), newNode("n4", taint)), pod(run("cpu=1 memory=1")),
			"0/4 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 3 node(s) had untolerated taint(s)."},
		{"pinned to a full node", nodes(newNode("n1"), newNode("n2"), newNode("n3")), pod(run("cpu=1"), require(fieldTerm("metadata.name In n1"))),
			"0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."},
		{"only the first plugin is reported", nodes(newNode("n1", cordoned, taint)), pod(run("cpu=1")), "0/1 nodes are available: 1 node(s) were unschedulable."},
	}
	for _, tt := range tests {
		if got := Judge(cluster(tt.nodes), tt.pod, DefaultProfile()).Rejected; got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// The counts are sorted as text: 10 comes before 2.
func TestMessageSortsAsText(t *testing.T) {
	var all []*v1.Node
	for i := range 12 {
		part := cordoned
		if i < 2 {
			part = tainted("a:NoExecute")
		}
		all = append(all, newNode(fmt.Sprint("n", i), part))
	}
	want := "0/12 nodes are available: 10 node(s) were unschedulable, 2 node(s) had untolerated taint(s)."
	if got := Judge(cluster(all), pod(run("")), DefaultProfile()).Rejected; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEveryRejectionInFilterOrder(t *testing.T) {
	n := newNode("n", cordoned, tainted("a:NoSchedule"))
	var got []string
	for _, r := range Judge(cluster(nodes(n)), pod(run("cpu=1"), nodeSelector("disk=ssd")), DefaultProfile()).Nodes[0].Rejections {
		got = append(got, r.Plugin)
	}
	if want := "[NodeUnschedulable TaintToleration NodeAffinity NodeResourcesFit]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestWeightsAndBest(t *testing.T) {
	full := func(name string) *v1.Node { return newNode(name, has("cpu=4 memory=8Gi")) }
	three := nodes(full("b"), full("a"), newNode("c", has("cpu=4 memory=8Gi"), tainted("x:PreferNoSchedule")))
	p := pod(run("cpu=1 memory=2Gi"))
	tests := []struct {
		profile Profile
		best    string
		totals  string
	}{
		// 3×100 + 75 (fit) + 75 (balanced) + 0 (images)
		{DefaultProfile(), "[a b]", "[450 450 150]"},
		{Profile{Weights: map[string]int64{"TaintToleration": 1}}, "[a b]", "[250 250 150]"},
		{Profile{Disabled: map[string]bool{"TaintToleration": true}}, "[a b c]", "[150 150 150]"},
	}
	for _, tt := range tests {
		a := Judge(cluster(three), p, tt.profile)
		var totals []int64
		for _, n := range a.Nodes {
			totals = append(totals, n.Total)
		}
		if fmt.Sprint(a.Best) != tt.best || fmt.Sprint(totals) != tt.totals {
			t.Errorf("got %v %v, want %s %s", a.Best, totals, tt.best, tt.totals)
		}
	}
}
