package dynamicresources

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/internal/model"
)

// card is a pool whose partitions share the memory of a graphics card.
type card struct {
	memory     int64 // in GiB
	partitions map[string]int64
	shared     bool // usable by all nodes
}

// slices returns the slices of a card without some of its partitions.
func (c card) slices(generation int64, without ...string) []runtime.Object {
	counters, devices := slice("a"), slice("a")
	counters.Name = "a-counters"
	counters.Spec.SharedCounters = []resourcev1.CounterSet{{Name: "card", Counters: gibibytes(c.memory)}}
	for name, size := range c.partitions {
		if !slices.Contains(without, name) {
			devices.Spec.Devices = append(devices.Spec.Devices, resourcev1.Device{
				Name: name, ConsumesCounters: []resourcev1.DeviceCounterConsumption{{CounterSet: "card", Counters: gibibytes(size)}},
			})
		}
	}
	slices.SortFunc(devices.Spec.Devices, func(a, b resourcev1.Device) int { return int(a.Name[1]) - int(b.Name[1]) })
	for _, s := range []*resourcev1.ResourceSlice{counters, devices} {
		s.Spec.Pool.ResourceSliceCount, s.Spec.Pool.Generation = 2, generation
		if c.shared {
			s.Spec.NodeName, s.Spec.AllNodes = nil, ptr.To(true)
		}
	}
	return []runtime.Object{counters, devices}
}

func gibibytes(n int64) map[string]resourcev1.Counter {
	return map[string]resourcev1.Counter{"memory": {Value: *resource.NewQuantity(n<<30, resource.BinarySI)}}
}

// TestUnpublishedDeviceCounts is a property test: a pod is judged as if allocated devices
// that were withdrawn from their slices were still published.
func TestUnpublishedDeviceCounts(t *testing.T) {
	fits := map[bool]int{}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 46))
		c := card{memory: 2 + r.Int64N(8), partitions: map[string]int64{}, shared: r.IntN(2) == 0}
		var used, withdrawn []string
		for i := range 2 + r.IntN(5) {
			name := fmt.Sprint("d", i)
			c.partitions[name] = 1 + r.Int64N(4)
			if r.IntN(3) == 0 {
				if used = append(used, name); r.IntN(3) > 0 {
					withdrawn = append(withdrawn, name)
				}
			}
		}
		objects := append(c.slices(1), claim("old", 1, allocated("a", used...)), claim("c", 1+r.Int64N(2)))
		published, now := newWorld(t, objects...), newWorld(t, objects...)
		generation := 1 + r.Int64N(2)
		published.set(c.slices(generation)...)
		now.set(c.slices(generation, withdrawn...)...)
		want := published.filter(t, pod("p", "c"))
		if got := now.filter(t, pod("p", "c")); got != want {
			t.Errorf("seed %d: %+v with %v in use, without %v: %s, want %s", seed, c, used, withdrawn, got, want)
		}
		fits[want != "a: cannot allocate all claims; b: cannot allocate all claims"]++
		if err := now.Audit(); err != nil {
			t.Fatal(err)
		}
	}
	if fits[true] < 50 || fits[false] < 50 {
		t.Errorf("%d pods fit, %d do not: the cases say little", fits[true], fits[false])
	}
}

// TestUnpublishedDeviceIsReleased deallocates an unpublished device: the pod that waits
// for its counters is woken, and fits. Another version of the claim does not wake it.
func TestUnpublishedDeviceIsReleased(t *testing.T) {
	for _, shared := range []bool{false, true} {
		c := card{memory: 4, partitions: map[string]int64{"d0": 4, "d1": 1}, shared: shared}
		w := newWorld(t, append(c.slices(1), claim("old", 1, allocated("a", "d0")), claim("c", 1))...)
		waiting := pod("p", "c")
		asked := w.plugin.AskedIn(w.View(), waiting)
		wakes := func(o model.Change) bool {
			for _, e := range w.Apply([]model.Change{o}).Events {
				if w.helpsAsking(asked, waiting, e) {
					return true
				}
			}
			return false
		}
		w.set(c.slices(1, "d0")...)
		fits := func() bool { return w.filter(t, waiting)[:2] != "a:" }
		if fits() {
			t.Error("the counters of an allocated device are allocated again")
		}
		old := claim("old", 1, allocated("a", "d0"), func(c *resourcev1.ResourceClaim) { c.Labels = map[string]string{"x": "y"} })
		if wakes(model.Change{Kind: model.ObjectSet, Compiled: model.NewResourceClaim(old)}) || fits() {
			t.Error("a label of the claim releases the device")
		}
		if !wakes(model.Change{Kind: model.ObjectSet, Compiled: model.NewResourceClaim(claim("old", 1))}) || !fits() {
			t.Error("the pod is not woken when the device is deallocated")
		}
		if err := w.Audit(); err != nil {
			t.Error(err)
		}
	}
}

// TestPromisedDeviceIsUnpublished withdraws a device between the decision and the write
// of its allocation. The counters stay in use while the promise becomes an allocation.
func TestPromisedDeviceIsUnpublished(t *testing.T) {
	c := card{memory: 4, partitions: map[string]int64{"d0": 4}}
	w := newWorld(t, append(c.slices(1), claim("old", 1), claim("c", 1))...)
	placement, err := w.place(t, pod("first", "old"), "a")
	if err != nil {
		t.Fatal(err)
	}
	w.Assume(*placement)
	c.partitions["d1"] = 1
	w.set(c.slices(2, "d0")...)
	for _, step := range []struct {
		what string
		do   func()
		want string
	}{
		{"promised", func() {}, "a: cannot allocate all claims; b: cannot allocate all claims"},
		{"allocated", func() { w.set(claim("old", 1, allocated("a", "d0"))) }, "a: cannot allocate all claims; b: cannot allocate all claims"},
		{"another claim of the name", func() {
			w.set(claim("old", 1, func(c *resourcev1.ResourceClaim) {
				c.ObjectMeta = metav1.ObjectMeta{Namespace: "ns", Name: "old", UID: types.UID("other")}
			}))
		}, "a; b: cannot allocate all claims"},
	} {
		if step.do(); w.filter(t, pod("p", "c")) != step.want {
			t.Errorf("%s: %s, want %s", step.what, w.filter(t, pod("p", "c")), step.want)
		}
	}
	if err := w.Audit(); err != nil {
		t.Error(err)
	}
}

// TestUnpublishedDeviceIsUnknown states the limit: if a scheduler never saw the device
// published while it was in use, its counters count as free.
func TestUnpublishedDeviceIsUnknown(t *testing.T) {
	c := card{memory: 4, partitions: map[string]int64{"d0": 4, "d1": 1}}
	old, waiting := claim("old", 1, allocated("a", "d0")), claim("c", 1)
	restarted := newWorld(t, append(c.slices(1, "d0"), old, waiting)...)
	late := newWorld(t, append(c.slices(1), claim("old", 1), waiting)...)
	late.set(append(c.slices(1, "d0"), old)...)
	for name, w := range map[string]*world{"after a restart": restarted, "the withdrawal is shown first": late} {
		if got, want := w.filter(t, pod("p", "c")), "a; b: cannot allocate all claims"; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if err := w.Audit(); err != nil {
			t.Error(err)
		}
	}
}
