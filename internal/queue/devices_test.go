package queue_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/queue"
)

// TestDevicesFindWhoCanUseThem parks pods that wait for devices of four kinds, and
// releases devices of one kind. However many pods wait, hints run once for each possible
// kind of the driver. Only pods that can use such a device are woken.
func TestDevicesFindWhoCanUseThem(t *testing.T) {
	for _, size := range []int{40, 4000} {
		c, err := config.Default()
		if err != nil {
			t.Fatal(err)
		}
		s := state.New()
		set := func(objects ...kinds.Object) []model.Event {
			var changes []model.Change
			for _, o := range objects {
				changes = append(changes, kinds.Of(o).Change(o))
			}
			return s.Apply(changes).Events
		}
		drivers := []string{"a.drv", "b.drv", "c.drv", "d.drv"}
		for _, driver := range drivers {
			node, small := "n", "small"
			set(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{
				{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driver)}},
			}}}, &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: resourcev1.ResourceSliceSpec{
				Driver: driver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: "p", Generation: 1, ResourceSliceCount: 1},
				Devices: []resourcev1.Device{{Name: "d0", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: &small}}}},
			}})
		}
		claim := func(name, class, model string) *resourcev1.ResourceClaim {
			return &resourcev1.ResourceClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
				Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
					Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
						Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.attributes[%q].model == %q", class, model)}}}},
				}}}},
			}
		}
		user := claim("user", "a.drv", "small")
		user.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "r", Driver: "a.drv", Pool: "p", Device: "d0"},
		}}}
		set(user)
		var pods []*model.Pod
		for i := range size {
			name := fmt.Sprint("p", i)
			set(claim(name, drivers[i%4], []string{"small", "large"}[i/4%2]))
			pod := model.NewPod(&v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
				Spec:       v1.PodSpec{SchedulerName: c.Profiles[0].Name, ResourceClaims: []v1.PodResourceClaim{{Name: "r", ResourceClaimName: &name}}},
			})
			c.Profiles[0].Compile(pod)
			pods = append(pods, pod)
		}
		rules := c.Queue(time.Hour)
		rules.State = s
		for what, events := range map[string][]model.Event{
			"a device is given back": set(claim("user", "a.drv", "small")),
			"a slice is set":         set(s.View().Devices().Get(model.Ref{Kind: model.ResourceSliceKind, Name: "a.drv"}).(*model.ResourceSlice).Object.DeepCopy()),
		} {
			q, err := queue.New(rules)
			if err != nil {
				t.Fatal(err)
			}
			q.Wake(noon, state.Delta{Arrived: pods})
			parkAll(q, noon, []string{"DynamicResources"})
			before := q.HintsAsked()
			wakeWholly(t, q, noon.Add(time.Minute), state.Delta{Events: events})
			if asked := q.HintsAsked() - before; asked != 2 || q.Counts().Parked != size-size/8 {
				t.Errorf("%s beside %d pods: asked %d hints, %d are still parked", what, size, asked, q.Counts().Parked)
			}
		}
	}
}
