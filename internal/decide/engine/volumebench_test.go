package engine_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// volumeShape is a cluster in which each pod has a claim of its own.
type volumeShape struct {
	// objects are the objects besides claims and volumes.
	objects func(nodes int) []runtime.Object
	// claim is the i-th claim, with its volume or nil.
	claim func(i, nodes int) (*v1.PersistentVolumeClaim, *v1.PersistentVolume)
	// placed is the node of the i-th pod, if it is placed beforehand.
	placed func(i, nodes int) int
}

func inZone(i int) build.VolumeOption {
	return build.VolumeAffinity(fmt.Sprintf("topology.kubernetes.io/zone In zone-%c", 'a'+i%3))
}

func onHost(i int) build.VolumeOption {
	return build.VolumeAffinity(fmt.Sprintf("kubernetes.io/hostname In node-%05d", i))
}

func bound(i, _ int) (*v1.PersistentVolumeClaim, *v1.PersistentVolume) { return boundTo(i, i) }

// boundInPairs has two pods each share a volume, although not the claim.
func boundInPairs(i, _ int) (*v1.PersistentVolumeClaim, *v1.PersistentVolume) { return boundTo(i, i/2) }

func boundTo(i, handle int) (*v1.PersistentVolumeClaim, *v1.PersistentVolume) {
	return build.PersistentVolumeClaim(fmt.Sprint("claim-", i), fmt.Sprintf("namespace=bench storage=1Gi class=csi bound=pv-%d", i)),
		build.PersistentVolume(fmt.Sprint("pv-", i), fmt.Sprintf("storage=1Gi class=csi phase=Bound csi=d/handle-%d claim=bench/claim-%d", handle, i), inZone(i))
}

// untainted returns the next node that takes pods.
func untainted(node int) int {
	if node%20 == 7 {
		return node + 1
	}
	return node
}

func evenly(i, nodes int) int { return i % nodes }

func csiNodes(nodes int, drivers string) []runtime.Object {
	objects := []runtime.Object{build.CSIDriver("d", ""), build.StorageClass("csi", "provisioner=d")}
	for i := range nodes {
		objects = append(objects, build.CSINode(fmt.Sprintf("node-%05d", i), drivers))
	}
	return objects
}

// volumeShapes are clusters of pods with claims.
var volumeShapes = map[string]volumeShape{
	"bound":  {func(nodes int) []runtime.Object { return csiNodes(nodes, "d=") }, bound, evenly},
	"limits": {func(nodes int) []runtime.Object { return csiNodes(nodes, "d=64") }, bound, evenly},
	"shared": {func(nodes int) []runtime.Object { return csiNodes(nodes, "d=64") }, boundInPairs, evenly},
	"local": {func(nodes int) []runtime.Object { return csiNodes(nodes, "d=") }, func(i, nodes int) (*v1.PersistentVolumeClaim, *v1.PersistentVolume) {
		return build.PersistentVolumeClaim(fmt.Sprint("claim-", i), fmt.Sprintf("namespace=bench storage=1Gi class=csi bound=pv-%d", i)),
			build.PersistentVolume(fmt.Sprint("pv-", i), fmt.Sprintf("storage=1Gi class=csi phase=Bound claim=bench/claim-%d", i), onHost(untainted(i%nodes)))
	}, evenly},
	"static": {func(nodes int) []runtime.Object {
		objects := []runtime.Object{build.StorageClass("np", "")}
		for i := range nodes {
			objects = append(objects, build.PersistentVolume(fmt.Sprint("free-", i), "storage=2Gi class=np", onHost(i)))
		}
		return objects
	}, func(i, _ int) (*v1.PersistentVolumeClaim, *v1.PersistentVolume) {
		return build.PersistentVolumeClaim(fmt.Sprint("claim-", i), "namespace=bench storage=1Gi class=np"), nil
	}, nil},
	"capacity": {func(nodes int) []runtime.Object {
		objects := []runtime.Object{build.CSIDriver("d", "storageCapacity"), build.StorageClass("csi", "provisioner=d")}
		for i := range 3 {
			objects = append(objects, build.CSIStorageCapacity(fmt.Sprint("zone-", i), "class=csi capacity=900Ti", fmt.Sprintf("topology.kubernetes.io/zone=zone-%c", 'a'+i)))
		}
		return objects
	}, func(i, _ int) (*v1.PersistentVolumeClaim, *v1.PersistentVolume) {
		return build.PersistentVolumeClaim(fmt.Sprint("claim-", i), "namespace=bench storage=1Gi class=csi"), nil
	}, nil},
}

// volumeBench is a bench with claims.
type volumeBench struct {
	*bench
	shape volumeShape
	nodes int
}

// newVolumeBench has a number of nodes, and of placed pods.
func newVolumeBench(t testing.TB, shape volumeShape, nodes, placed int) *volumeBench {
	b := &volumeBench{newBench(t, nodes), shape, nodes}
	b.set(shape.objects(nodes)...)
	for i := range placed {
		b.claim(i)
		if shape.placed == nil {
			continue
		}
		pod := b.podOf(i).Object.DeepCopy()
		pod.Spec.NodeName = fmt.Sprintf("node-%05d", shape.placed(i, nodes))
		b.state.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(pod)}})
	}
	return b
}

func (b *volumeBench) set(objects ...runtime.Object) {
	changes := make([]model.Change, len(objects))
	for i, o := range objects {
		changes[i] = kinds.Of(o).Change(o.(kinds.Object))
	}
	b.state.Apply(changes)
}

// claim creates the i-th claim.
func (b *volumeBench) claim(i int) {
	claim, volume := b.shape.claim(i, b.nodes)
	b.set(claim)
	if volume != nil {
		b.set(volume)
	}
}

// podOf returns the i-th pod, which uses the i-th claim.
func (b *volumeBench) podOf(i int) *model.Pod {
	return b.pod(i, func(p *v1.Pod) { build.Claims(fmt.Sprint("claim-", i))(p) })
}

// BenchmarkVolumes decides about new pods, each with a claim of its own, and assumes
// them. shape=plain has no claims.
func BenchmarkVolumes(b *testing.B) {
	nodes, placed := build.Sized(5000), build.Sized(50_000)
	for _, name := range []string{"bound", "limits", "shared", "local", "static", "capacity"} {
		b.Run(fmt.Sprintf("shape=%s/nodes=%d", name, nodes), func(b *testing.B) {
			shape := volumeShapes[name]
			before := placed
			if shape.placed == nil {
				before = 0
			}
			c := newVolumeBench(b, shape, nodes, before)
			const batch = 2000
			var pods []*model.Pod
			next := before
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if i%batch == 0 {
					b.StopTimer()
					for _, pod := range pods { // so that nodes and volumes do not run out
						c.state.Apply([]model.Change{{Kind: model.PodGone, Key: pod.Key()}})
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
}

// TestClaimsOfTheirOwnShareColumns places pods with a claim of their own. A pod costs the
// changed nodes, as without claims.
func TestClaimsOfTheirOwnShareColumns(t *testing.T) {
	build.NotRaced(t)
	for _, row := range []struct {
		shape string
		asked int64 // maximum plugin calls for a pod, in a cluster of any size
		// columns filled for a pod: a local volume can be used where no other can
		filled int64
	}{{"bound", 8, 0}, {"limits", 8, 0}, {"shared", 8, 1}, {"local", 8, 1}, {"static", 8, 0}, {"capacity", 8, 0}} {
		for _, nodes := range []int{100, 2000} {
			shape := volumeShapes[row.shape]
			b := newVolumeBench(t, shape, nodes, 0)
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
			if asked := after.Asked - before.Asked; asked > row.asked*pods {
				t.Errorf("%s, %d nodes: plugins were called %d times for %d pods", row.shape, nodes, asked, pods)
			}
			if filled := after.Filled - before.Filled; filled > row.filled*pods {
				t.Errorf("%s, %d nodes: %d columns were filled anew", row.shape, nodes, filled)
			}
		}
	}
}

// TestVolumeDecisionAllocatesNothingPerNode compares the allocations of a decision in a
// small and in a large cluster.
func TestVolumeDecisionAllocatesNothingPerNode(t *testing.T) {
	build.NotRaced(t)
	for name, shape := range volumeShapes {
		allocations := func(nodes int) float64 {
			b := newVolumeBench(t, shape, nodes, 0)
			for i := range 3 {
				b.claim(i)
				if i < 2 {
					b.place(t, b.podOf(i))
				}
			}
			work := plan.Alone(b.podOf(2))
			b.settle(work)
			return testing.AllocsPerRun(20, func() { b.engine.Decide(b.state.View(), work) })
		}
		// The race detector makes pools drop values, so a small difference does not
		// matter.
		if small, large := allocations(100), allocations(3000); large > small+29 {
			t.Errorf("%s: a decision allocates %v times with 100 nodes, %v times with 3,000", name, small, large)
		}
	}
}
