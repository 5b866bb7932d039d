package allocator

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugins/plugintest"
	"github.com/berth-scheduler/berth/internal/state"
)

var gpu = model.ResourceNameOf("nvidia.com/gpu")

// clusterOf returns the nodes n0, n1 and so on, a class for nvidia.com/gpu that has these selectors, and slices.
func clusterOf(nodes int, class []resourcev1.DeviceSelector, slices ...*resourcev1.ResourceSlice) *state.State {
	var all []*v1.Node
	for i := range nodes {
		all = append(all, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}})
	}
	s := plugintest.Cluster(all)
	c := plugintest.DeviceClass("gpu", "nvidia.com/gpu")
	c.Spec.Selectors = class
	plugintest.Set(s, c)
	for _, slice := range slices {
		plugintest.Set(s, slice)
	}
	return s
}

// countOn counts the devices of the node ni.
func countOn(t *testing.T, c *Counter, s *state.State, i int) (all, used int64, ok bool) {
	t.Helper()
	slot, known := s.Slot(fmt.Sprint("n", i))
	if !known {
		t.Fatalf("node n%d has no slot", i)
	}
	return c.Count(s.View().Devices(), slot, s.View().Node(slot).Object())
}

func TestCount(t *testing.T) {
	shared := sliceOf("p", "d0", "d1", "d2")
	shared.Spec.Devices[1].AllowMultipleAllocations = ptr.To(true)
	for _, row := range []struct {
		what      string
		selectors []resourcev1.DeviceSelector
		slices    []*resourcev1.ResourceSlice
		all, used int64
		ok        bool
	}{
		{"no devices", nil, nil, 0, 0, true},
		{"all, of which one is allocated", nil, []*resourcev1.ResourceSlice{sliceOf("p", "d0", "d1", "d2")}, 3, 1, true},
		{"those of another pool of the same names", nil, []*resourcev1.ResourceSlice{sliceOf("q", "d0", "d1")}, 2, 0, true},
		{"two pools", nil, []*resourcev1.ResourceSlice{sliceOf("p", "d1", "d2"), sliceOf("q", "d0")}, 3, 1, true},
		{"those that may be shared", selectors("device.allowMultipleAllocations"), []*resourcev1.ResourceSlice{shared}, 1, 1, true},
		{"none of the driver", selectors(`device.driver == "y.drv"`), []*resourcev1.ResourceSlice{sliceOf("p", "d0", "d1")}, 0, 0, true},
		{"a selector that fails", selectors(`device.attributes["x.drv"].model == "a"`), []*resourcev1.ResourceSlice{sliceOf("p", "d0")}, 0, 0, false},
	} {
		for _, slice := range row.slices {
			slice.Name, slice.Spec.NodeName = slice.Spec.Pool.Name, ptr.To("n0")
		}
		s := clusterOf(1, row.selectors, row.slices...)
		claim := claimOf("c", "gpu", 1)
		claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "x.drv", Pool: "p", Device: "d1"}},
		}}
		plugintest.Set(s, claim)
		c := NewMatcher().CounterFor(s.View().Devices(), gpu)
		for range 2 { // the second time it is remembered
			if all, used, ok := countOn(t, c, s, 0); all != row.all || used != row.used || ok != row.ok {
				t.Errorf("%s: %d devices, %d allocated, known: %t; want %d, %d, %t", row.what, all, used, ok, row.all, row.used, row.ok)
			}
		}
	}
}

// Nodes with alike devices are counted once, and what is remembered stays small where no two are alike.
func TestWhatIsRemembered(t *testing.T) {
	const nodes = 2*rememberedMax + 10
	alike, different := make([]*resourcev1.ResourceSlice, nodes), make([]*resourcev1.ResourceSlice, nodes)
	for i := range nodes {
		names := make([]string, 1+i)
		for j := range names {
			names[j] = fmt.Sprint("d", j)
		}
		alike[i], different[i] = sliceOf(fmt.Sprint("p", i), "d0", "d1"), sliceOf(fmt.Sprint("p", i), names...)
		alike[i].Spec.NodeName = ptr.To(fmt.Sprint("n", i))
		different[i].Spec.NodeName = alike[i].Spec.NodeName
	}
	for _, row := range []struct {
		slices []*resourcev1.ResourceSlice
		all    func(i int) int64
		keep   int
	}{
		{alike, func(int) int64 { return 2 }, 1},
		{different, func(i int) int64 { return int64(1 + i) }, 10},
	} {
		s := clusterOf(nodes, nil, row.slices...)
		c, most := NewMatcher().CounterFor(s.View().Devices(), gpu), 0
		for i := range nodes {
			if all, _, ok := countOn(t, c, s, i); all != row.all(i) || !ok {
				t.Fatalf("node %d has %d devices, known: %t, want %d", i, all, ok, row.all(i))
			}
			most = max(most, len(c.remembered))
		}
		if len(c.remembered) != row.keep || most > rememberedMax {
			t.Errorf("%d counts are remembered, and at most %d; want %d, and at most %d", len(c.remembered), most, row.keep, rememberedMax)
		}
	}
}

// What counts depend on: for what classes stand, how they select, and pools of several nodes.
func TestAppendClasses(t *testing.T) {
	if NewMatcher().CounterFor(clusterOf(0, nil).View().Devices(), model.ResourceNameOf("example.com/other")) != nil {
		t.Error("a resource is counted for which no class stands")
	}
	both := []model.ResourceName{model.ResourceNameOf("example.com/other"), gpu}
	plain, some := clusterOf(1, nil).View().Devices(), clusterOf(1, selectors("true")).View().Devices()
	wide := sliceOf("wide", "d0")
	wide.Spec.NodeName, wide.Spec.AllNodes = nil, ptr.To(true)
	seen := map[string]string{}
	for what, text := range map[string]string{
		"no resources": string(AppendClasses([]byte("x"), nil, plain)), "one": string(AppendClasses([]byte("x"), both[1:], plain)), "both": string(AppendClasses([]byte("x"), both, plain)),
		"selectors": string(AppendClasses([]byte("x"), both, some)), "wide": string(AppendClasses([]byte("x"), both, clusterOf(1, nil, wide).View().Devices())),
	} {
		if other := seen[text]; other != "" || text[0] != 'x' {
			t.Errorf("%s and %s: %q", what, other, text)
		}
		seen[text] = what
	}
}
