package rig

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// TestHistoryFindsWhatIsWrong plays versions of claims and pods in short form. "3 c gpu-0
// p" is revision 3, in which claim c has device gpu-0 and is reserved for pod p. "4 c -"
// is its deletion. "5 p" binds pod p, which uses claim c.
func TestHistoryFindsWhatIsWrong(t *testing.T) {
	for _, test := range []struct {
		versions, want string
	}{
		{"1 c gpu-0 p,2 p", ""},
		{"1 c gpu-0 p,2 d gpu-1 q", ""},
		{"1 c gpu-0 p,2 d gpu-0 q", "revision 2: claim d gets d.example/n/gpu-0, which claim c has"},
		{"1 c gpu-0 p,2 c,3 d gpu-0 q", ""},
		{"1 c gpu-0 p,2 c gpu-0 p,3 c -,4 d gpu-0 q", ""},
		{"1 c gpu-0 p,2 c gpu-1 p,3 d gpu-0 q", ""},
		{"1 c,2 p", `revision 2: pod p was bound to n, and its claim "c" has no devices`},
		{"2 p,3 c gpu-0 p", `revision 2: pod p was bound to n, and its claim "c" does not exist`},
		{"1 c gpu-0 p,2 c -,3 p", `revision 3: pod p was bound to n, and its claim "c" does not exist`},
		{"1 c gpu-0 q,2 p", `revision 2: pod p was bound to n, and its claim "c" is not reserved for the pod`},
		{"1 c far/gpu-0 p,2 p", `revision 2: pod p was bound to n, and its claim "c" has d.example/far/gpu-0`},
		{"1 c gpu-0?attached p,2 p", `revision 2: pod p was bound to n, and its claim "c" has d.example/n/gpu-0 without attached`},
		{"1 c gpu-0?attached p,2 p,3 c gpu-0!attached p", `revision 2: pod p was bound to n, and its claim "c" has d.example/n/gpu-0 without attached`},
		{"1 c gpu-0!attached p,2 p,3 p", ""},
	} {
		h := newHistory()
		for version := range strings.SplitSeq(test.versions, ",") {
			h.see(played(strings.Fields(version)))
		}
		wrong := append(h.UsedTwice(), h.BoundTooEarly(func(pool, node string) bool { return pool == node })...)
		if got := strings.Join(wrong, "; "); got != test.want || h.Failure() != nil {
			t.Errorf("%s: got %q, want %q; %v", test.versions, got, test.want, h.Failure())
		}
	}
}

// TestHistoryOfDevices plays versions in the same form, and counts the devices of pods at
// their binding.
func TestHistoryOfDevices(t *testing.T) {
	for _, test := range []struct {
		versions string
		want     []int // nil if the pod is not bound
	}{
		{"1 c gpu-0 p", nil},
		{"1 c gpu-0 p,2 p", []int{1}},
		{"1 c,2 p,3 c gpu-0 p", []int{0}},
		{"2 p", []int{0}},
		{"1 c gpu-0 p,2 c -,3 p", []int{0}},
	} {
		h := newHistory()
		for version := range strings.SplitSeq(test.versions, ",") {
			h.see(played(strings.Fields(version)))
		}
		var got []int
		for _, got = range h.Bound() {
		}
		if !slices.Equal(got, test.want) || len(h.Bound()) != min(1, len(test.want)) {
			t.Errorf("%s: the pod has %v, want %v", test.versions, got, test.want)
		}
	}
}

// TestHistoryOfMaking finds the time of the first version of pods' claims, but not of
// claims without a pod.
func TestHistoryOfMaking(t *testing.T) {
	h := newHistory()
	began, controls := time.Now(), true
	for _, claim := range []metav1.ObjectMeta{
		{Name: "free", UID: "1", ResourceVersion: "1"},
		{Name: "p-gpu", UID: "2", ResourceVersion: "2", OwnerReferences: []metav1.OwnerReference{{Name: "p", Controller: &controls}}},
	} {
		h.see(watch.Event{Type: watch.Added, Object: &resourcev1.ResourceClaim{ObjectMeta: claim}})
	}
	first := h.Made()["p"]
	h.see(watch.Event{Type: watch.Modified, Object: &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "p-gpu", UID: "2", ResourceVersion: "3", OwnerReferences: []metav1.OwnerReference{{Name: "p", Controller: &controls}},
	}}})
	if made := h.Made(); len(made) != 1 || first.Before(began) || made["p"] != first {
		t.Errorf("claims were made at %v, first that of p at %v", made, first)
	}
}

// played makes an event of a version. "?" precedes a binding condition that is not met,
// "!" a condition that is.
func played(fields []string) watch.Event {
	meta := metav1.ObjectMeta{Name: fields[1], UID: types.UID(fields[1]), ResourceVersion: fields[0]}
	if fields[1] == "p" {
		claimName := "c"
		return watch.Event{Type: watch.Modified, Object: &v1.Pod{ObjectMeta: meta, Spec: v1.PodSpec{
			NodeName: "n", ResourceClaims: []v1.PodResourceClaim{{ResourceClaimName: &claimName}},
		}}}
	}
	claim := &resourcev1.ResourceClaim{ObjectMeta: meta}
	if len(fields) == 3 {
		return watch.Event{Type: watch.Deleted, Object: claim}
	}
	if len(fields) == 4 {
		r := resourcev1.DeviceRequestAllocationResult{Driver: "d.example", Pool: "n", Device: fields[2]}
		if pool, device, ok := strings.Cut(r.Device, "/"); ok {
			r.Pool, r.Device = pool, device
		}
		for _, mark := range []string{"?", "!"} {
			device, condition, ok := strings.Cut(r.Device, mark)
			if !ok {
				continue
			}
			r.Device, r.BindingConditions = device, []string{condition}
			if mark == "!" {
				claim.Status.Devices = []resourcev1.AllocatedDeviceStatus{{
					Driver: r.Driver, Pool: r.Pool, Device: r.Device, Conditions: []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue}},
				}}
			}
		}
		claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{r}}}
		claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: fields[3], UID: types.UID(fields[3])}}
	}
	return watch.Event{Type: watch.Modified, Object: claim}
}
