package engine_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// deviceBench is a bench whose nodes have eight devices each, and whose pods have a claim for one device of their own.
type deviceBench struct {
	*bench
	nodes int
}

func newDeviceBench(t testing.TB, nodes int) *deviceBench {
	b := &deviceBench{newBench(t, nodes), nodes}
	b.set(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}}},
	}})
	for i := range nodes {
		node := fmt.Sprintf("node-%05d", i)
		slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-gpu"}, Spec: resourcev1.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		}}
		for d := range 8 {
			slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("gpu-", d)})
		}
		b.set(slice)
	}
	return b
}

func (b *deviceBench) set(objects ...kinds.Object) {
	changes := make([]model.Change, len(objects))
	for i, o := range objects {
		changes[i] = kinds.Of(o).Change(o)
	}
	b.state.Apply(changes)
}

// claim makes the i-th claim.
func (b *deviceBench) claim(i int) {
	b.set(&resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: fmt.Sprint("claim-", i), UID: types.UID(fmt.Sprint("claim-", i))},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
		}}}},
	})
}

// podOf returns the i-th pod, which uses the i-th claim.
func (b *deviceBench) podOf(i int) *model.Pod {
	return b.pod(i, func(p *v1.Pod) {
		name := fmt.Sprint("claim-", i)
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
	})
}

// gone takes away a pod and its claim.
func (b *deviceBench) gone(pod *model.Pod) {
	b.state.Apply([]model.Change{
		{Kind: model.PodGone, Key: pod.Key()}, {Kind: model.ObjectGone, Ref: pod.Devices.Claims[0].Key.DeviceRef()},
	})
}

// BenchmarkDevices decides about pods that were never seen before, each with a claim of its own for one of the eight devices of each node, and assumes them.
func BenchmarkDevices(b *testing.B) {
	nodes := sized(5000)
	b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
		c := newDeviceBench(b, nodes)
		const batch = 2000
		var pods []*model.Pod
		next := 0
		b.ReportAllocs()
		b.ResetTimer()
		for i := range b.N {
			if i%batch == 0 {
				b.StopTimer()
				for _, pod := range pods { // so that devices do not run out
					c.gone(pod)
				}
				pods = pods[:0]
				for range min(batch, b.N) {
					c.claim(next)
					pods = append(pods, c.podOf(next))
					next++
				}
				b.StartTimer()
			}
			c.place(b, pods[i%batch])
		}
	})
}

// TestClaimsForDevicesShareColumns places pods that each have a claim of their own: a pod costs the nodes that changed, and fills no column, in a cluster of any
// size.
func TestClaimsForDevicesShareColumns(t *testing.T) {
	for _, nodes := range []int{100, 2000} {
		b := newDeviceBench(t, nodes)
		const first, pods = 10, 50
		for i := range first + pods {
			b.claim(i)
		}
		for i := range first {
			b.place(t, b.podOf(i))
		}
		before := b.engine.Counters()
		for i := range pods {
			b.place(t, b.podOf(first+i))
		}
		after := b.engine.Counters()
		if asked := after.Asked - before.Asked; asked > 8*pods {
			t.Errorf("%d nodes: plugins were called %d times for %d pods", nodes, asked, pods)
		}
		if filled := after.Filled - before.Filled; filled > 0 {
			t.Errorf("%d nodes: %d columns were filled anew", nodes, filled)
		}
		if err := b.state.Audit(); err != nil {
			t.Error(err)
		}
	}
}
