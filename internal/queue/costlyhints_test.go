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
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/queue"
)

// TestCostlyHintsEndARound parks pods whose hints cost as much as hundreds of ordinary
// hints. A round runs few of them and leaves the rest to the next rounds. In the end all
// pods are woken.
func TestCostlyHintsEndARound(t *testing.T) {
	c, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	s := state.New()
	set := func(object kinds.Object) []model.Event {
		return s.Apply([]model.Change{kinds.Of(object).Change(object)}).Events
	}
	set(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "any"}})
	const pods = 40
	rules := c.Queue(time.Hour)
	rules.State = s
	q, err := queue.New(rules)
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		costly, name := fmt.Sprint(i, " >= 0"), fmt.Sprint("p", i)
		for level := range 4 {
			costly = fmt.Sprintf("[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15].all(v%d, %s)", level, costly)
		}
		set(&resourcev1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
				Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
					DeviceClassName: "any", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
					Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: costly}}},
				},
			}}}},
		})
		pod := model.NewPod(&v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
			Spec:       v1.PodSpec{SchedulerName: c.Profiles[0].Name, ResourceClaims: []v1.PodResourceClaim{{Name: "r", ResourceClaimName: &name}}},
		})
		c.Profiles[0].Compile(pod)
		q.Wake(noon, state.Delta{Arrived: []*model.Pod{pod}})
		work, _ := q.Pop(noon)
		queue.SettlePod(q, noon, work, plan.Decision{Outcome: plan.Unschedulable, Rejection: &plan.Rejection{Plugins: []string{"DynamicResources"}}})
	}
	node := "n"
	delta := state.Delta{Events: set(&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "drv", NodeName: &node, Pool: resourcev1.ResourcePool{Name: "p", Generation: 1, ResourceSliceCount: 1}, Devices: []resourcev1.Device{{Name: "d0"}, {Name: "d1"}},
	}})}
	rounds := 0
	for ; q.Counts().Parked > 0; rounds++ {
		before := q.HintsAsked()
		q.Wake(noon.Add(time.Hour), delta)
		if asked := q.HintsAsked() - before; asked > 10 || rounds > pods {
			t.Fatalf("round %d asks %d hints, %d pods are parked", rounds, asked, q.Counts().Parked)
		}
		delta = state.Delta{}
	}
	if rounds < pods/10 {
		t.Errorf("%d pods are woken in %d rounds", pods, rounds)
	}
}
