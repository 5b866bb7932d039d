package group

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/build"
	"github.com/berth-scheduler/berth/internal/plugins/plugintest"
)

func created(second int) build.PodOption {
	return func(p *v1.Pod) { p.CreationTimestamp = metav1.Unix(int64(second), 0) }
}

// TestRoomOfThoseWhoOvertook has two nodes of 4 cpu with an old pod of 1 cpu and three that came after the group. They are only moved where what they occupy leaves it open
// whether that helps.
func TestRoomOfThoseWhoOvertook(t *testing.T) {
	c := newCrowd(t, 1)
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
		d := Decide(c.state, c.engine, c.work(podGroup("g", int32(row.members), 0), members...), nil)
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
		if err := c.state.Audit(); err != nil {
			t.Error(err)
		}
	}
}

// TestRoomBesideOwnMembers has overtakers on one node, and looks at what else there is: room elsewhere is used as it is, and members of the group that run do not end for it.
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
		c := newCrowd(t, 1, build.Node("n0", build.Allocatable("cpu=3 pods=110")))
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
		if row.leaving { // and created after the others came, so that these would not have overtaken the group
			members = append(members, build.Pod(build.Named("leaves"), of("g"), created(90), build.Container("cpu=1"), build.Terminating))
		}
		c.state.SetNow(time.Unix(100, 0))
		d := Decide(c.state, c.engine, c.work(podGroup("g", int32(row.members+running), 0), members...), nil)
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
