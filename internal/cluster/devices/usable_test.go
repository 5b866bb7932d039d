package devices

import (
	"fmt"
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

// otherValue is the value of a hold of another plugin.
type otherValue struct{}

func (otherValue) IsHeld() {}

// changed returns a slice with a change.
func changed(s *model.ResourceSlice, change func(*resourcev1.ResourceSlice)) *model.ResourceSlice {
	object := s.Object.DeepCopy()
	change(object)
	return model.NewResourceSlice(object)
}

// zone returns a selector of the nodes of a zone, by an operator.
func zone(operator v1.NodeSelectorOperator, name string) *v1.NodeSelector {
	return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "name", Operator: operator, Values: []string{name}}}}}}
}

// usable returns the devices that the nodes of slots 0, 1 and so on can use, each as
// POOL/DEVICE, or "error" for an invalid slice.
func (r *recorder) usable(stopAt int) string {
	var nodes []string
	for slot, n := range r.bySlot {
		var devices []string
		seen := 0
		for u, err := range r.UsableSlices(int32(slot), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: n.labels}}) {
			if seen++; err != nil {
				devices = append(devices, "error: "+err.Error())
			}
			for _, d := range u.Devices {
				devices = append(devices, u.Driver+"/"+u.Pool+"/"+d.Name)
			}
			if seen == stopAt {
				break
			}
		}
		nodes = append(nodes, strings.Join(devices, " "))
	}
	return strings.Join(nodes, "; ")
}

// A node can use the devices of its own pools. In wide pools it can use the slices or
// single devices that select the node.
func TestUsableSlices(t *testing.T) {
	each := func(devices ...resourcev1.Device) *model.ResourceSlice {
		return changed(slice("s", "a", "p", 1), func(s *resourcev1.ResourceSlice) {
			s.Spec.NodeName, s.Spec.PerDeviceNodeSelection, s.Spec.Devices = nil, ptr.To(true), devices
		})
	}
	notPerDevice := changed(slice("s", "*", "p", 1, "d0"), func(s *resourcev1.ResourceSlice) {
		s.Spec.PerDeviceNodeSelection, s.Spec.Devices[0].NodeName = ptr.To(false), ptr.To("b")
	})
	for _, row := range []struct {
		what, want string
		slices     []*model.ResourceSlice
	}{
		{"nothing", "; ", nil},
		{"their own", "drv/p/d0 drv/p/d1; drv/q/d0", []*model.ResourceSlice{slice("s", "a", "p", 1, "d0", "d1"), slice("t", "b", "q", 1, "d0")}},
		{"for all", "drv/p/d0 drv/p/d1; drv/p/d0 drv/p/d1", []*model.ResourceSlice{slice("s", "*", "p", 1, "d0", "d1")}},
		{"by label", "; drv/p/d0", []*model.ResourceSlice{slice("s", "name=b", "p", 1, "d0")}},
		{"two nodes", "drv/p/d0; drv/p/d1", []*model.ResourceSlice{slice("s", "a", "p", 1, "d0"), slice("t", "b", "p", 1, "d1")}},
		{"a name and a selector in one pool", "drv/p/d0 drv/p/d1; drv/p/d1", []*model.ResourceSlice{slice("s", "a", "p", 1, "d0"), slice("t", "*", "p", 1, "d1")}},
		{"its own before wide ones", "drv/z/d0 drv/p/d1; drv/p/d1", []*model.ResourceSlice{slice("s", "a", "z", 1, "d0"), slice("t", "*", "p", 1, "d1")}},
		{"of each generation", "drv/p/d0 drv/p/d1; drv/p/d0 drv/p/d1", []*model.ResourceSlice{slice("s", "*", "p", 1, "d0"), slice("t", "*", "p", 2, "d1")}},
		{"not for each device", "drv/p/d0; drv/p/d0", []*model.ResourceSlice{notPerDevice}},
		{"for each device", "drv/p/d0 drv/p/d2; drv/p/d1 drv/p/d2", []*model.ResourceSlice{each(
			resourcev1.Device{Name: "d0", NodeName: ptr.To("a")}, resourcev1.Device{Name: "d1", NodeName: ptr.To("b")}, resourcev1.Device{Name: "d2", AllNodes: ptr.To(true)},
			resourcev1.Device{Name: "d3", NodeSelector: zone(v1.NodeSelectorOpIn, "c")}, resourcev1.Device{Name: "d4"}, resourcev1.Device{Name: "d5", AllNodes: ptr.To(false)},
		)}},
		{"one device for the nodes of one label", "; drv/p/d0", []*model.ResourceSlice{each(resourcev1.Device{Name: "d0", NodeSelector: zone(v1.NodeSelectorOpIn, "b")})}},
		{
			"a selector that cannot be read", "error: the slice s says in a way that cannot be read which nodes can use it; error: the slice s says in a way that cannot be read which nodes can use it",
			[]*model.ResourceSlice{each(resourcev1.Device{Name: "d0", AllNodes: ptr.To(true)}, resourcev1.Device{Name: "d1", NodeSelector: zone("Bad", "b")}), slice("t", "*", "p", 1, "e0")},
		},
		{"nobody reads a selector beside a name", "drv/p/d0; ", []*model.ResourceSlice{each(resourcev1.Device{Name: "d0", NodeName: ptr.To("a"), NodeSelector: zone("Bad", "b")})}},
	} {
		r := newRecorder(t, "a", "b")
		for _, s := range row.slices {
			r.Set(s)
		}
		if got := r.usable(0); got != row.want {
			t.Errorf("%s: %q, want %q", row.what, got, row.want)
		}
		r.mustBeSound(t)
	}
	r := newRecorder(t, "a")
	for i, s := range []*model.ResourceSlice{slice("s", "a", "p", 1, "d0"), slice("t", "a", "q", 1, "d1"), slice("u", "*", "r", 1, "d2"), slice("v", "*", "r", 1, "d3")} {
		r.Set(s)
		var names []string
		for _, slice := range r.SlicesAt(0, []*resourcev1.ResourceSlice{{}}) {
			names = append(names, slice.Name)
		}
		if want := []string{"", "s", "t", "u", "v"}[:2+i]; !slices.Equal(names, want) {
			t.Errorf("slices %q, want %q", names, want)
		}
	}
	for stopAt, want := range []string{"drv/p/d0 drv/q/d1 drv/r/d2 drv/r/d3", "drv/p/d0", "drv/p/d0 drv/q/d1", "drv/p/d0 drv/q/d1 drv/r/d2"} {
		if got := r.usable(stopAt); got != want {
			t.Errorf("who stops after %d slices has seen %q, want %q", stopAt, got, want)
		}
	}
}

// The keys of nodes distinguish the selections of the node, the positions of its own
// pools among wide ones, and the use.
func TestKeysOfWidePools(t *testing.T) {
	key := func(objects ...model.Compiled) string {
		r := newRecorder(t, "a")
		for _, o := range objects {
			r.Set(o)
		}
		r.mustBeSound(t)
		return string(r.AppendKey([]byte("x"), 0))
	}
	invalid := changed(slice("s", "name=a", "p", 1, "d0", "d1"), func(s *resourcev1.ResourceSlice) { s.Spec.NodeSelector = zone("Bad", "a") })
	two := func(first, second string) []model.Compiled {
		return []model.Compiled{slice("s", first, "p", 1, "d0"), slice("t", second, "p", 1, "d1")}
	}
	wide := slice("s", "*", "p", 1, "d0", "d1")
	share := func(name, memory string) *model.ResourceClaim {
		c := claimOf("c", "1", "p/d0#s").Object.DeepCopy()
		c.Status.Allocation.Devices.Results[0].ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{resourcev1.QualifiedName(name): resource.MustParse(memory)}
		return model.NewResourceClaim(c)
	}
	seen := map[string]string{}
	for what, of := range map[string][]model.Compiled{
		"nothing": nil, "for all": {wide}, "invalid": {invalid}, "the first": two("a", "b"), "the second": two("b", "a"), "both": two("a", "*"),
		"own before": {wide, slice("o", "a", "a", 1, "d0")}, "own behind": {wide, slice("o", "a", "q", 1, "d0")},
		"d0 in use": {wide, claimOf("c", "1", "p/d0")}, "d1 in use": {wide, claimOf("c", "1", "p/d1")}, "both in use": {wide, claimOf("c", "1", "p/d0", "p/d1")},
		"a share": {wide, share("memory", "1Gi")}, "a larger share": {wide, share("memory", "2Gi")}, "of something else": {wide, share("cores", "1Gi")},
		"shared and in use": {wide, share("memory", "1Gi"), claimOf("d", "2", "p/d0")},
	} {
		k := key(of...)
		if other := seen[k]; other != "" || k[0] != 'x' {
			t.Errorf("%s and %s have the same key", what, other)
		}
		seen[k] = what
	}
}

// Slots are moved and cut off like the state's nodes.
func TestSlots(t *testing.T) {
	r := newRecorder(t, "a", "b", "c")
	r.Set(slice("s", "c", "p", 1, "d0"))
	r.Set(slice("w", "name=c", "wide", 1, "d0"))
	want := string(r.AppendKey(nil, 2))
	r.Unseat(0)
	r.Move(2, 0)
	if got := string(r.AppendKey(nil, 0)); got != want || r.bySlot[2] != nil {
		t.Errorf("the key is %q where the node has moved to, want %q", got, want)
	}
	if r.take(); r.Remove(model.Ref{Kind: model.ResourceSliceKind, Name: "s"}) == nil || !slices.Equal(r.take(), []int32{0}) {
		t.Error("a change is not reported for the slot where the node has moved to")
	}
	r.mustBeSound(t)
	r.Cut(2)
	if len(r.bySlot) != 2 || r.bySlot[:3][2] != nil {
		t.Errorf("%d slots are left of 2", len(r.bySlot))
	}
	r.mustBeSound(t)
	for _, row := range []struct{ slots, left, room int }{{2048, 2, 2048}, {2049, 2, 2}, {5000, 2500, 5000}, {5001, 2500, 2500}} {
		r := newRecorder(t)
		r.bySlot = make([]*node, row.slots)
		last := &node{}
		r.bySlot[row.left-1] = last
		if r.Cut(row.left); len(r.bySlot) != row.left || cap(r.bySlot) < row.room || row.room < row.slots && cap(r.bySlot) >= row.slots || r.bySlot[row.left-1] != last {
			t.Errorf("of %d slots %d are left, with room for %d, want %d, %d", row.slots, len(r.bySlot), cap(r.bySlot), row.left, row.room)
		}
	}
}

// A node without a slot can use no wide pool.
func TestUnseated(t *testing.T) {
	r := newRecorder(t, "a", "b")
	r.Set(slice("w", "*", "p", 1, "d0"))
	if kept := r.Sizes(); kept.Alike != 1 || kept.Nodes != 2 || kept.Wide != 1 {
		t.Errorf("%+v", kept)
	}
	r.Unseat(1)
	for list := range r.AlikeSince(0) {
		if slots := list.AppendSlots([]int32{7}); !slices.Equal(slots, []int32{7, 0}) || list.One() != 0 {
			t.Errorf("slots %v can use the pool, one of them is %d", slots, list.One())
		}
	}
	r.Unseat(0)
	if kept := r.Sizes(); kept.Alike != 0 || kept.Nodes != 0 {
		t.Errorf("%+v", kept)
	}
	for range r.AlikeSince(0) {
		t.Error("a list has no nodes")
	}
}

// Maps that were large release their memory.
func TestShrink(t *testing.T) {
	r := newRecorder(t)
	const many = 1100
	device := func(i int) (pool, device string) { return fmt.Sprint("p", i), fmt.Sprintf("p%d/d0", i) }
	for i := range many {
		pool, id := device(i)
		node := fmt.Sprint("n", i)
		r.Seat(int32(i), node)
		r.SetNode(int32(i), true, map[string]string{"name": node})
		// No two nodes are equal.
		r.Set(changed(slice(pool, node, pool, 1, "d0"), func(s *resourcev1.ResourceSlice) { s.Spec.Pool.ResourceSliceCount = int64(i) }))
		r.Set(rule(pool, &pool, nil))
		r.Set(madeClaim(fmt.Sprint("made", i), types.UID(fmt.Sprint("pod", i))))
		r.Set(claimOf(fmt.Sprint("own", i), "1", id))
		r.Set(claimOf(fmt.Sprint("shared", i), "1", id+"#"+pool))
	}
	r.Set(slice("wide", "*", "wide", 1))
	sizes := func() [10]int {
		p := r.peaks
		return [10]int{p.claims, p.made, p.slices, p.rules, p.rulesOf, p.pools, p.nodes, p.users, p.sharers, p.alike}
	}
	r.Shrink()
	if got, want := sizes(), [10]int{3 * many, many, many + 1, many, many, many + 1, many, many, many, many}; got != want {
		t.Errorf("sizes are %v, want %v", got, want)
	}
	for i := range many - 1 {
		pool, _ := device(i)
		for _, claim := range []string{"made", "own", "shared"} {
			r.Remove(model.ClaimKey{Namespace: "ns", Name: fmt.Sprint(claim, i)}.DeviceRef())
		}
		r.Remove(model.Ref{Kind: model.ResourceSliceKind, Name: pool})
		r.Remove(model.Ref{Kind: model.DeviceTaintRuleKind, Name: pool})
		r.SetNode(int32(i), false, nil)
		r.Unseat(int32(i))
	}
	r.Shrink()
	if got, want := sizes(), [10]int{3, 1, 2, 1, 1, 2, 1, 1, 1, 1}; got != want {
		t.Errorf("sizes are %v, want %v", got, want)
	}
	r.mustBeSound(t)
}

// Work is counted as it is done.
func TestWork(t *testing.T) {
	r := newRecorder(t, "a", "b")
	for _, step := range []struct {
		what string
		do   func()
		want Work
	}{
		{"a local pool is described, and its two devices", func() { r.Set(slice("s", "a", "p", 1, "d0", "d1")) }, Work{Described: 3, Touched: 1}},
		{"of two allocated devices both are counted, and the pool's described", func() { r.Set(claimOf("c", "1", "p/d0", "p/d1")) }, Work{Described: 2, Counted: 2, Touched: 1}},
		{"a wide pool is matched against both nodes", func() { r.Set(slice("w", "*", "wide", 1, "d0", "d1")) }, Work{Described: 3, Matched: 2, Touched: 2}},
		{"of it the device is described", func() { r.Set(claimOf("d", "1", "wide/d0")) }, Work{Described: 1, Counted: 1}},
		{"a device of an unknown pool", func() { r.Set(claimOf("e", "1", "x/d0")) }, Work{Counted: 1}},
		{"the node is matched", func() { r.SetNode(0, true, nil) }, Work{Matched: 1}},
	} {
		before := r.Work()
		step.do()
		after := r.Work()
		got := Work{after.Described - before.Described, after.Counted - before.Counted, after.Matched - before.Matched, after.Touched - before.Touched}
		if got != step.want {
			t.Errorf("%s: %+v, want %+v", step.what, got, step.want)
		}
	}
}

// A claim that a placement will create is awaited until a version of it has been stored.
// The end of the placement breaks the promise.
func TestAwaited(t *testing.T) {
	r := newRecorder(t, "a")
	made := claimOf("c", "1").Object
	promise, pod := &Promise{Allocation: allocation("p/d0"), Made: made}, model.PodKey{Namespace: "ns", Name: "pod"}
	key := promise.Key()
	if key != (model.ClaimKey{Namespace: "ns", Name: "c"}) || r.IsAwaited(key) {
		t.Errorf("%v is awaited: %t", key, r.IsAwaited(key))
	}
	r.Hold(model.Ref{Kind: model.ResourceSliceKind, Name: "c"}, pod, promise)
	r.Hold(key.DeviceRef(), pod, otherValue{})
	if r.IsPromised(key) || r.Sizes().Claims != 0 {
		t.Error("other holds are promises")
	}
	r.Hold(key.DeviceRef(), pod, promise)
	if !r.IsAwaited(key) || !r.IsPromised(key) {
		t.Errorf("awaited %t, promised %t", r.IsAwaited(key), r.IsPromised(key))
	}
	r.Set(claimOf("c", "1"))
	if r.IsAwaited(key) || !r.IsPromised(key) {
		t.Errorf("a version is stored: awaited %t, promised %t", r.IsAwaited(key), r.IsPromised(key))
	}
	r.Remove(key.DeviceRef())
	if r.IsAwaited(key) {
		t.Error("a claim is awaited that came and went")
	}
	if broken, of := r.Release(model.Ref{Kind: model.ResourceSliceKind, Name: "c"}, pod); broken != nil || of != nil {
		t.Errorf("what is no claim breaks %v of %v", broken, of)
	}
	if broken, of := r.Release(key.DeviceRef(), model.PodKey{Name: "other"}); broken != nil || of != nil {
		t.Errorf("another pod breaks %v of %v", broken, of)
	}
	if broken, of := r.Release(key.DeviceRef(), pod); broken != promise || of != nil || r.Sizes().Claims != 0 {
		t.Errorf("the end breaks %v of %v", broken, of)
	}
	now := claimOf("c", "1")
	r.Set(now)
	r.Hold(key.DeviceRef(), pod, &Promise{UID: "1", Allocation: allocation("p/d0")})
	if r.IsAwaited(key) {
		t.Error("a claim is awaited that exists")
	}
	r.Remove(key.DeviceRef())
	r.Set(now)
	if broken, of := r.Release(key.DeviceRef(), pod); broken == nil || of != now {
		t.Errorf("the end breaks %v of %v", broken, of)
	}
	r.Hold(key.DeviceRef(), pod, promise)
	if r.IsAwaited(key) {
		t.Error("a claim is awaited of which a version is stored")
	}
}

// A placement that will create a claim again awaits it again, although a claim of that
// name existed before.
func TestAwaitedAgain(t *testing.T) {
	r := newRecorder(t, "a")
	promise := &Promise{Allocation: allocation("p/d0"), Made: claimOf("c", "1").Object}
	r.Hold(promise.Key().DeviceRef(), model.PodKey{Name: "p"}, promise)
	r.Set(claimOf("c", "1"))
	r.Remove(promise.Key().DeviceRef())
	if r.Hold(promise.Key().DeviceRef(), model.PodKey{Name: "q"}, promise); !r.IsAwaited(promise.Key()) {
		t.Error("the claim is not awaited")
	}
}

// Devices with admin access are not in use, and change nothing for the node.
func TestAdministrators(t *testing.T) {
	r := newRecorder(t, "a")
	r.Set(slice("s", "a", "p", 1, "d0", "d1"))
	free := string(r.AppendKey(nil, 0))
	c := claimOf("c", "1", "p/d0", "p/d1").Object.DeepCopy()
	c.Status.Allocation.Devices.Results[0].AdminAccess, c.Status.Allocation.Devices.Results[1].AdminAccess = ptr.To(true), ptr.To(false)
	r.Set(model.NewResourceClaim(c))
	if r.InUse(r.idOf("p/d0")) || !r.InUse(r.idOf("p/d1")) || string(r.AppendKey(nil, 0)) == free || r.Work().Counted != 1 {
		t.Errorf("d0 is in use: %t, d1: %t; %d devices were counted", r.InUse(r.idOf("p/d0")), r.InUse(r.idOf("p/d1")), r.Work().Counted)
	}
	if state := AllocatedBy(slices.Values([]*resourcev1.AllocationResult{c.Status.Allocation})); len(state.AllocatedDevices) != 1 {
		t.Errorf("allocated are %v", state.AllocatedDevices)
	}
}

// Refs stops when yield returns false.
func TestRefsStop(t *testing.T) {
	r := newRecorder(t, "a")
	for i := range 3 {
		r.Set(classOf(fmt.Sprint("class", i), "", 1))
		r.Set(slice(fmt.Sprint("slice", i), "a", fmt.Sprint("p", i), 1))
		r.Set(claimOf(fmt.Sprint("claim", i), "1"))
	}
	if r.Class("class1") == nil || r.Class("none") != nil {
		t.Error("classes are not known by name")
	}
	for stopAt := 1; stopAt <= 9; stopAt++ {
		seen := map[model.Ref]bool{}
		for ref := range r.Refs {
			if seen[ref] = true; len(seen) == stopAt {
				break // another call of yield would panic
			}
		}
		if len(seen) != stopAt {
			t.Errorf("%d objects are seen of the first %d", len(seen), stopAt)
		}
	}
}

// Each invariant that is violated by hand is reported.
func TestAuditReports(t *testing.T) {
	pod := model.PodKey{Namespace: "ns", Name: "pod"}
	held := model.ClaimKey{Namespace: "ns", Name: "held"}
	for i, row := range []struct {
		want string
		do   func(r *recorder)
	}{
		{"", func(*recorder) {}},
		{"is kept, and should not be", func(r *recorder) { r.sharers[r.idOf("p/d7")] = 1 }},
		{"is not kept", func(r *recorder) { delete(r.users, r.idOf("p/d0")) }},
		{"is not kept", func(r *recorder) { delete(r.sharers, r.idOf("wide/d1")) }},
		{"is not kept", func(r *recorder) { clear(r.allocated.AllocatedSharedDeviceIDs) }},
		{"is not kept", func(r *recorder) { clear(r.allocated.AggregatedCapacity) }},
		{"2 users, allocated true, recounted 1 users", func(r *recorder) { r.users[r.idOf("p/d0")] = 2 }},
		{"allocated false", func(r *recorder) { r.allocated.AllocatedDevices.Delete(r.idOf("p/d0")) }},
		{"without users", func(r *recorder) { r.allocated.AllocatedDevices.Insert(r.idOf("p/d7")) }},
		{"1Gi", func(r *recorder) {
			for _, consumed := range r.allocated.AggregatedCapacity {
				more := resource.MustParse("2Gi")
				consumed["memory"] = &more
			}
		}},
		{"which does not hold them", func(r *recorder) { r.claims[held].holders[0].Name = "other" }},
		{"a at 5", func(r *recorder) { r.bySlot[0].slot = 5 }},
		{"slot 1", func(r *recorder) { r.bySlot[1] = nil }},
		{"node a", func(r *recorder) { r.nodes["a"].key += "x" }},
		{"node a", func(r *recorder) { r.nodes["a"].pools = nil }},
		{"can use", func(r *recorder) { r.nodes["a"].wide[0].selected = "x" }},
		{"listed false", func(r *recorder) { r.nodes["b"].at = 9 }},
		{"listed false", func(r *recorder) {
			r.nodes["b"].alike = &Alike{key: r.nodes["b"].alike.key, nodes: []*node{r.nodes["b"]}}
		}},
		{"listed false", func(r *recorder) { r.nodes["b"].alike.nodes[0] = r.nodes["a"] }},
		{"of 2 nodes", func(r *recorder) { a := r.nodes["b"].alike; a.nodes = append(a.nodes, nil) }},
		{"list", func(r *recorder) { clear(r.alike) }},
		{"local false", func(r *recorder) { r.pools[PoolID{"drv", "p"}].local = nil }},
		{"too new true", func(r *recorder) { r.wideVersion = 0 }},
		{"in use", func(r *recorder) { r.pools[PoolID{"drv", "p"}].inUse = "" }},
		{"pool", func(r *recorder) { p := r.pools[PoolID{"drv", "p"}]; p.published[0] = slice("other", "a", "p", 1) }},
		{"wide pool", func(r *recorder) { r.wide[0].users = nil }},
		{"wide pool", func(r *recorder) { r.wide = nil }},
		{"rules of", func(r *recorder) { clear(r.rulesOf) }},
		{"classes for", func(r *recorder) { clear(r.standIns) }},
		{"claims made for", func(r *recorder) { clear(r.made) }},
		{"claim ns/none is kept", func(r *recorder) { r.claims[model.ClaimKey{Namespace: "ns", Name: "none"}] = &claim{} }},
	} {
		r := newRecorder(t, "a", "b")
		r.Set(slice("s", "a", "p", 1, "d0", "d1"))
		r.Set(slice("w", "*", "wide", 1, "d0", "d1"))
		r.Set(rule("r", ptr.To("p"), nil))
		r.Set(classOf("gpu", "example.com/gpu", 1))
		r.Set(madeClaim("made", "pod"))
		r.Set(claimOf("c", "1", "p/d0", "wide/d1#s"))
		r.Set(claimOf("held", "2"))
		r.Hold(held.DeviceRef(), pod, &Promise{UID: "2", Allocation: allocation("p/d1")})
		seats := []Seat{{"a", true, map[string]string{"name": "a"}}, {"b", true, map[string]string{"name": "b"}}}
		row.do(r)
		var v audit.Violations
		r.Audit(&v, seats, func(_ model.Ref, holder model.PodKey, _ plan.Held) bool { return holder == pod })
		if err := v.Err(); row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%d: %v, want %q", i, err, row.want)
		}
	}
}

// idOf returns the identifier of a device, which is written POOL/DEVICE.
func (*recorder) idOf(device string) structured.DeviceID {
	pool, name, _ := strings.Cut(device, "/")
	return structured.MakeDeviceID("drv", pool, name)
}
