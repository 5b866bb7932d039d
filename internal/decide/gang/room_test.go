package gang

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func created(second int) build.PodOption {
	return func(p *v1.Pod) { p.CreationTimestamp = metav1.Unix(int64(second), 0) }
}

// TestRoomOfThoseWhoOvertook has two nodes of 4 cpu with an old pod of 1 cpu and three
// pods newer than the group. These are moved only if resource usage alone does not rule
// out that it helps.
func TestRoomOfThoseWhoOvertook(t *testing.T) {
	c := newGangCluster(t, 1)
	for i := range 2 {
		name := fmt.Sprint("n", i)
		plugintest.Set(c.state, build.Node(name, build.Allocatable("cpu=4 pods=110"), build.NodeLabels("kubernetes.io/hostname="+name)), build.Pod(build.Named("old-"+name), build.NodeName(name), build.Container("cpu=1"), created(1)))
		for j := range 3 {
			plugintest.Set(c.state, build.Pod(build.Named(fmt.Sprint("new-", name, "-", j)), build.NodeName(name), build.Container("cpu=1"), created(20+j)))
		}
	}
	for _, row := range []struct {
		name    string
		members int
		options []build.PodOption
		want    string
		moved   int
	}{
		{"it fits", 2, []build.PodOption{build.Container("cpu=3")}, "[n0 n1]", 6},
		{"one on each node", 3, []build.PodOption{build.Container("cpu=2")}, "[]", 0},
		{"too large", 2, []build.PodOption{build.Container("cpu=4")}, "[]", 0},
		{"too many", 3, []build.PodOption{build.Container("cpu=3")}, "[]", 0},
		{"too many for the nodes", 3, []build.PodOption{build.Container("cpu=1"), build.Labels("of=g"), build.RequiredAntiAffinity(build.Term("kubernetes.io/hostname", "of=g"))}, "[]", 6},
		{"came after them", 2, []build.PodOption{build.Container("cpu=3"), created(30)}, "[]", 0},
	} {
		var members []*v1.Pod
		for i := range row.members {
			members = append(members, build.Pod(append([]build.PodOption{build.Named(fmt.Sprint("m", i)), of("g"), created(10)}, row.options...)...))
		}
		c.state.SetNow(time.Unix(100, 0))
		d := decided(c.state, c.engine, c.work(podGroup("g", int32(row.members), 0), members...), nil)
		version := c.state.Version()
		places, moved := Room(c.state, c.engine, &d)
		nodes := []string{}
		for i := range places {
			nodes = append(nodes, places[i].NodeName)
		}
		slices.Sort(nodes)
		if got := fmt.Sprint(nodes); got != row.want || moved != row.moved {
			t.Errorf("%s: room on %s, and %d pods were moved; want %s, %d", row.name, got, moved, row.want, row.moved)
		}
		if row.moved == 0 && c.state.Version() != version {
			t.Errorf("%s: %d changes of nodes, want none", row.name, c.state.Version()-version)
		}
		if err := c.state.Audit(); err != nil || c.state.Assumed() > 0 {
			t.Errorf("%s: %d are assumed: %v", row.name, c.state.Assumed(), err)
		}
	}
}

// TestRoomBesideOwnMembers has overtakers on one node. Free space elsewhere is used
// first, and running members of the group stay.
func TestRoomBesideOwnMembers(t *testing.T) {
	for _, row := range []struct {
		name    string
		there   []runtime.Object
		members int
		want    string
		moved   int
		leaving bool // one more member that is being deleted
	}{
		{name: "a member that leaves", there: []runtime.Object{build.Node("n1", build.Allocatable("cpu=1 pods=110"))}, members: 1, want: "[n0]", moved: 3, leaving: true},
		{"room for one elsewhere", []runtime.Object{build.Node("n1", build.Allocatable("cpu=3 pods=110"))}, 2, "[n0 n1]", 3, false},
		{"a member that runs", []runtime.Object{build.Node("n1", build.Allocatable("cpu=3 pods=110")), build.Pod(build.Named("runs"), of("g"), build.NodeName("n1"), build.Container("cpu=3"), created(50))}, 1, "[n0]", 3, false},
		{"a member that runs, and no overtaker would be enough", []runtime.Object{build.Node("n1", build.Allocatable("cpu=3 pods=110")), build.Pod(build.Named("runs"), of("g"), build.NodeName("n1"), build.Container("cpu=3"), created(50))}, 2, "[]", 0, false},
	} {
		c := newGangCluster(t, 1, build.Node("n0", build.Allocatable("cpu=3 pods=110")))
		for i := range 3 {
			plugintest.Set(c.state, build.Pod(build.Named(fmt.Sprint("new-", i)), build.NodeName("n0"), build.Container("cpu=1"), created(20+i)))
		}
		plugintest.Set(c.state, row.there...)
		running := 0
		if len(row.there) > 1 {
			running = 1
		}
		var members []*v1.Pod
		for i := range row.members {
			members = append(members, build.Pod(build.Named(fmt.Sprint("m", i)), of("g"), created(10), build.Container("cpu=3")))
		}
		// created after the other pods, so that these would not have overtaken the group
		if row.leaving {
			members = append(members, build.Pod(build.Named("leaves"), of("g"), created(90), build.Container("cpu=1"), build.Terminating))
		}
		c.state.SetNow(time.Unix(100, 0))
		d := decided(c.state, c.engine, c.work(podGroup("g", int32(row.members+running), 0), members...), nil)
		places, moved := Room(c.state, c.engine, &d)
		nodes := []string{}
		for i := range places {
			nodes = append(nodes, places[i].NodeName)
		}
		slices.Sort(nodes)
		if got := fmt.Sprint(nodes); got != row.want || moved != row.moved {
			t.Errorf("%s: room on %s, and %d pods were moved; want %s, %d", row.name, got, moved, row.want, row.moved)
		}
		if err := c.state.Audit(); err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

// TestRoomOfATree has a tree of two groups, each with a pending member, and one that runs
// on n1. On n0 is a pod that is newer.
func TestRoomOfATree(t *testing.T) {
	for _, row := range []struct {
		name  string
		cpu   int // of n0, which the newer pod fills
		want  string
		moved int
	}{
		{"it fits", 2, "[a-0@n0 b-0@n0]", 1},
		{"room for one of two", 1, "[]", 1},
	} {
		f := &forest{root: &branch{name: "root", min: 2, below: []*branch{leafOf("a", "", 1, 1), leafOf("b", "", 1, 1)}}}
		f.nodes = append(f.nodes, build.Node("n0", build.Allocatable(fmt.Sprintf("cpu=%d pods=9", row.cpu))), build.Node("n1", build.Allocatable("cpu=2 pods=9")))
		f.root.each(func(b *branch) {
			for _, m := range b.members {
				created(10)(m)
			}
		})
		f.pods = append(f.pods, build.Pod(build.Named("later"), build.NodeName("n0"), build.Container(fmt.Sprint("cpu=", row.cpu)), created(20)),
			build.Pod(build.Named("runs"), build.NodeName("n1"), build.Container("cpu=2"), created(30), of("b")))
		f.root.below[1].min = 2 // including the running one
		p := profileWith(t, 1, 1)
		s, e := f.state(anyNode), newEngine(t, p)
		d := decided(s, e, f.work(p), nil)
		if d.Outcome != plan.Unschedulable {
			t.Fatalf("%s: %s", row.name, d.Outcome)
		}
		places, moved := Room(s, e, &d)
		nodes := []string{}
		for i := range places {
			nodes = append(nodes, places[i].Pod.Name+"@"+places[i].NodeName)
		}
		if got := fmt.Sprint(nodes); got != row.want || moved != row.moved {
			t.Errorf("%s: room for %s, and %d pods were moved; want %s, %d", row.name, got, moved, row.want, row.moved)
		}
		if err := s.Audit(); err != nil || s.Assumed() > 0 {
			t.Errorf("%s: %d are assumed: %v", row.name, s.Assumed(), err)
		}
	}
}

// TestRoomInOneDomain has a gang of two that must be in one rack. Each rack has one newer
// pod, on one of its two nodes, and no other pods. The members fit where one of these
// pods ends, not on two nodes of different racks.
func TestRoomInOneDomain(t *testing.T) {
	p := profileWith(t, 1, 1)
	c := racksOf(2, 2, 2, "rack")
	for _, m := range c.members {
		created(10)(m)
	}
	for _, name := range []string{"n0000", "n0001"} { // of different racks
		c.pods = append(c.pods, build.Pod(build.Named("on-"+name), build.NodeName(name), build.Container("cpu=1"), created(20)))
	}
	s, e := c.state(anyNode), newEngine(t, p)
	d := decided(s, e, c.work(p), nil)
	places, moved := Room(s, e, &d)
	racks := map[string]bool{}
	for i := range places {
		slot, _ := s.Slot(places[i].NodeName)
		racks[s.Node(slot).Object().Labels["rack"]] = true
	}
	if len(places) != 2 || len(racks) != 1 || moved != 2 {
		t.Errorf("%d places in %d racks, and %d pods were moved; the group: %s", len(places), len(racks), moved, d.Message)
	}
}

// TestRoomNowComesFirst has a gang of two. An old pod leaves room for one member on n1,
// and each of two emptier nodes has a newer pod. One member takes the free space,
// although the other nodes score higher.
func TestRoomNowComesFirst(t *testing.T) {
	// with domain placements, a group without a key may go anywhere, too
	for _, divides := range []bool{false, true} {
		c := newGangCluster(t, 1, build.Node("n0", build.Allocatable("cpu=6 pods=110")), build.Node("n1", build.Allocatable("cpu=4 pods=110")), build.Node("n2", build.Allocatable("cpu=6 pods=110")),
			build.Pod(build.Named("old"), build.NodeName("n1"), build.Container("cpu=1"), created(1)))
		if divides {
			p := profileWith(t, 1, 1)
			c.engine, c.compile = newEngine(t, p), p.Compile
		}
		for _, name := range []string{"n0", "n2"} {
			plugintest.Set(c.state, build.Pod(build.Named("later-"+name), build.NodeName(name), build.Container("cpu=6"), created(20)))
		}
		var members []*v1.Pod
		for i := range 2 {
			members = append(members, build.Pod(build.Named(fmt.Sprint("m", i)), of("g"), created(10), build.Container("cpu=3")))
		}
		d := decided(c.state, c.engine, c.work(podGroup("g", 2, 0), members...), nil)
		places, moved := Room(c.state, c.engine, &d)
		if len(places) != 2 || places[0].NodeName != "n1" || moved != 2 {
			t.Errorf("room on %+v, and %d pods were moved", places, moved)
		}
	}
}

// TestRoomByNumber has nodes at their limit of pods. That a third member does not fit is
// found without moving any pod.
func TestRoomByNumber(t *testing.T) {
	c := newGangCluster(t, 1)
	for i := range 2 {
		name := fmt.Sprint("n", i)
		plugintest.Set(c.state, build.Node(name, build.Allocatable("cpu=4 pods=2")), build.Pod(build.Named("old-"+name), build.NodeName(name), created(1)), build.Pod(build.Named("later-"+name), build.NodeName(name), created(20)))
	}
	// on no existing node
	plugintest.Set(c.state, build.Pod(build.Named("later-gone"), build.NodeName("gone"), created(20)))
	for members, want := range map[int]int{2: 2, 3: 0} {
		var pods []*v1.Pod
		for i := range members {
			pods = append(pods, build.Pod(build.Named(fmt.Sprint("m", i)), of("g"), created(10)))
		}
		d := decided(c.state, c.engine, c.work(podGroup("g", int32(members), 0), pods...), nil)
		if _, moved := Room(c.state, c.engine, &d); moved != want {
			t.Errorf("%d members: %d pods were moved, want %d", members, moved, want)
		}
	}
}
