package topologyplacementgenerator_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/plugins/topologyplacementgenerator"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// groupOf returns the group default/g with a topology key. An empty key sets none.
func groupOf(key string) *model.PodGroup {
	object := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g"}}
	if key != "" {
		object.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: key}}}
	}
	return model.NewPodGroup(object)
}

func member(name, group, node string) *v1.Pod {
	p := build.Pod(build.Named(name), build.NodeName(node))
	p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	return p
}

// generated returns the placements, each "NAME: NODE NODE", or the error.
func generated(s *state.State, key string, within ...int32) string {
	var some *state.Restriction
	if len(within) > 0 {
		some = state.RestrictTo(within)
	}
	placements, err := topologyplacementgenerator.New().GeneratePlacements(s.View(), model.TreeOf(groupOf(key)), some)
	if err != nil {
		return err.Error()
	}
	texts := []string{}
	for _, p := range placements {
		if p.Nodes == nil {
			texts = append(texts, p.Name+": all")
			continue
		}
		text := p.Name + ":"
		for _, slot := range p.Nodes.Slots() {
			text += " " + s.View().Node(slot).Name()
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

func TestGeneratePlacements(t *testing.T) {
	rack := func(name, value string) *v1.Node { return build.Node(name, build.NodeLabels("rack="+value)) }
	nodes := []*v1.Node{rack("n0", "z"), rack("n1", "a"), build.Node("n2"), rack("n3", "z"), rack("n4", "m"), rack("n5", "")}
	const apart = "cannot determine domain for already scheduled pods: "
	for _, row := range []struct {
		name, key string
		pods      []*v1.Pod
		want      string
	}{
		{"without a key", "", nil, ": all"},
		{"without a key, members apart", "", []*v1.Pod{member("a", "g", "n0"), member("b", "g", "n1")}, ": all"},
		{"by value", "rack", nil, ": n5; a: n1; m: n4; z: n0 n3"},
		{"no node has it", "row", nil, ""},
		{"members on nodes", "rack", []*v1.Pod{member("a", "g", "n3"), member("b", "g", "n0")}, "z: n0 n3"},
		{"members of others", "rack", []*v1.Pod{member("a", "h", "n3")}, ": n5; a: n1; m: n4; z: n0 n3"},
		{"in the empty value's domain", "rack", []*v1.Pod{member("a", "g", "n5")}, ": n5"},
		{"in two domains", "rack", []*v1.Pod{member("a", "g", "n0"), member("b", "g", "n4"), member("c", "g", "n1")}, apart + "more than 1 domain found for pod group: a, m"},
		{"in no domain", "rack", []*v1.Pod{member("a", "g", "n0"), member("c", "g", "n2"), member("b", "g", "n2")}, apart + "no topology domain found for pod default/b"},
		{"on a node that is gone", "rack", []*v1.Pod{member("a", "g", "gone")}, apart + `getting node for pod default/a: nodeinfo not found for node name "gone"`},
	} {
		if got := generated(plugintest.Cluster(nodes, row.pods...), row.key); got != row.want {
			t.Errorf("%s:\n got %s\nwant %s", row.name, got, row.want)
		}
	}
	if name := topologyplacementgenerator.New().Name(); name != "TopologyPlacementGenerator" {
		t.Errorf("the plugin calls itself %s", name)
	}
}

// TestGeneratedWithinSomeNodes divides only some of the nodes, as in the domain chosen
// for the parent group.
func TestGeneratedWithinSomeNodes(t *testing.T) {
	rack := func(name, value string) *v1.Node { return build.Node(name, build.NodeLabels("rack="+value)) }
	nodes := []*v1.Node{rack("n0", "z"), rack("n1", "a"), build.Node("n2"), rack("n3", "z"), rack("n4", "m"), rack("n5", "z")}
	for _, row := range []struct {
		key    string
		within []int32
		pods   []*v1.Pod
		want   string
	}{
		{"rack", []int32{0, 1, 2, 5}, nil, "a: n1; z: n0 n5"},
		{"rack", []int32{2}, nil, ""},
		{"rack", []int32{1, 3, 4}, []*v1.Pod{member("a", "g", "n0")}, "z: n3"},
		{"rack", []int32{1, 4}, []*v1.Pod{member("a", "g", "n0")}, ""},
		{"", []int32{1, 4}, nil, ": n1 n4"},
	} {
		if got := generated(plugintest.Cluster(nodes, row.pods...), row.key, row.within...); got != row.want {
			t.Errorf("%q within %v: %s, want %s", row.key, row.within, got, row.want)
		}
	}
}

// TestGeneratedFollowNodes: the placements of the next turn follow nodes that are
// deleted, added and moved, in the order of the values.
func TestGeneratedFollowNodes(t *testing.T) {
	s := plugintest.Cluster([]*v1.Node{build.Node("n0", build.NodeLabels("rack=b")), build.Node("n1", build.NodeLabels("rack=a"))})
	apply := func(changes ...model.Change) string {
		s.Apply(changes)
		return generated(s, "rack")
	}
	set := func(name, rack string) model.Change {
		return model.Change{Kind: model.NodeSet, Node: model.NewNode(build.Node(name, build.NodeLabels("rack="+rack)))}
	}
	for i, step := range []struct{ got, want string }{
		{generated(s, "rack"), "a: n1; b: n0"},
		{apply(set("n2", "c")), "a: n1; b: n0; c: n2"},
		{apply(model.Change{Kind: model.NodeGone, Name: "n0"}), "a: n1; c: n2"},
		{apply(set("n1", "d")), "c: n2; d: n1"},
		{apply(set("n3", "c")), "c: n3 n2; d: n1"}, // n3 is in the slot of n0
	} {
		if step.got != step.want {
			t.Errorf("step %d: %s, want %s", i, step.got, step.want)
		}
	}
}
