package gang

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// TestRefuses has groups whose members do not belong together. All of them fail. Members
// that are being deleted or run already count as well.
func TestRefuses(t *testing.T) {
	never := func(p *v1.Pod) { policy := v1.PreemptNever; p.Spec.PreemptionPolicy = &policy }
	scheduler := func(p *v1.Pod) { p.Spec.SchedulerName = "other" }
	with := func(node string, options ...build.PodOption) []build.PodOption {
		return append(options, build.NodeName(node))
	}
	for _, c := range []struct {
		name    string
		there   [][]build.PodOption // members on nodes
		waiting [][]build.PodOption
		want    string
	}{
		{"alike", [][]build.PodOption{with("n", priority(5))}, [][]build.PodOption{{priority(5)}, {priority(5)}}, ""},
		{"scheduler", nil, [][]build.PodOption{{priority(5)}, {priority(5), scheduler}},
			`all pods in a single pod group should have the same .spec.schedulerName set, got: "default-scheduler" and "other"`},
		{"priority of the group", nil, [][]build.PodOption{{priority(5)}, {priority(4)}},
			"all pods in a single pod group should have the same priority as the pod group's priority, got 4 and 5"},
		{"policy", nil, [][]build.PodOption{{priority(5)}, {priority(5), never}},
			"all pods in a single pod group should have the same preemption policy, got PreemptLowerPriority and Never"},
		{"one that leaves", nil, [][]build.PodOption{{priority(5)}, {priority(5), never, build.Terminating}},
			"all pods in a single pod group should have the same preemption policy, got PreemptLowerPriority and Never"},
		{"on nodes, the first by name", [][]build.PodOption{with("n", priority(5)), with("n", priority(3)), with("n", priority(2))}, [][]build.PodOption{{priority(5)}},
			"all pods in a single pod group should have the same priority as the pod group's priority, got 3 and 5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := podGroup("g", 1, 5)
			cluster := newGangCluster(t, 1, g, build.Node("n", build.Allocatable("cpu=9 pods=20")))
			names := []string{"a", "b", "c"}
			for i, options := range c.there {
				plugintest.Set(cluster.state, newMember("on-"+names[i], options...))
			}
			var members []*v1.Pod
			for i, options := range c.waiting {
				members = append(members, newMember(names[i], options...))
			}
			members[0].Status.NominatedNodeName = "n"
			d := decided(cluster.state, cluster.engine, cluster.work(g, members...), nil)
			if d.Message != c.want || (d.Outcome == plan.Failed) != (c.want != "") {
				t.Errorf("%s: %s", d.Outcome, d.Message)
			}
			for i := range d.Members {
				m := &d.Members[i]
				if c.want != "" && (m.Outcome != plan.Failed || m.Err.Error() != c.want) || m.Nodes != 1 {
					t.Errorf("member %d: %s: %v, of %d nodes", i, m.Outcome, m.Err, m.Nodes)
				}
				if cleared := len(m.Nominations) == 1 && m.Nominations[0].Mode == plan.Clear; cleared != (c.want != "" && i == 0) {
					t.Errorf("member %d: nominations %+v", i, m.Nominations)
				}
			}
		})
	}
}

// TestOwnPolicy has groups whose own preemption policy counts, with a pod of lower
// priority in the way. All members must have the same policy, including those on nodes.
func TestOwnPolicy(t *testing.T) {
	never := func(p *v1.Pod) { p.Spec.PreemptionPolicy = new(v1.PreemptNever) }
	lower := func(*v1.Pod) {}
	const differ = "all pods in a single pod group should have the same preemption policy as the pod group's preemption policy, got "
	for _, row := range []struct {
		name  string
		group v1.PreemptionPolicy // empty for none
		// the policies of the members, nil without such a member
		waiting, runs build.PodOption
		want          string
	}{
		{"pods are evicted", v1.PreemptLowerPriority, lower, nil, "found a placement for podgroup, preempting 1 victims"},
		{"by default, too", "", lower, lower, "found a placement for podgroup, preempting 1 victims"},
		{"no pods are evicted", v1.PreemptNever, never, never, "not eligible due to preemptionPolicy=Never."},
		{"a member has another", v1.PreemptNever, lower, nil, differ + "PreemptLowerPriority and Never"},
		{"members have another", "", never, nil, differ + "Never and PreemptLowerPriority"},
		{"a member that runs has another", v1.PreemptLowerPriority, lower, never, differ + "Never and PreemptLowerPriority"},
	} {
		c := newCrowdWith(t, map[string]bool{"GenericWorkload": true, "PodGroupPreemptionPolicy": true}, 1, build.Node("n", build.Allocatable("cpu=1 pods=20")),
			build.Pod(build.Named("low"), build.NodeName("n"), build.Container("cpu=1"), priority(1)))
		if row.runs != nil {
			plugintest.Set(c.state, newMember("runs", build.NodeName("n"), priority(5), row.runs))
		}
		g := podGroup("g", 1, 5, func(g *schedulingv1beta1.PodGroup) {
			if row.group != "" {
				g.Spec.PreemptionPolicy = new(schedulingv1beta1.PreemptionPolicy(row.group))
			}
		})
		g.Spec.SchedulingPolicy.Gang.MinCount = 2
		if row.runs == nil {
			g.Spec.SchedulingPolicy.Gang.MinCount = 1
		}
		d := decided(c.state, c.engine, c.work(g, newMember("m", build.Container("cpu=1"), priority(5), row.waiting)), nil)
		if failed := strings.HasPrefix(row.want, differ); !strings.HasSuffix(d.Message, row.want) || (d.Outcome == plan.Failed) != failed {
			t.Errorf("%s: %s: %s, want %s", row.name, d.Outcome, d.Message, row.want)
		}
	}
}

// TestFollowing has members some of which equal the next ones.
func TestFollowing(t *testing.T) {
	c := newGangCluster(t, 1, build.Node("n", build.Allocatable("cpu=9 pods=20")))
	var pods []*v1.Pod
	for i, cpu := range []int{1, 1, 2, 2, 2, 1, 1} {
		pods = append(pods, newMember(fmt.Sprint("m", i), build.Container(fmt.Sprint("cpu=", cpu))))
	}
	a := c.attemptOf(c.work(podGroup("g", 1, 0), pods...))
	if got := a.following(); !slices.Equal(got, []int{1, 0, 2, 1, 0, 1, 0}) {
		t.Errorf("%v", got)
	}
}

// TestNoNodes has a group in a cluster without nodes. Each tried member fails on its own,
// the others with the group.
func TestNoNodes(t *testing.T) {
	c := newGangCluster(t, 1)
	a, b := newMember("a"), newMember("b")
	a.Status.NominatedNodeName, b.Status.NominatedNodeName = "gone", "gone"
	d := decided(c.state, c.engine, c.work(podGroup("g", 2, 0), a, b), nil)
	if d.Outcome != plan.Failed || d.Members[0].Outcome != plan.NoNodes || d.Members[1].Outcome != plan.Failed || d.Members[1].Err.Error() != d.Message {
		t.Errorf("%s: %s; members are %s and %s: %v", d.Outcome, d.Message, d.Members[0].Outcome, d.Members[1].Outcome, d.Members[1].Err)
	}
	if got := d.Members[1].Nominations; len(got) != 1 || got[0].Mode != plan.Clear {
		t.Errorf("nominations %+v", got)
	}
}

// TestRejected has gangs of three pods of 1 cpu with room for one. Each member gets its
// own reasons, or the group's.
func TestRejected(t *testing.T) {
	for _, c := range []struct {
		name  string
		there []build.PodOption // a pod on the node
		want  []string
	}{
		{"no room", nil, []string{
			"a: pod group is unschedulable, minCount (3) cannot be satisfied: 1 scheduled, 1 remaining, pod group preemption: No preemption victims found for incoming preemptor (nomination cleared)",
			"b: 0/1 nodes are available: 1 Insufficient cpu.",
			"c: minCount (3) cannot be satisfied: 1 scheduled, 1 remaining",
		}},
		{"a victim leaves already", []build.PodOption{build.NodeName("n"), build.Container("cpu=2"), priority(1), evicted}, []string{
			"a: minCount (3) cannot be satisfied: 1 scheduled, 1 remaining, pod group preemption: ongoing preemption on nominated nodes",
			"b: 0/1 nodes are available: 1 Insufficient cpu.",
			"c: minCount (3) cannot be satisfied: 1 scheduled, 1 remaining",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := podGroup("g", 3, 5)
			cluster := newGangCluster(t, 1, g, build.Node("n", build.Allocatable("cpu=1 pods=20")))
			if c.there != nil {
				cluster = newGangCluster(t, 1, g, build.Node("n", build.Allocatable("cpu=3 pods=20")), build.Pod(append(c.there, build.Named("there"))...))
			}
			var members []*v1.Pod
			for _, name := range []string{"a", "b", "c"} {
				members = append(members, newMember(name, build.Container("cpu=1"), priority(5)))
			}
			members[0].Status.NominatedNodeName = "n"
			d := decided(cluster.state, cluster.engine, cluster.work(g, members...), nil)
			for i := range d.Members {
				m := &d.Members[i]
				got := m.Pod.Name + ": " + report.Message(m)
				if len(m.Nominations) == 1 && m.Nominations[0].Mode == plan.Clear {
					got += " (nomination cleared)"
				}
				if m.Outcome != plan.Unschedulable || m.Placement.Pod != nil || got != c.want[i] {
					t.Errorf("%s %s, want %s", m.Outcome, got, c.want[i])
				}
			}
		})
	}
}

// TestWorkOfEqualMembers counts the members of a gang that need no look at all nodes.
// These are equal to many after them, or nodes are ranked already for pods like them.
func TestWorkOfEqualMembers(t *testing.T) {
	const members = 60
	for _, c := range []struct {
		name  string
		cpu   func(i int) string
		least int64 // members that rankings decide about
	}{
		{"equal", func(int) string { return "cpu=100m" }, members - 1},
		{"two kinds after one another", func(i int) string { return fmt.Sprintf("cpu=%dm", 100+i/30*100) }, members - 2},
		{"in turn", func(i int) string { return fmt.Sprintf("cpu=%dm", 100+i%2*100) }, members - 16},
		{"all different", func(i int) string { return fmt.Sprintf("cpu=%dm", 100+i) }, 0},
	} {
		g := podGroup("g", members, 5)
		objects := []runtime.Object{g}
		for i := range 50 {
			objects = append(objects, build.Node(fmt.Sprint("n", i), build.Allocatable("cpu=4 pods=110")))
		}
		cluster := newGangCluster(t, 1, objects...)
		var pods []*v1.Pod
		for i := range members {
			pods = append(pods, newMember(fmt.Sprint("m", i), build.Container(c.cpu(i)), priority(5)))
		}
		d := decided(cluster.state, cluster.engine, cluster.work(g, pods...), nil)
		ranked := cluster.engine.Counters().Ranked
		if d.Outcome != plan.Placed || ranked < c.least || c.least == 0 && ranked != 0 {
			t.Errorf("%s: %s, %d members by rankings, want %d", c.name, d.Outcome, ranked, c.least)
		}
	}
}

// TestMinCountNeedsItsPlugin: without GangScheduling one member with a node is enough,
// and in a tree one group.
func TestMinCountNeedsItsPlugin(t *testing.T) {
	for _, with := range []bool{true, false} {
		c := racksOf(1, 1, 2, "")
		p := profileWith(t, 1, 1)
		if !with {
			p.PreEnqueue = slices.DeleteFunc(p.PreEnqueue, func(x *plugin.PreEnqueue) bool { return x.Name == "GangScheduling" })
		}
		d := decided(c.state(anyNode), newEngine(t, p), c.work(p), nil)
		if placed := d.Outcome == plan.Placed; placed == with {
			t.Errorf("with GangScheduling: %t; the group is %s: %s", with, d.Outcome, d.Message)
		}
		f := &forest{root: &branch{name: "root", min: 2, below: []*branch{leafOf("a", "", 1, 1), leafOf("b", "", 1, 1)}}}
		f.nodes = append(f.nodes, build.Node("n", build.Allocatable("cpu=1 memory=64Gi pods=9")))
		if d = decided(f.state(anyNode), newEngine(t, p), f.work(p), nil); (d.Outcome == plan.Placed) == with {
			t.Errorf("with GangScheduling: %t; the tree is %s: %s", with, d.Outcome, d.Message)
		}
	}
}

// outside stands in a profile for out-of-tree plugins; a group is refused before any of
// them has a turn.
type outside struct{ plugin.External }

// TestRefusesBesideOutside has a profile with out-of-tree plugins.
func TestRefusesBesideOutside(t *testing.T) {
	c := newGangCluster(t, 1, build.Node("n", build.Allocatable("cpu=9 pods=20")))
	c.engine.Profile("default-scheduler").External = outside{}
	d := decided(c.state, c.engine, c.work(podGroup("g", 1, 0), newMember("a")), nil)
	if d.Outcome != plan.Failed || d.Message != "pod groups beside out-of-tree plugins are not part of this version of Berth" {
		t.Errorf("%s: %s", d.Outcome, d.Message)
	}
}
