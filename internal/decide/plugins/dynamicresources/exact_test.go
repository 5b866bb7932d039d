package dynamicresources

import (
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// TestAskedForExtendedResources has pods that request a device of a class as an extended
// resource, in a container or only in the overhead. For the latter no claim is created,
// and no device helps it.
func TestAskedForExtendedResources(t *testing.T) {
	w := newWorld(t, byName("gpu", "example.com/gpu", 0), slice("a", "d0"))
	overhead := requesting("p", "c cpu=1").Object.DeepCopy()
	overhead.Spec.Overhead = build.Resources("example.com/gpu=1")
	if got := w.plugin.AskedIn(w.View(), model.NewPod(overhead)); got != nothing {
		t.Errorf("by its overhead alone a pod asks for %s", got)
	}
	if got := w.plugin.AskedIn(w.View(), requesting("p", "c example.com/gpu=1")); !isKnown(got) || !strings.Contains(got.String(), `"deviceClassName":"gpu"`) {
		t.Errorf("for one device a pod asks for %s", got)
	}
}

// TestCauseNamesEachDriverOnce has a pod with two requests for devices of one driver.
func TestCauseNamesEachDriverOnce(t *testing.T) {
	const drv, other = `device.driver == "drv"`, `device.driver == "other"`
	w := newWorld(t, class("drv", drv), class("other", other),
		claim("c", 1, ofClass("drv")), claim("d", 1, ofClass("other")), claim("e", 1, ofClass("drv", drv)))
	got := w.plugin.hints.cause(w.plugin.AskedIn(w.View(), pod("p", "c", "d", "e")), true)
	if len(got.Keys) != 2 || got.Keys[0] != driverKey("drv") || got.Keys[1] != driverKey("other") {
		t.Errorf("the cause has the keys %v", got.Keys)
	}
}

// TestReserveFails has a search that fails when a pod is placed. The error is the
// search's.
func TestReserveFails(t *testing.T) {
	incomplete := slice("b", "d0")
	incomplete.Spec.Pool.ResourceSliceCount = 2
	w := newWorld(t, incomplete, claim("c", 1, func(c *resourcev1.ResourceClaim) {
		c.Spec.Devices.Requests[0].Exactly.AllocationMode, c.Spec.Devices.Requests[0].Exactly.Count = resourcev1.DeviceAllocationModeAll, 0
	}))
	if _, err := w.place(t, pod("p", "c"), "b"); !strings.Contains(errorText(err), "is currently being updated") {
		t.Errorf("error %v", err)
	}
}

// TestSameDevices has allocations that differ in one field.
func TestSameDevices(t *testing.T) {
	result := func(change func(*resourcev1.DeviceRequestAllocationResult)) *resourcev1.AllocationResult {
		r := resourcev1.DeviceRequestAllocationResult{Request: "r", Driver: "drv", Pool: "pool", Device: "d0", ShareID: new(types.UID("s"))}
		change(&r)
		return &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{r}}}
	}
	one := result(func(*resourcev1.DeviceRequestAllocationResult) {})
	for _, row := range []struct {
		name   string
		change func(*resourcev1.DeviceRequestAllocationResult)
		same   bool
	}{
		{"nothing", func(*resourcev1.DeviceRequestAllocationResult) {}, true},
		{"the request", func(r *resourcev1.DeviceRequestAllocationResult) { r.Request = "q" }, false},
		{"the driver", func(r *resourcev1.DeviceRequestAllocationResult) { r.Driver = "q" }, false},
		{"the pool", func(r *resourcev1.DeviceRequestAllocationResult) { r.Pool = "q" }, false},
		{"the device", func(r *resourcev1.DeviceRequestAllocationResult) { r.Device = "q" }, false},
		{"the share", func(r *resourcev1.DeviceRequestAllocationResult) { r.ShareID = new(types.UID("q")) }, false},
		{"what has no part in it", func(r *resourcev1.DeviceRequestAllocationResult) { r.BindingConditions = []string{"Ready"} }, true},
	} {
		if got := sameDevices(one, result(row.change)); got != row.same {
			t.Errorf("with another version of %s: %t", row.name, got)
		}
	}
	if sameDevices(one, &resourcev1.AllocationResult{}) {
		t.Error("an allocation of nothing is that of a device")
	}
}

// TestNeedsOfClasses has classes of the same name that select different devices.
func TestNeedsOfClasses(t *testing.T) {
	textOf := func(expressions ...string) string {
		c := byName("gpu", "example.com/gpu", 0)
		c.Spec.Selectors = selecting(expressions...)
		found, err := newWorld(t, c).plugin.FilterNeedIn(newWorld(t, c).View(), requesting("p", "c example.com/gpu=1"))
		need, rejection := found.Need, found.Rejection
		if err != nil || rejection != "" {
			t.Fatal(rejection, err)
		}
		return string(need.AppendText(nil))
	}
	if textOf(`device.driver == "a"`) == textOf(`device.driver == "b"`) {
		t.Error("the needs are equal, and the devices of the class are not")
	}
}

// TestAllocationOfAMadeClaim has the claim for extended resources allocated meanwhile.
// That allocation is not overwritten. The write goes to the claim's status.
func TestAllocationOfAMadeClaim(t *testing.T) {
	w := newWorld(t, byName("gpu", "example.com/gpu", 0), slice("a", "d0"))
	placement, err := w.place(t, requesting("p", "c example.com/gpu=1"), "a")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"", "", "status", "status"} {
		if got := placement.Steps[i].Write.Subresource; got != want {
			t.Errorf("write %d goes to %q, want %q", i, got, want)
		}
	}
	mine := claim("x", 1, func(c *resourcev1.ResourceClaim) {
		c.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "p", UID: "uid-p", Controller: new(true)}}
		c.Finalizers = []string{resourcev1.Finalizer}
	})
	if now, err := stored(t, mine, placement.Steps[2].Write); err != nil || describe(now) != "has a-pool/d0 for p, kept" {
		t.Errorf("%v: %v", now, err)
	}
	taken := mine.DeepCopy()
	allocated("b", "d9")(taken)
	if _, err := stored(t, taken, placement.Steps[2].Write); err == nil {
		t.Error("the allocation of another is overwritten")
	}
}

// TestNameOfMadeIsShort has a pod with the longest possible name. The claim's name has at
// most 63 characters.
func TestNameOfMadeIsShort(t *testing.T) {
	w := newWorld(t)
	for length, want := range map[int]int{1: 1 + len("-extended-resources-") + 5, 38: 63, 39: 63, 253: 63} {
		p := pod(strings.Repeat("p", length))
		if got := nameOfMade(w.View(), p); len(got) != want || !strings.HasPrefix(got, p.Name[:min(length, 58)]) {
			t.Errorf("a pod's name of %d characters gives %s, %d characters, want %d", length, got, len(got), want)
		}
	}
}

// TestRequestsOf stops at a request or an alternative when yield returns false.
func TestRequestsOf(t *testing.T) {
	c := &resourcev1.ResourceClaim{}
	c.Spec.Devices.Requests = []resourcev1.DeviceRequest{
		{Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"}},
		{Name: "two", FirstAvailable: []resourcev1.DeviceSubRequest{{Name: "x", DeviceClassName: "nic"}, {Name: "y", DeviceClassName: "tpu"}}},
		{Name: "three"},
		{Name: "four", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "npu"}},
	}
	all := []string{"one gpu true", "two/x nic true", "two/y tpu true", "three  false", "four npu true"}
	for limit := 1; limit <= len(all); limit++ {
		var got []string
		requestsOf(c, func(name, class string, known bool) bool {
			text := name + " " + class + " false"
			if known {
				text = name + " " + class + " true"
			}
			got = append(got, text)
			return len(got) < limit
		})
		if strings.Join(got, ", ") != strings.Join(all[:limit], ", ") {
			t.Errorf("%d requests: %q", limit, got)
		}
	}
}

// TestBrokenSelectorOfAnAllocation has an allocation with a malformed node selector.
func TestBrokenSelectorOfAnAllocation(t *testing.T) {
	w := newWorld(t, claim("c", 1, allocated("a", "d0"), func(c *resourcev1.ResourceClaim) {
		c.Status.Allocation.NodeSelector.NodeSelectorTerms[0].MatchFields[0].Operator = "Near"
	}))
	if got := w.filter(t, pod("p", "c")); !strings.HasPrefix(got, "error: ") || !strings.Contains(got, "Near") {
		t.Errorf("%s", got)
	}
}

// TestSkips has pods that request devices, may do so by a class, and cannot.
func TestSkips(t *testing.T) {
	for _, row := range []struct {
		name string
		pod  *model.Pod
		want bool
	}{
		{"a claim", pod("p", "c"), false},
		{"nothing", pod("p"), true},
		{"an extended resource", requesting("p", "c example.com/gpu=1"), false},
		{"none of an extended resource", requesting("p", "c example.com/gpu=0"), true},
		{"huge pages", requesting("p", "c cpu=1 hugepages-2Mi=2Mi"), true},
	} {
		if got := defaults().Skips(row.pod); got != row.want {
			t.Errorf("%s: %t", row.name, got)
		}
	}
}

// TestIsKnown has the kinds of needs.
func TestIsKnown(t *testing.T) {
	for need, want := range map[model.Need]bool{nothing: false, anything: false, model.NeedOf("[]"): true} {
		if isKnown(need) != want {
			t.Errorf("%v is known: %t", need, !want)
		}
	}
}
