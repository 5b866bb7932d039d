package noderesourcesbalancedallocation

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// withClass returns a cluster of one node, n, with eight devices, two of them taken, and
// their class.
func withClass(allocatable string, class *resourcev1.DeviceClass) *state.State {
	s := plugintest.Cluster([]*v1.Node{nodeOf("n", allocatable)})
	plugintest.WithDevices(s, "n", 8, 2)
	plugintest.Set(s, class)
	return s
}

// gpusBy returns a class of the devices that match a selector.
func gpusBy(selector string) *resourcev1.DeviceClass {
	c := plugintest.DeviceClass("gpu", "nvidia.com/gpu")
	c.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: selector}}}
	return c
}

// Devices count as the capacity of the resource that they provide, on a node without a
// device plugin for it. With a quarter of them and none of the CPU in use the balance is
// 87; with the pod, 93.
func TestScoreByDevices(t *testing.T) {
	p := newPlugin(t, "cpu", "nvidia.com/gpu")
	if p.ScoreReads() != model.Usage|model.Allocatable|model.Labels|model.Devices || newPlugin(t).ScoreReads() != model.Usage|model.Allocatable {
		t.Error("scores follow changes of devices if they depend on them, and not otherwise")
	}
	if newPlugin(t).matcher != nil {
		t.Error("devices are matched where none are rated")
	}
	for _, row := range []struct {
		name, node, selector string
		want                 int32
	}{
		{"devices", "cpu=4", `device.driver == "drv"`, 78},
		{"listed with none", "cpu=4 nvidia.com/gpu=0", `device.driver == "drv"`, 78},
		{"a device plugin", "cpu=4 nvidia.com/gpu=4", `device.driver == "drv"`, 75},
		{"a device plugin of one device", "cpu=4 nvidia.com/gpu=1", `device.driver == "drv"`, 56},
		{"devices of another class", "cpu=4", `device.driver == "other"`, 75},
		{"a selector that fails", "cpu=4", `device.attributes["drv"].model == "a"`, 75},
	} {
		s := withClass(row.node, gpusBy(row.selector))
		need, varies := p.VaryingScoreNeed(s.View(), model.NewPod(podOf("p", "cpu=1 nvidia.com/gpu=1")))
		if !varies {
			t.Fatalf("%s: the need does not vary", row.name)
		}
		scores, err := need.Compile()
		if err != nil {
			t.Fatal(err)
		}
		slot, _ := s.Slot("n")
		if got := scores.Score(s.View().Node(slot)); got != row.want {
			t.Errorf("%s: score %d, want %d", row.name, got, row.want)
		}
	}
}

// A pod's need varies with classes if it requests a resource that a class provides. The
// need then includes the class's selectors.
func TestNeedsThatVary(t *testing.T) {
	p := newPlugin(t, "cpu", "nvidia.com/gpu")
	text := func(asks string, class *resourcev1.DeviceClass) string {
		need, varies := p.VaryingScoreNeed(withClass("cpu=4", class).View(), model.NewPod(podOf("p", asks)))
		if !varies {
			return ""
		}
		return plugin.NeedOf(need).String()
	}
	gpus := plugintest.DeviceClass("gpu", "nvidia.com/gpu")
	for _, asks := range []string{"", "cpu=1", "nvidia.com/gpu=0", "example.com/other=1", "deviceclass.resource.kubernetes.io/gpu=1"} {
		if got := text(asks, gpus); got != "" {
			t.Errorf("the need of a pod that requests %q varies: %q", asks, got)
		}
	}
	if got := text("nvidia.com/gpu=1", plugintest.DeviceClass("gpu", "")); got != "" {
		t.Errorf("a need varies with a class that does not stand for what is requested: %q", got)
	}
	two := text("nvidia.com/gpu=2", gpus)
	if one := text("nvidia.com/gpu=1", gpus); one == "" || one == two || one == text("nvidia.com/gpu=1", gpusBy("true")) {
		t.Errorf("needs are mistaken for each other: %q", one)
	}
}
