package noderesourcesfit

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

const implied = "deviceclass.resource.kubernetes.io/gpu"

// withClasses returns the state of a cluster with classes and one node, n.
func withClasses(allocatable string, classes ...*resourcev1.DeviceClass) *state.State {
	n := nodeOf(allocatable)
	n.Name = "n"
	s := plugintest.Cluster([]*v1.Node{n})
	for _, c := range classes {
		plugintest.Set(s, c)
	}
	return s
}

// On nodes without a resource that devices provide, the resource is left to
// DynamicResources. Row 10 comes from design/rules/resources.md#fit-filter.
func TestDevicesStandForResources(t *testing.T) {
	for _, row := range []struct{ name, node, pod, want string }{
		{"10", "cpu=4 pods=110", "nvidia.com/gpu=1", "fits"},
		{"listed with none", "cpu=4 pods=110 nvidia.com/gpu=0", "nvidia.com/gpu=1", "fits"},
		{"a device plugin", "cpu=4 pods=110 nvidia.com/gpu=1", "nvidia.com/gpu=2", "UU Insufficient nvidia.com/gpu"},
		{"by the class's own name", "cpu=4 pods=110", implied + "=1", "fits"},
		{"of no class", "cpu=4 pods=110", "nvidia.com/gpu=1 example.com/other=1", "UU Insufficient example.com/other"},
		{"the rest is checked", "cpu=4 pods=0", "cpu=5 nvidia.com/gpu=1", "UU Too many pods, Insufficient cpu"},
	} {
		s := withClasses(row.node, plugintest.DeviceClass("gpu", "nvidia.com/gpu"))
		need, varies := newPlugin(t, nil).VaryingFilterNeed(s.View(), model.NewPod(podOf(row.pod)))
		if !varies {
			t.Errorf("%s: the need does not vary", row.name)
			continue
		}
		verdicts, slot := need.Compile(), slotOf(t, s)
		if got := verdictOf(verdicts, s.View().Node(slot)); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
		if verdicts.Request != nil || verdicts.Amounts != nil {
			t.Errorf("%s: the verdicts claim to depend on nothing but requests", row.name)
		}
	}
}

func slotOf(t *testing.T, s *state.State) int32 {
	t.Helper()
	slot, ok := s.Slot("n")
	if !ok {
		t.Fatal("node n has no slot")
	}
	return slot
}

// Most pods have their own need. If it varies, it includes the resources that devices
// provide.
func TestNeedsThatVary(t *testing.T) {
	p, s := newPlugin(t, nil), withClasses("", plugintest.DeviceClass("gpu", "nvidia.com/gpu"))
	for _, asks := range []string{"", "cpu=1", "example.com/other=1", "nvidia.com/gpu=0", "deviceclass.resource.kubernetes.io/other=1", "hugepages-2Mi=2Mi"} {
		if _, varies := p.VaryingFilterNeed(s.View(), model.NewPod(podOf(asks))); varies {
			t.Errorf("the need of a pod that requests %q varies", asks)
		}
	}
	text := func(s *state.State) string {
		need, varies := p.VaryingFilterNeed(s.View(), model.NewPod(podOf("nvidia.com/gpu=1 "+implied+"=1")))
		if !varies {
			return ""
		}
		return plugin.NeedOf(need).String()
	}
	seen := map[string]bool{}
	for _, classes := range [][]*resourcev1.DeviceClass{nil, {plugintest.DeviceClass("gpu", "")}, {plugintest.DeviceClass("gpu", "nvidia.com/gpu")}, {plugintest.DeviceClass("other", "nvidia.com/gpu")}} {
		seen[text(withClasses("", classes...))] = true
	}
	if len(seen) != 4 {
		t.Errorf("needs are mistaken for each other: %v", seen)
	}
}

// Rows 11 and 12 come from design/rules/resources.md#fit-events.
func TestHintsOfClasses(t *testing.T) {
	other := func(n int) *resourcev1.DeviceClass {
		c := plugintest.DeviceClass("a", "")
		c.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprint(n, " == 1")}}}
		return c
	}
	for _, row := range []struct {
		name        string
		waiting     string
		before, now *resourcev1.DeviceClass
		queue       bool
	}{
		{"11", "nvidia.com/gpu=1", plugintest.DeviceClass("a", ""), plugintest.DeviceClass("a", "nvidia.com/gpu"), true},
		{"12", "deviceclass.resource.kubernetes.io/a=1", nil, plugintest.DeviceClass("a", ""), true},
		{"12, later", "deviceclass.resource.kubernetes.io/a=1", other(1), other(2), false},
		{"the same name", "nvidia.com/gpu=1", plugintest.DeviceClass("a", "nvidia.com/gpu"), plugintest.DeviceClass("a", "nvidia.com/gpu"), false},
		{"another resource", "example.com/other=1", plugintest.DeviceClass("a", ""), plugintest.DeviceClass("a", "nvidia.com/gpu"), false},
		{"no longer", "nvidia.com/gpu=1", plugintest.DeviceClass("a", "nvidia.com/gpu"), plugintest.DeviceClass("a", ""), false},
		{"a new class that names it", "nvidia.com/gpu=1", nil, plugintest.DeviceClass("a", "nvidia.com/gpu"), true},
		{"none of it", "nvidia.com/gpu=0", nil, plugintest.DeviceClass("a", "nvidia.com/gpu"), true},
		{"by its own name when the other changes", "deviceclass.resource.kubernetes.io/a=1", plugintest.DeviceClass("a", ""), plugintest.DeviceClass("a", "nvidia.com/gpu"), false},
		{"nothing", "", nil, plugintest.DeviceClass("a", "nvidia.com/gpu"), false},
	} {
		e := model.Event{Resource: model.DeviceClassEvent, Action: model.Add, Object: model.NewDeviceClass(row.now)}
		if row.before != nil {
			e.Action, e.OldObject = model.Update, model.NewDeviceClass(row.before)
		}
		if got := helps(t, row.waiting, e); got != row.queue {
			t.Errorf("%s: queue %t, want %t", row.name, got, row.queue)
		}
	}
}

func helps(t *testing.T, waiting string, e model.Event) bool {
	t.Helper()
	queue := false
	for _, r := range newPlugin(t, nil).EventsToRegister() {
		queue = queue || r.Helps(model.NewPod(podOf(waiting)), e)
	}
	return queue
}

// A node may help a pod with a resource that it lacks, if devices provide the resource.
func TestHintsOfNodesWithClasses(t *testing.T) {
	const asks = "cpu=1 nvidia.com/gpu=1"
	classes := withClasses("", plugintest.DeviceClass("gpu", "nvidia.com/gpu")).View().Devices()
	for _, row := range []struct {
		name          string
		before, now   string // allocatable
		classes, want bool
	}{
		{"added", "", "pods=9 cpu=4", true, true},
		{"added, no class", "", "pods=9 cpu=4", false, false},
		{"added, too small", "", "pods=9", true, false},
		{"added with too few of them", "", "pods=9 cpu=4 nvidia.com/gpu=0", true, true},
		{"nothing grew", "pods=9 cpu=4", "pods=9 cpu=4", true, true},
		{"nothing grew, no class", "pods=9 cpu=4", "pods=9 cpu=4", false, false},
		{"a device plugin, nothing grew", "pods=9 cpu=4 nvidia.com/gpu=1", "pods=9 cpu=4 nvidia.com/gpu=1", true, false},
	} {
		e := model.Event{Resource: model.NodeEvent, Action: model.Add, Node: model.NewNode(nodeOf(row.now))}
		if row.before != "" {
			e.Action, e.OldNode = model.UpdateNodeAllocatable, model.NewNode(nodeOf(row.before))
		}
		if row.classes {
			e.Classes = classes
		}
		if got := helps(t, asks, e); got != row.want {
			t.Errorf("%s: queue %t, want %t", row.name, got, row.want)
		}
	}
}

// Devices count as the capacity of the resource that they provide: with the pod, 4 of 8
// devices are in use, so the score is 50. On a node whose device plugin offers any, they
// do not count.
func TestScoreByDevices(t *testing.T) {
	p := newPlugin(t, strategy(configv1.LeastAllocated, "nvidia.com/gpu=1"))
	if p.ScoreReads()&model.Devices == 0 || newPlugin(t, nil).ScoreReads()&model.Devices != 0 {
		t.Error("scores follow changes of devices if they depend on them, and not otherwise")
	}
	for _, row := range []struct {
		name, node string
		taken      int
		want       int32
	}{
		{"half are left", "cpu=4 pods=110", 3, 50},
		{"most are left", "cpu=4 pods=110", 0, 87},
		{"a device plugin", "cpu=4 pods=110 nvidia.com/gpu=4", 3, 75},
	} {
		s := withClasses(row.node, plugintest.DeviceClass("gpu", "nvidia.com/gpu"))
		plugintest.WithDevices(s, "n", 8, row.taken)
		need, varies := p.VaryingScoreNeed(s.View(), model.NewPod(podOf("nvidia.com/gpu=1")))
		if !varies {
			t.Fatal("the need does not vary")
		}
		scores, err := need.Compile()
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time from the cache
			if got := scores.Score(s.View().Node(slotOf(t, s))); got != row.want {
				t.Errorf("%s: %d, want %d", row.name, got, row.want)
			}
		}
	}
	for _, asks := range []string{"cpu=1", "nvidia.com/gpu=0"} {
		if _, varies := p.VaryingScoreNeed(withClasses("", plugintest.DeviceClass("gpu", "nvidia.com/gpu")).View(), model.NewPod(podOf(asks))); varies {
			t.Errorf("the need of a pod that requests %q varies", asks)
		}
	}
}
