package nodename

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func pod(nodeName string) *model.Pod {
	return model.NewPod(&v1.Pod{Spec: v1.PodSpec{NodeName: nodeName}})
}

func node(name string) state.Node {
	return plugintest.Node(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

func TestFilter(t *testing.T) {
	for _, row := range []struct {
		name, nodeName string
		narrows        []string
		node           string
		rejection      string
	}{
		{"no name", "", nil, "n1", ""},
		{"the node", "n1", []string{"n1"}, "n1", ""},
		{"another node", "n1", []string{"n1"}, "n2", "node(s) didn't match the requested node name"},
		{"an absent node", "n9", []string{"n9"}, "n2", "node(s) didn't match the requested node name"},
	} {
		p := New()
		result := p.PreFilter(state.View{}, pod(row.nodeName))
		names, narrowed, rejection := result.Nodes, result.Narrowed, result.Rejection
		if p.Skips(pod(row.nodeName)) != (row.narrows == nil) || !slices.Equal(names, row.narrows) || narrowed != (row.narrows != nil) || rejection != "" {
			t.Errorf("%s: narrowed to %q, %t, %q", row.name, names, narrowed, rejection)
		}
		filter := plugintest.Verdicts(p, pod(row.nodeName))
		code := filter.Filter(node(row.node))
		var got string
		if code != 0 {
			got = filter.Reasons(code)[0]
		}
		if got != row.rejection || code != 0 && !code.IsUnresolvable() {
			t.Errorf("%s: got %x %q, want %q", row.name, code, got, row.rejection)
		}
	}
}

func TestNeed(t *testing.T) {
	p := New()
	if !plugintest.FilterNeed(p, pod("")).IsZero() {
		t.Error("a pod without a node name has a need")
	}
	if one, same := plugintest.FilterNeed(p, pod("n1")), plugintest.FilterNeed(p, pod("n1")); one != same || one == plugintest.FilterNeed(p, pod("n2")) {
		t.Error("the need is not the node name")
	}
}

func TestEventsToRegister(t *testing.T) {
	event := model.Event{Resource: model.NodeEvent, Action: model.Add, Node: model.NewNode(&v1.Node{})}
	if registrations := New().EventsToRegister(); len(registrations) != 1 || !registrations[0].Helps(pod("n1"), event) {
		t.Error("a new node does not help")
	}
}

func TestFilterAllocatesNothing(t *testing.T) {
	filter, n := plugintest.Verdicts(New(), pod("n1")), node("n2")
	if allocs := testing.AllocsPerRun(100, func() { filter.Filter(n) }); allocs != 0 {
		t.Errorf("Filter allocates %v times", allocs)
	}
}

func BenchmarkFilter(b *testing.B) {
	filter, n := plugintest.Verdicts(New(), pod("n1")), node("n2")
	b.ReportAllocs()
	for b.Loop() {
		filter.Filter(n)
	}
}
