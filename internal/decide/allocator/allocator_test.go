package allocator

import (
	"errors"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// sliceOf returns a slice of a node's pool, with devices of these names.
func sliceOf(pool string, devices ...string) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: pool}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "x.drv", NodeName: ptr.To("n"), Pool: resourcev1.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: 1},
	}}
	for _, name := range devices {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: name})
	}
	return s
}

// claimOf returns a claim with one request, r, for devices of a class.
func claimOf(uid types.UID, class string, count int64) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: string(uid), UID: uid},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count},
		}}}},
	}
}

func question(slices []*resourcev1.ResourceSlice, claims ...*resourcev1.ResourceClaim) *Question {
	return &Question{
		Node: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, Claims: claims, Slices: slices, Allocated: allocatedOf(),
		Class: func(name string) *resourcev1.DeviceClass {
			if name != "gpu" {
				return nil
			}
			return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		},
	}
}

// allocatedOf returns the state in which devices of the pool p are allocated.
func allocatedOf(devices ...string) structured.AllocatedState {
	ids := sets.New[structured.DeviceID]()
	for _, d := range devices {
		ids.Insert(structured.MakeDeviceID("x.drv", "p", d))
	}
	return structured.AllocatedState{AllocatedDevices: ids}
}

// devicesOf returns the devices of each claim as text.
func devicesOf(results []resourcev1.AllocationResult) string {
	var claims []string
	for i := range results {
		var names []string
		for _, r := range results[i].Devices.Results {
			names = append(names, r.Pool+"/"+r.Device)
		}
		claims = append(claims, strings.Join(names, " "))
	}
	return strings.Join(claims, "; ")
}

func TestAllocate(t *testing.T) {
	two := []*resourcev1.ResourceSlice{sliceOf("p", "d0", "d1")}
	taken := question(two, claimOf("a", "gpu", 1))
	taken.Allocated = allocatedOf("d0")
	full := question(two, claimOf("a", "gpu", 1))
	full.Allocated = allocatedOf("d0", "d1")
	for _, row := range []struct {
		what    string
		q       *Question
		timeout time.Duration
		want    string
	}{
		{"a device for each claim", question(two, claimOf("a", "gpu", 1), claimOf("b", "gpu", 1)), 0, "p/d0; p/d1"},
		{"in time", question(two, claimOf("a", "gpu", 2)), time.Hour, "p/d0 p/d1"},
		{"what is allocated", taken, 0, "p/d1"},
		{"nothing is left", full, 0, ""},
		{"too few", question(two, claimOf("a", "gpu", 3)), 0, ""},
	} {
		results, err := New(Features{}, row.timeout).Allocate(row.q)
		if got := devicesOf(results); got != row.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", row.what, got, err, row.want)
		}
	}
}

// If devices cannot be shared, a device counts as taken if shares of it were allocated
// while sharing was enabled.
func TestSharesOfDevicesThatCannotBeShared(t *testing.T) {
	two := sliceOf("p", "d0", "d1", "d2")
	two.Spec.Devices[0].AllowMultipleAllocations = ptr.To(true)
	id, share := structured.MakeDeviceID("x.drv", "p", "d0"), types.UID("s")
	for _, row := range []struct {
		what     string
		features Features
		shares   bool
		want     string
	}{
		{"devices can be shared", Features{ConsumableCapacity: true}, true, "p/d0"},
		{"no device can be shared", Features{}, true, "p/d2"},
		{"no shares were allocated", Features{}, false, "p/d0"},
	} {
		q := question([]*resourcev1.ResourceSlice{two}, claimOf("a", "gpu", 1))
		q.Allocated = allocatedOf("d1")
		if row.shares {
			q.Allocated.AllocatedSharedDeviceIDs = sets.New(structured.MakeSharedDeviceID(id, &share))
		}
		q.InUse = func(of structured.DeviceID) bool {
			return row.shares && of == id || q.Allocated.AllocatedDevices.Has(of)
		}
		if results, err := New(row.features, 0).Allocate(q); devicesOf(results) != row.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", row.what, devicesOf(results), err, row.want)
		}
		if len(q.Allocated.AllocatedDevices) != 1 {
			t.Errorf("%s: the question was changed", row.what)
		}
	}
}

func TestSearchesThatFail(t *testing.T) {
	invalid := []*resourcev1.ResourceSlice{sliceOf("p", "d0"), sliceOf("p", "d0")}
	invalid[0].Spec.Pool.ResourceSliceCount, invalid[1].Spec.Pool.ResourceSliceCount = 2, 2
	for _, row := range []struct {
		what    string
		q       *Question
		timeout time.Duration
		is      error
		text    string
	}{
		{"a pool with two devices of a name", question(invalid, claimOf("a", "gpu", 1)), 0, ErrInvalidPools, "invalid resource pools were encountered"},
		{"no time", question([]*resourcev1.ResourceSlice{sliceOf("p", "d0", "d1")}, claimOf("a", "gpu", 3)), 1, ErrTimeout, "node n: timed out trying to allocate devices"},
	} {
		results, err := New(Features{}, row.timeout).Allocate(row.q)
		if !errors.Is(err, row.is) || err.Error() != row.text || results != nil {
			t.Errorf("%s: %v, %v, want %s", row.what, results, err, row.text)
		}
	}
	_, err := New(Features{}, 0).Allocate(question([]*resourcev1.ResourceSlice{sliceOf("p", "d0")}, claimOf("a", "none", 1)))
	if err == nil || errors.Is(err, ErrInvalidPools) || !strings.Contains(err.Error(), `deviceclass.resource.k8s.io "none" not found`) {
		t.Errorf("a class that does not exist: %v", err)
	}
}

// The library gets classes by name, and a missing class is the API server's error.
func TestClasses(t *testing.T) {
	c := classes{question(nil).Class}
	if class, err := c.Get("gpu"); err != nil || class.Name != "gpu" {
		t.Errorf("class gpu is %v, %v", class, err)
	}
	if class, err := c.Get("none"); class != nil || !apierrors.IsNotFound(err) || err.Error() != `deviceclass.resource.k8s.io "none" not found` {
		t.Errorf("class none is %v, %v", class, err)
	}
	if all, err := c.List(); all != nil || err == nil || err.Error() != "classes are asked for by name" {
		t.Errorf("all classes are %v, %v", all, err)
	}
}

// A device that many claims share is named the same way each time, and differently for
// each share.
func TestNamesOfShares(t *testing.T) {
	slice := sliceOf("p", "d0")
	slice.Spec.Devices[0].AllowMultipleAllocations = ptr.To(true)
	slice.Spec.Devices[0].Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("4Gi")}}
	claim := func(uid types.UID) *resourcev1.ResourceClaim {
		c := claimOf(uid, "gpu", 1)
		c.Spec.Devices.Requests[0].Exactly.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse("1Gi")}}
		return c
	}
	share := func(uid types.UID) types.UID {
		t.Helper()
		results, err := New(Features{ConsumableCapacity: true}, 0).Allocate(question([]*resourcev1.ResourceSlice{slice}, claim(uid)))
		if devicesOf(results) != "p/d0" || err != nil || results[0].Devices.Results[0].ShareID == nil {
			t.Fatalf("%+v, %v", results, err)
		}
		return *results[0].Devices.Results[0].ShareID
	}
	if first, again, other := share("a"), share("a"), share("b"); first != again || first == other {
		t.Errorf("shares of a: %s, %s; of b: %s", first, again, other)
	}

	name := func(claim types.UID, request, driver, pool, device string) types.UID {
		other := types.UID("random")
		r := resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "whole"}, {Request: request, Driver: driver, Pool: pool, Device: device, ShareID: &other},
		}}}
		nameShares(claim, &r)
		if r.Devices.Results[0].ShareID != nil {
			t.Error("a whole device is a share")
		}
		return *r.Devices.Results[1].ShareID
	}
	seen := map[types.UID]bool{}
	for _, id := range []types.UID{
		name("c", "r", "d", "p", "v"), name("x", "r", "d", "p", "v"), name("c", "x", "d", "p", "v"), name("c", "r", "x", "p", "v"), name("c", "r", "d", "x", "v"), name("c", "r", "d", "p", "x"),
	} {
		seen[id] = true
	}
	if len(seen) != 6 || !seen["60a2e7da-6b25-51b9-a9fe-592f6444363d"] {
		t.Errorf("shares have the names %v", seen)
	}
}
