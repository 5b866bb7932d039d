package devices

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// slice returns a slice of a pool with devices of these names; on is a node, or "*" for
// all nodes.
func slice(name, on, pool string, generation int64, devices ...string) *model.ResourceSlice {
	s := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"},
		Spec:       resourcev1.ResourceSliceSpec{Driver: "drv", Pool: resourcev1.ResourcePool{Name: pool, Generation: generation, ResourceSliceCount: 1}},
	}
	key, value, selects := strings.Cut(on, "=")
	switch {
	case on == "*":
		s.Spec.AllNodes = ptr.To(true)
	case selects:
		s.Spec.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: v1.NodeSelectorOpIn, Values: []string{value}}},
		}}}
	default:
		s.Spec.NodeName = &on
	}
	for _, name := range devices {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: name})
	}
	return model.NewResourceSlice(s)
}

// claimOf returns a claim with devices, each written POOL/DEVICE or POOL/DEVICE#SHARE.
// Without devices it has no allocation.
func claimOf(name string, uid types.UID, devices ...string) *model.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid, ResourceVersion: "1"}}
	if len(devices) > 0 {
		c.Status.Allocation = allocation(devices...)
	}
	return model.NewResourceClaim(c)
}

func allocation(devices ...string) *resourcev1.AllocationResult {
	a := &resourcev1.AllocationResult{}
	for _, d := range devices {
		pool, device, _ := strings.Cut(d, "/")
		device, share, shared := strings.Cut(device, "#")
		r := resourcev1.DeviceRequestAllocationResult{Request: "r", Driver: "drv", Pool: pool, Device: device}
		if shared {
			r.ShareID = ptr.To(types.UID(share))
			r.ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse("1Gi")}
		}
		a.Devices.Results = append(a.Devices.Results, r)
	}
	return a
}

func rule(name string, pool, device *string) *model.DeviceTaintRule {
	return model.NewDeviceTaintRule(&resourcev1.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"},
		Spec: resourcev1.DeviceTaintRuleSpec{
			DeviceSelector: &resourcev1.DeviceTaintSelector{Pool: pool, Device: device},
			Taint:          resourcev1.DeviceTaint{Key: name, Effect: resourcev1.DeviceTaintEffectNoSchedule},
		},
	})
}

// recorder is a store with the slots that it has reported since the last take.
type recorder struct {
	*Store
	slots []int32
}

func newRecorder(t *testing.T, nodes ...string) *recorder {
	t.Helper()
	r := &recorder{}
	r.Store = New(func(slot int32, aspects model.Aspect) {
		if aspects != model.Devices {
			t.Errorf("slot %d is reported with the aspects %b", slot, aspects)
		}
		r.slots = append(r.slots, slot)
	})
	for slot, name := range nodes {
		r.Seat(int32(slot), name)
		r.SetNode(int32(slot), true, map[string]string{"name": name})
	}
	return r
}

func (r *recorder) take() []int32 {
	slots := r.slots
	r.slots = nil
	return slots
}

func (r *recorder) isAllocated(device string) bool {
	for id := range r.Allocated().AllocatedDevices {
		if id.Pool.String()+"/"+id.Device.String() == device {
			return true
		}
	}
	return false
}

// Changes of devices are reported for the only node that can use them. Others change the
// version of wide pools, and are reported for nodes that start or stop using them.
func TestChangesAreReported(t *testing.T) {
	r := newRecorder(t, "a", "b")
	for _, step := range []struct {
		what  string
		do    func()
		slots []int32
		wide  bool
	}{
		{"a slice of a node", func() { r.Set(slice("s", "b", "p", 1, "d0", "d1")) }, []int32{1}, false},
		{"the same again", func() { r.Set(slice("s", "b", "p", 1, "d0", "d1")) }, nil, false},
		{"its devices are renamed", func() { r.Set(slice("s", "b", "p", 1, "e0", "e1")) }, nil, false},
		{"two of one name", func() { r.Set(slice("s", "b", "p", 1, "d0", "d0")) }, []int32{1}, false},
		{"and back", func() { r.Set(slice("s", "b", "p", 1, "d0", "d1")) }, []int32{1}, false},
		{"an allocation", func() { r.Set(claimOf("c", "1", "p/d1")) }, []int32{1}, false},
		{"an allocation of an unknown device", func() { r.Set(claimOf("x", "1", "p/d7", "q/d0")) }, nil, false},
		{"a taint", func() { r.Set(rule("t", ptr.To("p"), ptr.To("d0"))) }, []int32{1}, false},
		{"a taint elsewhere", func() { r.Set(rule("u", ptr.To("q"), nil)) }, nil, false},
		{"the taint is gone", func() { r.Remove(model.Ref{Kind: model.DeviceTaintRuleKind, Name: "t"}) }, []int32{1}, false},
		{"a pool of all nodes", func() { r.Set(slice("w", "*", "wide", 1, "d0")) }, []int32{0, 1}, true},
		{"an allocation there", func() { r.Set(claimOf("w", "1", "wide/d0")) }, nil, true},
		{"the claim is gone", func() { r.Remove(model.ClaimKey{Namespace: "ns", Name: "w"}.DeviceRef()) }, nil, true},
		{"the pool moves to a node", func() { r.Set(slice("w", "a", "wide", 1, "d0")) }, []int32{0, 1, 0}, true},
		{"a second node", func() { r.Set(slice("v", "b", "wide", 1, "d1")) }, []int32{0, 0, 1}, true},
		{"it leaves again", func() { r.Remove(model.Ref{Kind: model.ResourceSliceKind, Name: "v"}) }, []int32{0, 1, 0}, true},
		{"all slices of a node go", func() { r.Remove(model.Ref{Kind: model.ResourceSliceKind, Name: "s"}) }, []int32{1}, false},
	} {
		version := r.WideVersion()
		step.do()
		if slots := r.take(); !slices.Equal(slots, step.slots) || (r.WideVersion() != version) != step.wide {
			t.Errorf("%s: slots %v are reported, wide pools changed: %t; want %v, %t", step.what, slots, r.WideVersion() != version, step.slots, step.wide)
		}
		r.mustBeSound(t)
	}
}

func (r *recorder) mustBeSound(t *testing.T) {
	t.Helper()
	names := make([]Seat, len(r.bySlot))
	for slot, n := range r.bySlot {
		if n != nil {
			names[slot] = Seat{n.name, n.exists, n.labels}
		}
	}
	var v audit.Violations
	r.Audit(&v, names, func(model.Ref, model.PodKey, plan.Held) bool { return true })
	if err := v.Err(); err != nil {
		t.Fatal(err)
	}
}

// A promise counts until a version of the claim shows an allocation, and no longer.
func TestPromises(t *testing.T) {
	r := newRecorder(t, "a")
	r.Set(slice("s", "a", "p", 1, "d0", "d1"))
	key := model.ClaimKey{Namespace: "ns", Name: "c"}
	pod, other := model.PodKey{Namespace: "ns", Name: "pod"}, model.PodKey{Namespace: "ns", Name: "other"}
	expect := func(what string, promised bool, allocated ...string) {
		t.Helper()
		var have []string
		for _, d := range []string{"p/d0", "p/d1"} {
			if r.isAllocated(d) {
				have = append(have, d)
			}
		}
		if !slices.Equal(have, allocated) || r.IsPromised(key) != promised {
			t.Errorf("%s: %v are allocated, promised %t; want %v, %t", what, have, r.IsPromised(key), allocated, promised)
		}
		r.mustBeSound(t)
	}
	promise := &Promise{UID: "1", Allocation: allocation("p/d0")}
	r.Set(claimOf("c", "1"))
	r.Hold(key.DeviceRef(), pod, promise)
	expect("promised", true, "p/d0")
	r.Set(claimOf("c", "1"))
	expect("a version without an allocation", true, "p/d0")
	r.Release(key.DeviceRef(), other)
	expect("another pod's holds end", true, "p/d0")
	r.Release(key.DeviceRef(), pod)
	expect("released", false)
	r.Hold(key.DeviceRef(), pod, promise)
	r.Set(claimOf("c", "1", "p/d1"))
	expect("somebody has allocated another device", false, "p/d1")
	r.Set(claimOf("c", "1"))
	expect("and deallocated it", false)
	r.Release(key.DeviceRef(), pod)
	r.Hold(key.DeviceRef(), pod, promise)
	r.Remove(key.DeviceRef())
	expect("the claim is gone, the placement is not", true, "p/d0")
	r.Set(claimOf("c", "2"))
	expect("another claim has the name", false)
	r.Remove(key.DeviceRef())
	if kept := r.Sizes(); kept.Claims != 0 || kept.Used != 0 {
		t.Errorf("%+v is kept of claims that are gone", kept)
	}
}

// A device is in use by claims that have it exclusively, and by claims with shares of it,
// even if a share consumes no capacity.
func TestInUse(t *testing.T) {
	r := newRecorder(t, "a")
	r.Set(slice("s", "a", "p", 1, "d0"))
	free := string(r.AppendKey(nil, 0))
	nothing := allocation("p/d0#z")
	nothing.Devices.Results[0].ConsumedCapacity = nil
	empty := claimOf("z", "z").Object.DeepCopy()
	empty.Status.Allocation = nothing
	claim := map[string]*model.ResourceClaim{"x": claimOf("x", "x", "p/d0"), "y": claimOf("y", "y", "p/d0#y"), "z": model.NewResourceClaim(empty)}
	id, keys := structured.MakeDeviceID("drv", "p", "d0"), map[string]string{free: "none"}
	for _, claims := range []string{"x", "y", "z", "xy", "yz", "xyz"} {
		for _, c := range claims {
			r.Set(claim[string(c)])
		}
		// A share without consumption makes no difference beside another share.
		if key := string(r.AppendKey(nil, 0)); len(claims) < 3 && claims != "yz" {
			if other := keys[key]; other != "" {
				t.Errorf("a node is as alike with the claims %q as with %q", claims, other)
			}
			keys[key] = claims
		}
		if !r.InUse(id) || r.InUse(structured.MakeDeviceID("drv", "p", "d1")) {
			t.Errorf("with the claims %q d0 is in use: %t, d1: %t", claims, r.InUse(id), r.InUse(structured.MakeDeviceID("drv", "p", "d1")))
		}
		r.mustBeSound(t)
		for _, c := range claims {
			r.Remove(model.ClaimKey{Namespace: "ns", Name: string(c)}.DeviceRef())
		}
		if r.InUse(id) || string(r.AppendKey(nil, 0)) != free || len(r.Allocated().AllocatedSharedDeviceIDs) != 0 || len(r.sharers) != 0 {
			t.Errorf("after the claims %q d0 is in use: %t", claims, r.InUse(id))
		}
	}
}

// Nodes with equal devices have equal keys, whatever the names of nodes, pools and
// devices. Differences that an allocator can see make the keys differ.
func TestKeysOfAlikeNodes(t *testing.T) {
	with := func(change func(*resourcev1.ResourceSlice)) func(node string) *model.ResourceSlice {
		return func(node string) *model.ResourceSlice {
			s := slice(node+"-slice", node, node+"-pool", 3, node+"-d0", node+"-d1").Object.DeepCopy()
			change(s)
			return model.NewResourceSlice(s)
		}
	}
	plain := with(func(*resourcev1.ResourceSlice) {})
	for _, row := range []struct {
		what  string
		other func(node string) *model.ResourceSlice
		alike bool
	}{
		{"names", plain, true},
		{"a generation", with(func(s *resourcev1.ResourceSlice) { s.Spec.Pool.Generation = 7 }), true},
		{"a driver", with(func(s *resourcev1.ResourceSlice) { s.Spec.Driver = "other" }), false},
		{"missing slices", with(func(s *resourcev1.ResourceSlice) { s.Spec.Pool.ResourceSliceCount = 2 }), false},
		{"an attribute", with(func(s *resourcev1.ResourceSlice) {
			s.Spec.Devices[1].Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: ptr.To("x")}}
		}), false},
		{"a capacity", with(func(s *resourcev1.ResourceSlice) {
			s.Spec.Devices[1].Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("1")}}
		}), false},
		{"a taint", with(func(s *resourcev1.ResourceSlice) { s.Spec.Devices[0].Taints = []resourcev1.DeviceTaint{{Key: "k"}} }), false},
		{"a counter", with(func(s *resourcev1.ResourceSlice) { s.Spec.SharedCounters = []resourcev1.CounterSet{{Name: "c"}} }), false},
		{"fewer devices", with(func(s *resourcev1.ResourceSlice) { s.Spec.Devices = s.Spec.Devices[:1] }), false},
	} {
		r := newRecorder(t, "a", "b")
		r.Set(plain("a"))
		r.Set(row.other("b"))
		key := func(slot int32) string { return string(r.AppendKey(nil, slot)) }
		if (key(0) == key(1)) != row.alike {
			t.Errorf("%s: keys are equal: %t", row.what, key(0) == key(1))
		}
		r.Set(claimOf("c", "1", "a-pool/a-d1"))
		if key(0) == key(1) {
			t.Errorf("%s: keys are equal although a device is allocated", row.what)
		}
	}
}

// After random changes, the store equals a new store with the same objects.
func TestRandomChanges(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := newRecorder(t)
		nodes := map[int32]string{}
		held := map[model.ClaimKey]model.PodKey{}
		one := func(list ...string) string { return list[r.IntN(len(list))] }
		for range 120 {
			name := fmt.Sprint(r.IntN(4))
			key := model.ClaimKey{Namespace: "ns", Name: name}
			devices := []string{one("p0", "p1", "p2") + "/" + one("d0", "d1"), one("p0", "p1") + "/" + one("d0", "d1") + "#" + name}[:r.IntN(3)]
			switch r.IntN(12) {
			case 11:
				if slot := int32(r.IntN(3)); nodes[slot] != "" {
					s.SetNode(slot, r.IntN(4) > 0, map[string]string{"zone": one("a", "b")})
				}
			case 0, 1:
				s.Set(slice("s"+name, one("n0", "n1", "n2", "*", "zone=a", "zone=b"), one("p0", "p1", "p2"), int64(r.IntN(2)), one("d0", "d1"), one("d0", "d2")))
			case 2:
				s.Remove(model.Ref{Kind: model.ResourceSliceKind, Name: "s" + name})
			case 3, 4:
				s.Set(claimOf(name, types.UID(one("1", "2")), devices...))
			case 5:
				s.Remove(key.DeviceRef())
			case 6:
				if _, is := held[key]; !is {
					held[key] = model.PodKey{Namespace: "ns", Name: fmt.Sprint(r.IntN(1000))}
					s.Hold(key.DeviceRef(), held[key], &Promise{UID: types.UID(one("1", "2")), Allocation: allocation(devices...)})
				}
			case 7:
				if pod, is := held[key]; is {
					s.Release(key.DeviceRef(), pod)
					delete(held, key)
				}
			case 8:
				s.Set(rule("r"+name, pick(r, "p0", "p1"), pick(r, "d0", "d1")))
			case 9:
				s.Remove(model.Ref{Kind: model.DeviceTaintRuleKind, Name: "r" + name})
			case 10:
				slot := int32(r.IntN(3))
				if nodes[slot] != "" {
					s.SetNode(slot, false, nil)
					s.Unseat(slot)
					delete(nodes, slot)
				} else if node := one("n0", "n1", "n2"); !slices.Contains(slices.Collect(maps.Values(nodes)), node) {
					s.Seat(slot, node)
					nodes[slot] = node
				}
			}
			s.mustBeSound(t)
		}
	}
}

func pick(r *rand.Rand, names ...string) *string {
	if i := r.IntN(len(names) + 1); i < len(names) {
		return &names[i]
	}
	return nil
}

// An event about a claim concerns the pools of the devices that it has lost. An event
// about a slice concerns its old and new pools.
func TestPoolsOf(t *testing.T) {
	r := newRecorder(t, "a")
	for _, p := range []string{"p", "q"} {
		r.Set(slice(p, "a", p, 1, "d0", "d1"))
	}
	admin := claimOf("c", "1", "p/d0")
	admin.Object.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true)
	for _, row := range []struct {
		what        string
		before, now model.Compiled
		want        []string
	}{
		{"all devices", claimOf("c", "1", "p/d0", "q/d0"), claimOf("c", "1"), []string{"p", "q"}},
		{"two of a pool", claimOf("c", "1", "p/d0", "p/d1"), claimOf("c", "1"), []string{"p"}},
		{"a claim that is gone", claimOf("c", "1", "q/d0"), nil, []string{"q"}},
		{"one of two devices", claimOf("c", "1", "p/d0", "q/d0"), claimOf("c", "1", "p/d0"), []string{"q"}},
		{"one for another", claimOf("c", "1", "p/d0"), claimOf("c", "1", "q/d0"), []string{"p"}},
		{"another share", claimOf("c", "1", "p/d0#x"), claimOf("c", "1", "p/d0#y"), []string{"p"}},
		{"the same devices", claimOf("c", "1", "p/d0"), claimOf("c", "1", "p/d0"), nil},
		{"no devices", claimOf("c", "1"), claimOf("c", "1", "p/d0"), nil},
		{"a new claim", nil, claimOf("c", "1", "p/d0"), nil},
		{"a pool that is gone", claimOf("c", "1", "x/d0"), nil, nil},
		{"access for administrators", admin, nil, nil},
		{"a slice of one pool", slice("p", "a", "p", 1), slice("p", "a", "p", 2), []string{"p"}},
		{"a slice that is new", nil, slice("p", "a", "p", 1), []string{"p"}},
		{"a slice that moves to another pool", slice("p", "a", "q", 1), slice("p", "a", "p", 1), []string{"q", "p"}},
		{"a slice that is gone", slice("x", "a", "x", 1), nil, nil},
		{"a class", &model.DeviceClass{}, &model.DeviceClass{}, nil},
	} {
		var got []string
		for _, p := range r.PoolsOf(row.before, row.now) {
			got = append(got, p.Slices[0].Spec.Pool.Name)
			if p.Driver != "drv" {
				t.Errorf("%s: driver %s", row.what, p.Driver)
			}
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", row.what, got, row.want)
		}
	}
}

// Nodes that can use the same wide pools and are otherwise equal are listed together. A
// change of a pool's use concerns the lists of nodes that can use the pool.
func TestAlikeNodes(t *testing.T) {
	r := newRecorder(t, "n0", "n1", "n2", "n3")
	for slot, zone := range []string{"a", "a", "b", "b"} {
		r.SetNode(int32(slot), true, map[string]string{"zone": zone})
	}
	since := func(version uint64) (lists []string) {
		seen := map[uint64]bool{}
		for a := range r.AlikeSince(version) {
			if !seen[a.ID] {
				lists = append(lists, fmt.Sprint(slices.Sorted(slices.Values(a.AppendSlots(nil)))))
				if !slices.Contains(a.AppendSlots(nil), a.One()) {
					t.Errorf("slot %d is not in its list", a.One())
				}
			}
			seen[a.ID] = true
		}
		slices.Sort(lists)
		return lists
	}
	gone := func(kind model.Kind, name string) func() {
		return func() { r.Remove(model.Ref{Kind: kind, Name: name}) }
	}
	keys := func() string {
		var same []string
		for slot := range int32(4) {
			for other := range slot {
				if string(r.AppendKey(nil, slot)) == string(r.AppendKey(nil, other)) {
					same = append(same, fmt.Sprintf("%d=%d", other, slot))
				}
			}
		}
		return strings.Join(same, " ")
	}
	for _, step := range []struct {
		what     string
		do       func()
		concerns []string
		same     string // nodes with equal keys
	}{
		{"a pool of a zone", func() { r.Set(slice("wa", "zone=a", "wa", 1, "d0", "d1")) }, []string{"[0 1]"}, "0=1 2=3"},
		{"one like it of the other", func() { r.Set(slice("wb", "zone=b", "wb", 1, "e0", "e1")) }, []string{"[2 3]"}, "0=1 0=2 1=2 0=3 1=3 2=3"},
		{"an allocation", func() { r.Set(claimOf("c", "1", "wb/e1")) }, []string{"[2 3]"}, "0=1 2=3"},
		{"one like it", func() { r.Set(claimOf("d", "1", "wa/d1")) }, []string{"[0 1]"}, "0=1 0=2 1=2 0=3 1=3 2=3"},
		{"an unknown device", func() { r.Set(claimOf("e", "1", "wa/d7")) }, nil, "0=1 0=2 1=2 0=3 1=3 2=3"},
		{"another is used", func() { r.Set(claimOf("d", "1", "wa/d0")) }, []string{"[0 1]"}, "0=1 2=3"},
		{"a pool of all", func() { r.Set(slice("all", "*", "all", 1, "d0")) }, []string{"[0 1]", "[2 3]"}, "0=1 2=3"},
		{"a node has a pool of its own", func() { r.Set(slice("own", "n0", "own", 1, "d0")) }, nil, "2=3"},
		{"something of all is used", func() { r.Set(claimOf("f", "1", "all/d0")) }, []string{"[0]", "[1]", "[2 3]"}, "2=3"},
		{"something of a zone is used", func() { r.Set(claimOf("f", "1", "wa/d1")) }, []string{"[0]", "[1]", "[2 3]"}, "2=3"},
		{"a node moves to the other zone", func() { r.SetNode(1, true, map[string]string{"zone": "b"}) }, nil, "1=2 1=3 2=3"},
		{"a node is gone", func() { r.SetNode(3, false, nil) }, nil, "1=2"},
		{"a pool is tainted", func() { r.Set(rule("t", ptr.To("wb"), nil)) }, []string{"[1 2]"}, "1=2"},
		{"the own pool is gone", gone(model.ResourceSliceKind, "own"), nil, "1=2"},
		{"the pool of all is gone", gone(model.ResourceSliceKind, "all"), nil, "1=2"},
		{"the pool of a zone is gone", gone(model.ResourceSliceKind, "wa"), nil, "1=2 0=3"},
	} {
		version := r.WideVersion()
		step.do()
		if got := since(version); !slices.Equal(got, step.concerns) {
			t.Errorf("%s: concerns %v, want %v", step.what, got, step.concerns)
		}
		if got := keys(); got != step.same {
			t.Errorf("%s: equal keys %s, want %s", step.what, got, step.same)
		}
		r.mustBeSound(t)
	}
	if kept := r.Sizes(); kept.Alike != 1 {
		t.Errorf("%+v is kept", kept)
	}
}

// TestSharedPromise has two members of a group share a claim's promise. It counts once,
// is shared only in the group's turn, and is broken when the last of the two ends.
func TestSharedPromise(t *testing.T) {
	r := newRecorder(t, "a")
	r.Set(claimOf("c", "1"))
	key := claimOf("c", "1").Key
	promise := &Promise{Allocation: allocation("p/d0")}
	p, q := model.PodKey{Name: "p"}, model.PodKey{Name: "q"}
	r.BeginGroup()
	if r.PromisedInTurn(key) != nil {
		t.Error("nothing is promised yet")
	}
	r.Hold(key.DeviceRef(), p, promise)
	if r.PromisedInTurn(key) != promise {
		t.Error("the promise is not seen in its turn")
	}
	r.Hold(key.DeviceRef(), q, promise)
	if n := r.users[r.idOf("p/d0")]; n != 1 {
		t.Errorf("the device has %d users", n)
	}
	r.EndGroup()
	if r.PromisedInTurn(key) != nil {
		t.Error("the promise is seen after its turn")
	}
	r.BeginGroup()
	if r.PromisedInTurn(key) != nil {
		t.Error("the promise is seen in another turn")
	}
	r.EndGroup()
	if broken, _ := r.Release(key.DeviceRef(), p); broken != nil || !r.IsPromised(key) {
		t.Error("the promise is broken while it is shared")
	}
	if broken, _ := r.Release(key.DeviceRef(), p); broken != nil {
		t.Error("a pod that has gone breaks the promise of another")
	}
	if broken, _ := r.Release(key.DeviceRef(), q); broken != promise || r.IsPromised(key) {
		t.Error("the promise is kept when nobody holds it")
	}
}
