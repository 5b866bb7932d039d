package explain_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/answers/advice"
	"github.com/berth-scheduler/berth/internal/answers/explain"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/explaintest"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// grouped returns a snapshot with the gate GenericWorkload.
func grouped(t *testing.T, nodes []*v1.Node, pods []*v1.Pod, others ...runtime.Object) *explain.Snapshot {
	t.Helper()
	return explaintest.SnapshotWith(t, map[string]bool{"GenericWorkload": true}, nodes, pods, others...)
}

func gang(minCount int) *schedulingv1beta1.PodGroup {
	return &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "g"}, Spec: schedulingv1beta1.PodGroupSpec{
		SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(minCount)}},
	}}
}

func member(name, cpu, nodeName string) *v1.Pod {
	p := pod(name, cpu, nodeName)
	p.UID = types.UID(name)
	p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: new("g")}
	return p
}

var gangKey = model.GroupKey{Namespace: "a", Name: "g"}

func ofGroup(t *testing.T, s *explain.Snapshot) *explain.Group {
	t.Helper()
	g, err := s.Group(gangKey)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// textOf returns a group without the parts that are only for people.
func textOf(t *testing.T, g *explain.Group) string {
	t.Helper()
	text, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestHelpIsTrue explains gangs in random clusters. Every suggested change must let the
// gang start in a new snapshot with the change, and one node less must not. Explanations
// must leave no trace, and must not depend on earlier ones.
func TestHelpIsTrue(t *testing.T) {
	build.NotRaced(t)
	seen := map[string]int{}
	for seed := range uint64(200) {
		r := random.New(seed)
		cluster := random.Cluster(r, random.Size{Nodes: 1 + r.IntN(8), Placed: r.IntN(12), Pending: 2 + r.IntN(6)})
		minCount := 1 + r.IntN(7)
		inGroup(r, cluster.Pods)
		s := grouped(t, cluster.Nodes, cluster.Pods, gang(minCount))
		before := explaintest.Answers(t, s)
		g := ofGroup(t, s)
		if diff := cmp.Diff(before, explaintest.Answers(t, s)); diff != "" {
			t.Errorf("seed %d: other explanations differ after that of the group:\n%s", seed, diff)
		}
		if again := textOf(t, ofGroup(t, s)); again != textOf(t, g) {
			t.Errorf("seed %d: the group is\n%s\nand then\n%s", seed, textOf(t, g), again)
		}
		if g.Starts {
			seen["starts"]++
		}
		if g.Blocker != nil {
			seen["blocked"]++
		}
		for _, help := range g.WouldStart {
			after := func(less int) bool {
				return ofGroup(t, helped(t, cluster.Nodes, cluster.Pods, minCount, help, less)).Starts
			}
			switch {
			case !after(0):
				t.Errorf("seed %d: %+v does not help", seed, help)
			case help.Nodes > 0 && after(1), help.Members > 0 && after(1), help.MinCount > 0 && after(-1):
				t.Errorf("seed %d: less than %+v would do", seed, help)
			}
			if help.Change != nil {
				seen["change"]++
				if after(1) {
					t.Errorf("seed %d: it starts without %+v", seed, help)
				}
				continue
			}
			seen[fmt.Sprintf("%t %t %t", help.MinCount > 0, help.Nodes > 0, help.Members > 0)]++
		}
	}
	for _, what := range []string{"starts", "blocked", "change", "true false false", "false true false", "false false true"} {
		if seen[what] < 3 {
			t.Errorf("%s occurs %d times in %v", what, seen[what], seen)
		}
	}
}

// inGroup makes the pending pods, and some others, members of the gang.
func inGroup(r *rand.Rand, pods []*v1.Pod) {
	for _, p := range pods {
		if p.Spec.NodeName == "" || r.IntN(8) == 0 {
			p.Namespace, p.Spec.SchedulerName, p.Spec.Priority, p.Spec.PreemptionPolicy, p.Status.NominatedNodeName = "a", v1.DefaultSchedulerName, nil, nil, ""
			p.DeletionTimestamp, p.Spec.SchedulingGates = nil, nil
			p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: new("g")}
		}
	}
}

// helped returns a snapshot with a change, reduced by less.
func helped(t *testing.T, nodes []*v1.Node, pods []*v1.Pod, minCount int, help explain.Help, less int) *explain.Snapshot {
	t.Helper()
	nodes, pods = slices.Clone(nodes), slices.Clone(pods)
	if help.MinCount > 0 {
		minCount = help.MinCount - less
	}
	for i := range max(0, help.Nodes-max(0, less)) {
		like := nodes[slices.IndexFunc(nodes, func(n *v1.Node) bool { return n.Name == help.Like })].DeepCopy()
		like.Name, like.Status.Images = fmt.Sprintf("%s-copy-%d", help.Like, i+1), nil
		if _, ok := like.Labels[v1.LabelHostname]; ok {
			like.Labels[v1.LabelHostname] = like.Name
		}
		nodes = append(nodes, like)
	}
	// The change applies to members without a node that equal the named one. Their names
	// are not listed, so all members with the same spec get it.
	if help.Change != nil {
		at := slices.IndexFunc(pods, func(p *v1.Pod) bool { return nameOf(p) == help.Like })
		one := pods[at]
		for i, p := range pods {
			if p.Spec.NodeName == "" && p.Spec.SchedulingGroup != nil && cmp.Equal(p.Spec, one.Spec) && cmp.Equal(p.Labels, one.Labels) && less == 0 {
				pods[i], _, _ = (&advice.Suggestion{Changes: []advice.Change{*help.Change}}).Apply(p)
			}
		}
	}
	for i := range max(0, help.Members-max(0, less)) {
		like := pods[slices.IndexFunc(pods, func(p *v1.Pod) bool { return nameOf(p) == help.Like })].DeepCopy()
		like.Name, like.UID = fmt.Sprintf("zz-%d", i), types.UID(fmt.Sprint("zz-", i))
		pods = append(pods, like)
	}
	return grouped(t, nodes, pods, gang(minCount))
}

func nameOf(p *v1.Pod) string { return p.Namespace + "/" + p.Name }

// TestNodesThatHelp has several kinds of nodes. It expects the kinds with the fewest
// additional nodes, and the most common one first among equals.
func TestNodesThatHelp(t *testing.T) {
	labelled := func(value string) func(*v1.Node) {
		return func(n *v1.Node) { n.Labels = map[string]string{"pool": value, v1.LabelHostname: n.Name} }
	}
	cordoned := func(n *v1.Node) { n.Spec.Unschedulable = true }
	tainted := func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}} }
	nodes := []*v1.Node{
		node("x1", "1", labelled("x")), node("x2", "1", labelled("x")), node("x3", "1", labelled("x")),
		node("y1", "2", labelled("y")), node("z2", "2", labelled("z")), node("z1", "2", labelled("z")),
		node("small", "500m"), node("closed", "8", cordoned), node("taken", "8", tainted),
	}
	var pods []*v1.Pod
	for i, n := range nodes[:6] {
		pods = append(pods, pod(fmt.Sprint("old-", i), n.Status.Allocatable.Cpu().String(), n.Name))
	}
	for i := range 4 {
		pods = append(pods, member(fmt.Sprint("m", i), "1", ""))
	}
	g := ofGroup(t, grouped(t, nodes, pods, gang(4)))
	want := []explain.Help{{Nodes: 2, Like: "z1"}, {Nodes: 2, Like: "y1"}, {Nodes: 4, Like: "x1"}}
	if diff := cmp.Diff(want, g.WouldStart); diff != "" || g.Unfinished {
		t.Errorf("(- want, + got), unfinished: %t\n%s", g.Unfinished, diff)
	}
	// With many kinds of nodes the search ends early.
	for i := range 9 {
		nodes = append(nodes, node(fmt.Sprint("k", i), "1", labelled(fmt.Sprint("pool-", i)), tainted))
	}
	if g = ofGroup(t, grouped(t, nodes, pods, gang(4))); !g.Unfinished {
		t.Error("nobody is told that the search was cut short")
	}
}

// TestGroupOfFewAndMany checks unusual groups. The PodGroup is missing, has no pending
// member, has a member that is being deleted, is no enforced gang, or was scheduled
// before. It also checks the count of further members that fit.
func TestGroupOfFewAndMany(t *testing.T) {
	nodes := []*v1.Node{node("n", "4")}
	other := gang(1)
	other.Name = "gg"
	if g := ofGroup(t, grouped(t, nodes, []*v1.Pod{member("m", "1", "")}, other)); textOf(t, g) != `{"podGroup":"a/g","running":0,"waiting":1,"held":"PodGroup a/g does not exist; did you mean a/gg?","fit":0,"starts":false}` {
		t.Errorf("without a PodGroup: %s", textOf(t, g))
	}
	if g := ofGroup(t, grouped(t, nodes, []*v1.Pod{member("m", "1", "n")}, gang(1))); textOf(t, g) != `{"podGroup":"a/g","policy":"gang","minCount":1,"running":1,"waiting":0,"fit":0,"starts":false}` {
		t.Errorf("nobody waits: %s", textOf(t, g))
	}
	going := member("a", "1", "")
	going.DeletionTimestamp = &metav1.Time{}
	g := ofGroup(t, grouped(t, nodes, []*v1.Pod{going, member("b", "1", "")}, gang(2)))
	if g.Starts || g.Fit != 1 || g.Members[0].Message != "the pod is being deleted" || g.Members[1].Node != "n" || g.Condition.Message != "pod group is unschedulable, minCount (2) cannot be satisfied: 0 scheduled, 1 remaining, pod group preemption: No preemption victims found for incoming preemptor" {
		t.Errorf("a member is being deleted: %s", textOf(t, g))
	}
	if g = ofGroup(t, grouped(t, nodes, []*v1.Pod{going}, gang(1))); g.Condition != nil || g.Starts || g.WouldStart != nil {
		t.Errorf("all members are being deleted: %s", textOf(t, g))
	}
	scheduled := gang(1)
	scheduled.Status.Conditions = []metav1.Condition{{Type: schedulingv1beta1.PodGroupInitiallyScheduled, Status: metav1.ConditionTrue, Reason: "Scheduled"}}
	g = ofGroup(t, grouped(t, nodes, []*v1.Pod{member("a", "1", "n"), member("b", "4", "")}, scheduled))
	if g.Starts || *g.Condition != (explain.GroupCondition{Type: "PodGroupInitiallyScheduled", Status: "True", Reason: "Scheduled"}) || len(g.WouldStart) != 2 || g.WouldStart[0].Change == nil || g.WouldStart[1] != (explain.Help{Nodes: 1, Like: "n"}) {
		t.Errorf("scheduled before: %s", textOf(t, g))
	}
	roomy := node("n", "4", func(n *v1.Node) { n.Status.Allocatable[v1.ResourcePods] = *n.Status.Allocatable.Cpu() })
	if g = ofGroup(t, grouped(t, []*v1.Node{roomy}, []*v1.Pod{member("a", "1", "")}, gang(1))); g.Room == nil || *g.Room != 3 || !g.Starts {
		t.Errorf("room for three more: %s", textOf(t, g))
	}
	basic := gang(1)
	basic.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}
	g = ofGroup(t, grouped(t, nodes, []*v1.Pod{member("a", "3", ""), member("b", "3", "")}, basic))
	if g.Policy != "basic" || !g.Starts || g.Fit != 1 || g.Room != nil || g.Blocker.Pod != "a/b" || g.WouldStart != nil {
		t.Errorf("a basic group: %s", textOf(t, g))
	}
}

// TestWithoutTheGate explains members of a group as single pods.
func TestWithoutTheGate(t *testing.T) {
	s := explaintest.Snapshot(t, []*v1.Node{node("n", "1")}, []*v1.Pod{member("m", "1", "")}, gang(5))
	a, err := s.Of(s.Pending()[0])
	if err != nil || a.PodGroup != "" || a.Gated != "" || !a.Nodes[0].Feasible {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestWhoHoldsUp has a gang in racks. The leader needs two GPUs, and the nodes of the
// chosen rack have one GPU each.
func TestWhoHoldsUp(t *testing.T) {
	var nodes []*v1.Node
	// The second rack has no room for any member.
	for i, of := range []string{"r1 cpu=8 example.com/gpu=1", "r1 cpu=8 example.com/gpu=1", "r1 cpu=8 example.com/gpu=1", "r2 cpu=500m example.com/gpu=2"} {
		rack, amounts, _ := strings.Cut(of, " ")
		nodes = append(nodes, build.Node(fmt.Sprint("n", i), build.Allocatable("memory=64Gi pods=20 "+amounts), build.NodeLabels("rack="+rack)))
	}
	in := func(name, request string) *v1.Pod {
		return build.Pod(build.Named(name), build.InNamespace("a"), build.Container(request), func(p *v1.Pod) {
			p.UID = types.UID(name)
			p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: new("g")}
		})
	}
	pods := []*v1.Pod{in("w-0", "cpu=7"), in("w-1", "cpu=7"), in("x-leader", "cpu=1 example.com/gpu=2"), in("y-leader", "cpu=1 example.com/gpu=2")}
	group := gang(4)
	group.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: "rack"}}}
	s := explaintest.SnapshotWith(t, map[string]bool{"GenericWorkload": true, "TopologyAwareWorkloadScheduling": true}, nodes, pods, group)
	g := ofGroup(t, s)
	if g.Blocker == nil {
		t.Fatalf("%+v", g)
	}
	b := g.Blocker
	if b.Pod != "a/x-leader" || b.Alike != 2 || b.Domain != "r1" || len(g.MoreBlockers) != 0 || b.Summary.Nodes != 3 || len(b.Demands) == 0 || b.Demands[0].Changes[0].Text != "lower the example.com/gpu request of container c0 from 2 to 1" {
		t.Errorf("%+v", b)
	}
	at := slices.IndexFunc(g.WouldStart, func(h explain.Help) bool { return h.Change != nil })
	if at < 0 || g.WouldStart[at].Change.Text != b.Demands[0].Changes[0].Text || g.WouldStart[at].Alike != 2 || g.WouldStart[at].Like != "a/x-leader" {
		t.Errorf("%+v", g.WouldStart)
	}
}

// TestNoDomainIsChosen has a gang without a feasible node in any rack. No rack is named,
// and only nodes in racks are examined. A single rack is named, because no other can be
// chosen.
func TestNoDomainIsChosen(t *testing.T) {
	var nodes []*v1.Node
	for i, of := range []string{"rack=r1 cpu=1", "rack=r2 cpu=2", "rack=r1 cpu=1", "disk=ssd cpu=3"} {
		label, amounts, _ := strings.Cut(of, " ")
		nodes = append(nodes, build.Node(fmt.Sprint("n", i), build.Allocatable("memory=64Gi pods=20 "+amounts), build.NodeLabels(label)))
	}
	group := gang(2)
	group.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: "rack"}}}
	for _, row := range []struct {
		nodes  []*v1.Node
		domain string
		looked int
		demand string
	}{
		{nodes, "", 3, "lower the cpu request of container main from 4 to 2"},
		{[]*v1.Node{nodes[0], nodes[2], nodes[3]}, "r1", 2, "lower the cpu request of container main from 4 to 1"},
	} {
		gates := map[string]bool{"GenericWorkload": true, "TopologyAwareWorkloadScheduling": true}
		g := ofGroup(t, explaintest.SnapshotWith(t, gates, row.nodes, []*v1.Pod{member("m-0", "4", ""), member("m-1", "4", "")}, group))
		if g.Fit != 0 || g.Blocker == nil {
			t.Fatal(textOf(t, g))
		}
		if b := g.Blocker; b.Domain != row.domain || b.Summary.Nodes != row.looked || len(b.Demands) == 0 || b.Demands[0].Changes[0].Text != row.demand {
			t.Errorf("want domain %q, %d nodes, %s: %s", row.domain, row.looked, row.demand, textOf(t, g))
		}
	}
}

// TestNodesWithDevicesHelp has a gang whose members need a device each. Added nodes have
// the devices of the node that they are copied from.
func TestNodesWithDevicesHelp(t *testing.T) {
	on := "n0"
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourcev1.ResourceSliceSpec{Driver: "d", NodeName: &on, Pool: resourcev1.ResourcePool{Name: on, Generation: 1, ResourceSliceCount: 1},
		Devices: []resourcev1.Device{{Name: "one"}}}}
	objects := []runtime.Object{gang(3), slice, &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "any"}}}
	var pods []*v1.Pod
	for i := range 3 {
		name := fmt.Sprint("m-", i)
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name)}}
		claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "any", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}}}
		objects = append(objects, claim)
		p := member(name, "100m", "")
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "r", ResourceClaimName: &name}}
		pods = append(pods, p)
	}
	s := grouped(t, []*v1.Node{node("n0", "8")}, pods, objects...)
	want := []explain.Help{{MinCount: 1}, {Nodes: 2, Like: "n0"}}
	if g := ofGroup(t, s); g.Starts || !slices.Equal(g.WouldStart, want) {
		t.Errorf("%+v, want %+v", g, want)
	}
	if g := ofGroup(t, s); !slices.Equal(g.WouldStart, want) {
		t.Errorf("asked again: %+v", g.WouldStart)
	}
}
