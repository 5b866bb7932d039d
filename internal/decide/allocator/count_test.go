package allocator

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

var gpu = model.ResourceNameOf("nvidia.com/gpu")

// clusterOf returns the nodes n0, n1 and so on, a class for nvidia.com/gpu that has these
// selectors, and slices.
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
		{"no device counts as one that may be shared", selectors("device.allowMultipleAllocations"), []*resourcev1.ResourceSlice{shared}, 0, 0, true},
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
		for range 2 { // the second time from the cache
			if all, used, ok := countOn(t, c, s, 0); all != row.all || used != row.used || ok != row.ok {
				t.Errorf("%s: %d devices, %d allocated, known: %t; want %d, %d, %t", row.what, all, used, ok, row.all, row.used, row.ok)
			}
		}
	}
}

// Nodes with equal devices are counted once, and the cache stays small if no two nodes
// are equal.
func TestWhatIsRemembered(t *testing.T) {
	const nodes = 2*maxRemembered + 10
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
		if len(c.remembered) != row.keep || most > maxRemembered {
			t.Errorf("%d counts are remembered, and at most %d; want %d, and at most %d", len(c.remembered), most, row.keep, maxRemembered)
		}
	}
}

// Counts depend on devices, on the classes that provide the resources, and on their
// selectors.
func TestAppendClasses(t *testing.T) {
	if NewMatcher().CounterFor(clusterOf(0, nil).View().Devices(), model.ResourceNameOf("example.com/other")) != nil {
		t.Error("a resource is counted for which no class stands")
	}
	both := []model.ResourceName{model.ResourceNameOf("example.com/other"), gpu}
	plain, some := clusterOf(1, nil).View().Devices(), clusterOf(1, selectors("true")).View().Devices()
	seen := map[string]string{}
	for what, text := range map[string]string{
		"no resources": string(AppendClasses([]byte("x"), nil, plain)), "one": string(AppendClasses([]byte("x"), both[1:], plain)), "both": string(AppendClasses([]byte("x"), both, plain)),
		"selectors": string(AppendClasses([]byte("x"), both, some)),
	} {
		if other := seen[text]; other != "" || text[0] != 'x' {
			t.Errorf("%s and %s: %q", what, other, text)
		}
		seen[text] = what
	}
}

// Counters follow pools that several nodes can use. One node of each list of nodes with
// equal devices is counted, and the whole list is reported if its count changes.
func TestCountersFollow(t *testing.T) {
	// Counts of one resource, or of two, the second of which changes.
	for _, all := range []bool{false, true} {
		wide := sliceOf("p", "d0", "d1", "d2")
		wide.Name, wide.Spec.NodeName, wide.Spec.AllNodes = "wide", nil, ptr.To(true)
		own := sliceOf("q", "d0")
		own.Name, own.Spec.NodeName = "own", ptr.To("n2")
		s := clusterOf(3, nil, wide, own)
		none := plugintest.DeviceClass("none", "example.com/none")
		none.Spec.Selectors = selectors(`device.driver == "y.drv"`)
		plugintest.Set(s, none)
		store, m := s.View().Devices(), NewMatcher()
		counters := NewCounters(m.CounterFor(store, model.ResourceNameOf("example.com/none")), m.CounterFor(store, gpu))
		if all {
			counters = NewCounters(m.CounterFor(store, gpu))
		}
		follow := func(what string, asked int, want ...string) {
			t.Helper()
			slots, did := counters.Follow(s, []int32{-7})
			var nodes []string
			for _, slot := range slots[1:] {
				nodes = append(nodes, s.Node(slot).Name())
			}
			if slices.Sort(nodes); slots[0] != -7 || !slices.Equal(nodes, want) || did != asked {
				t.Errorf("%s: %v are to be asked about, and %d nodes were; want %v, and %d", what, nodes, did, want, asked)
			}
		}
		allocate := func(claim, pool, device string) {
			c := claimOf(types.UID(claim), "gpu", 1)
			c.Name = claim
			c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
				Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "x.drv", Pool: pool, Device: device}},
			}}
			plugintest.Set(s, c)
		}
		counters.Filled(s)
		follow("nothing has changed", 0)
		allocate("a", "p", "d1")
		follow("a device is allocated", 2, "n0", "n1", "n2")
		follow("nothing has changed since", 0)
		allocate("b", "q", "d0")
		follow("a device of a node's own", 0) // which is journalled
		wide = wide.DeepCopy()
		wide.ResourceVersion, wide.Spec.Devices[0].Name = "2", "e0"
		plugintest.Set(s, wide)
		follow("a device has another name", 2, "n2") // which was not equal before
		if counters.Filled(s); len(counters.counted) != 2*len(counters.of) {
			t.Errorf("%d counts are kept of 2 lists of nodes, for %d resources", len(counters.counted), len(counters.of))
		}
		wide = wide.DeepCopy()
		wide.ResourceVersion, wide.Spec.Devices[0].Attributes = "3", map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: ptr.To("a")}}
		plugintest.Set(s, wide)
		follow("a device has an attribute that counts for nothing", 2)
	}
}

// The cache of counters is bounded. Nodes without a cached count are counted again.
func TestCountersAreBounded(t *testing.T) {
	wide := sliceOf("p", "d0", "d1")
	wide.Spec.NodeName, wide.Spec.AllNodes = nil, ptr.To(true)
	s := clusterOf(1, nil, wide)
	counters := NewCounters(NewMatcher().CounterFor(s.View().Devices(), gpu))
	counters.Filled(s)
	for i := range maxCounted - 1 {
		counters.counted[alikeNodes{uint64(1000 + i), 0}] = count{}
	}
	again := func(version string) int {
		wide = wide.DeepCopy()
		wide.ResourceVersion = version
		wide.Spec.Devices = append(wide.Spec.Devices, resourcev1.Device{Name: "d" + version})
		plugintest.Set(s, wide)
		slots, _ := counters.Follow(s, nil)
		return len(slots)
	}
	if n := again("2"); n != 1 || len(counters.counted) != 1 {
		t.Errorf("%d nodes are to be asked about, and %d counts are kept", n, len(counters.counted))
	}
	if n := again("3"); n != 1 || len(counters.counted) != 1 {
		t.Errorf("%d nodes are to be asked about, and %d counts are kept", n, len(counters.counted))
	}
}
