package devicefit_test

import (
	"fmt"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/answers/devicefit"
	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// TestExplanationsHaveABudget explains a claim whose selectors cost milliseconds each, on
// a node with many devices. The explanation ends with its budget, and says so.
func TestExplanationsHaveABudget(t *testing.T) {
	costly := "true"
	for level := range 4 {
		costly = fmt.Sprintf("[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15].all(v%d, %s)", level, costly)
	}
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
	request := resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}
	for range resourcev1.DeviceSelectorsMaxSize - 1 {
		request.Selectors = append(request.Selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: costly}})
	}
	request.Selectors = append(request.Selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: "false"}})
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &request}}

	const devices = 128
	name := "n1"
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "d", NodeName: &name, Pool: resourcev1.ResourcePool{Name: "n1", ResourceSliceCount: 1}}}
	for i := range devices {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("gpu", i)})
	}
	node := build.Node(name)
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	s, in := state.New(), ingest.New(scheduler.Compile())
	for _, object := range []kinds.Object{node, slice, &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}} {
		in.Set(object)
	}
	s.Apply(in.Drain())
	slot, _ := s.Slot(name)
	x := devicefit.New()
	for range 2 {
		x.Begin()
		found := x.Examine(&devicefit.Question{Store: s.View().Devices(), Slot: slot, Node: node, Claim: claim})
		r := &found.Requests[0]
		if all := (devicefit.Request{All: true, Free: 1, Unexamined: r.Unexamined}); all.IsMet() {
			t.Error("all devices are met, and some are not examined")
		}
		if !x.IsOver() || r.Unexamined == 0 || r.Unexamined >= devices || !strings.Contains(r.Text(), fmt.Sprintf("%d not examined", r.Unexamined)) {
			t.Errorf("%d devices are not examined: %s", r.Unexamined, r.Text())
		}
	}
}
