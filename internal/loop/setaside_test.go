package loop_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// aside is a source that shows the loop objects as if they could not be compiled.
type aside struct {
	*ingest.Ingest
	objects []kinds.Object
}

func (a *aside) Drain() []model.Change {
	changes := a.Ingest.Drain()
	for _, object := range a.objects {
		changes = append(changes, kinds.Of(object).SetAside(object))
	}
	a.objects = nil
	return changes
}

// oneDevice is a slice of the node a with one device, and the class of all devices.
func oneDevice() []kinds.Object {
	node := "a"
	return []kinds.Object{
		&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}},
		&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "slice"}, Spec: resourcev1.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
			Devices: []resourcev1.Device{{Name: "gpu-0"}},
		}},
	}
}

// claimFor is a claim for one device, with an allocation if allocated is set.
func claimFor(name string, allocated bool) *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "uid-claim"}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
	}}}
	if allocated {
		claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "gpu.example.com", Pool: "a", Device: "gpu-0"}},
		}}
	}
	return claim
}

func named(claim string) build.PodOption {
	return func(p *v1.Pod) {
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "r", ResourceClaimName: &claim}}
	}
}

// TestSetAsideFailsClosed sets aside objects that a pod depends on. The pod is
// unschedulable, although a node is feasible while the objects can be read.
func TestSetAsideFailsClosed(t *testing.T) {
	node := build.Node("a", build.Allocatable("cpu=8 memory=8Gi pods=10"))
	tolerant := build.Tolerations(v1.Toleration{Operator: v1.TolerationOpExists})
	rule := &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "rule"}, Spec: resourcev1.DeviceTaintRuleSpec{
		DeviceSelector: &resourcev1.DeviceTaintSelector{Driver: ptr.To("gpu.example.com")},
		Taint:          resourcev1.DeviceTaint{Key: "k", Effect: resourcev1.DeviceTaintEffectNone},
	}}
	for name, test := range map[string]struct {
		aside kinds.Object
		also  []kinds.Object
		pod   build.PodOption
	}{
		"a node, and a pod that tolerates everything": {node, nil, tolerant},
		"the pod's claim":                    {claimFor("c", false), append(oneDevice(), node), named("c")},
		"the claim that has the only device": {claimFor("other", true), append(oneDevice(), node, claimFor("c", false)), named("c")},
		"a rule that taints the device":      {rule, append(oneDevice(), node, claimFor("c", false)), named("c")},
	} {
		for _, readable := range []bool{true, false} {
			if readable && name == "the claim that has the only device" {
				continue // the pod is placed in any case
			}
			c, waiting, decider := defaultParts(t, true)
			source := &aside{Ingest: ingest.New(c.Compile())}
			l := loop.New(loop.Config{Source: source, Queue: waiting, Engine: decider, Commit: &atOnce{changes: source.Ingest, made: map[plan.Outcome]int{}}})
			for _, object := range test.also {
				source.Set(object)
			}
			if readable {
				source.Set(test.aside)
			} else {
				source.objects = []kinds.Object{test.aside}
			}
			pod := build.Pod(build.Named("p"), build.Container("cpu=1"), test.pod)
			source.Set(pod)
			for now := time.Unix(1_000_000, 0); l.Once(now) || l.Unfinished(); {
				continue
			}
			if _, _, placed := l.State().NodeOf(model.PodKey{Namespace: "default", Name: "p"}); placed != readable {
				t.Errorf("%s: readable %t, and the pod is placed: %t", name, readable, placed)
			}
			if err := l.Audit(); err != nil {
				t.Error(err)
			}
		}
	}
}
