package devices

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/internal/model"
)

// News names each added, changed or removed object and each promise, or reports all
// objects if these are too many.
func TestNews(t *testing.T) {
	r := newRecorder(t, "a")
	told := func() string {
		changed, all := r.News()
		var names []string
		for ref := range changed {
			names = append(names, ref.Name)
		}
		slices.Sort(names)
		return fmt.Sprint(all, " ", strings.Join(names, " "))
	}
	claim := claimOf("c", "1", "p/d0")
	r.Set(claim)
	if got := told(); got != "true " { // nothing is recorded before the first call
		t.Errorf("at first: %s", got)
	}
	later := model.ClaimKey{Namespace: "ns", Name: "later"}.DeviceRef()
	promise := &Promise{UID: "2", Allocation: allocation("p/d1", "p/d2#s")}
	pod := model.PodKey{Namespace: "ns", Name: "p"}
	for _, step := range []struct {
		does func()
		want string
	}{
		{func() {}, "false "},
		{func() { r.Set(slice("s", "a", "p", 1, "d0", "d1")); r.Set(claim) }, "false c s"},
		{func() { r.Hold(later, pod, promise) }, "false later"},
		{func() { r.Release(later, model.PodKey{Name: "another"}) }, "false "},
		{func() { r.Release(later, pod) }, "false later"},
		{func() { r.Remove(claim.Ref()); r.Set(rule("r", nil, ptr.To("d1"))) }, "false c r"},
		{func() {
			for i := range maxNews + 1 {
				r.Set(claimOf(fmt.Sprint(i), "1"))
			}
		}, "true "},
	} {
		step.does()
		if got := told(); got != step.want {
			t.Errorf("got %s, want %s", got, step.want)
		}
	}
	refs := map[model.Ref]bool{}
	for ref := range r.Refs {
		refs[ref] = true
	}
	if len(refs) != maxNews+2 || !refs[model.Ref{Kind: model.ResourceSliceKind, Name: "s"}] {
		t.Errorf("%d objects", len(refs))
	}
	if s := r.Slice("s"); s == nil || len(s.Spec.Devices[0].Taints) != 0 || len(s.Spec.Devices[1].Taints) != 1 || r.Slice("none") != nil {
		t.Errorf("the slice is %v", s)
	}
	r.Hold(later, pod, promise)
	if r.Promised(later.ClaimKey()) != promise || r.Promised(claim.Key) != nil {
		t.Error("promises are not known")
	}
	state := AllocatedBy(slices.Values([]*resourcev1.AllocationResult{promise.Allocation, allocation("p/d0")}))
	if len(state.AllocatedDevices) != 2 || len(state.AllocatedSharedDeviceIDs) != 1 || len(state.AggregatedCapacity) != 1 {
		t.Errorf("allocated: %+v", state)
	}
}
