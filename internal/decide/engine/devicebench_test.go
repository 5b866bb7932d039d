package engine_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

// deviceBench is a bench whose nodes have eight devices each, and whose pods have a claim
// of their own for one device.
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

// claim creates the i-th claim, for one device.
func (b *deviceBench) claim(i int) { b.claimFor(i, 1) }

func (b *deviceBench) claimFor(i int, devices int64) {
	b.set(&resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: fmt.Sprint("claim-", i), UID: types.UID(fmt.Sprint("claim-", i))},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: devices},
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

// requesting returns the i-th pod, which requests devices as an extended resource.
func (b *deviceBench) requesting(i int, devices int64) *model.Pod {
	return b.pod(i, func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Requests[benchResource] = *resource.NewQuantity(devices, resource.DecimalSI)
	})
}

// bound ends the binding of a pod. Until then its devices stay allocated, even if the pod
// is gone.
func (b *deviceBench) bound(pod *model.Pod) {
	b.state.Apply([]model.Change{{Kind: model.BindDone, Bind: &model.BindingResult{Pod: pod}}})
}

// gone removes a pod and its claims.
func (b *deviceBench) gone(pod *model.Pod) {
	changes := []model.Change{{Kind: model.PodGone, Key: pod.Key()}}
	if pod.Devices != nil {
		for _, use := range pod.Devices.Claims {
			changes = append(changes, model.Change{Kind: model.ObjectGone, Ref: use.Key.DeviceRef()})
		}
	}
	b.state.Apply(changes)
}

// benchResource is the extended resource of devices in wide pools.
const benchResource v1.ResourceName = "example.com/device"

// newWideBench has nodes without devices of their own. Each pool is shared by a number of
// nodes, with two devices for each of them.
func newWideBench(t testing.TB, nodes, share int) *deviceBench {
	return newWideBenchWith(t, oracle.DefaultProfile(), nodes, share)
}

// rated is a profile that scores nodes by their free devices, and by the balance between
// devices and CPU in use.
func rated() oracle.Profile {
	p := oracle.DefaultProfile()
	cpu, device := configv1.ResourceSpec{Name: string(v1.ResourceCPU), Weight: 1}, configv1.ResourceSpec{Name: string(benchResource), Weight: 1}
	p.Fit.ScoringStrategy = &configv1.ScoringStrategy{Type: configv1.LeastAllocated, Resources: []configv1.ResourceSpec{cpu, device}}
	p.Balanced.Resources = []configv1.ResourceSpec{cpu, device}
	return p
}

func newWideBenchWith(t testing.TB, profile oracle.Profile, nodes, share int) *deviceBench {
	b := &deviceBench{newBenchWith(t, profile, nodes), nodes}
	stands := string(benchResource)
	b.set(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: &stands}})
	for i := range nodes {
		node := benchNode(i)
		node.Labels["share"] = fmt.Sprint(i / share)
		b.set(node)
	}
	for first := 0; first < nodes; first += share {
		pool := fmt.Sprint("pool-", first/share)
		var published []*resourcev1.ResourceSlice
		for d := range 2 * min(share, nodes-first) {
			if d%128 == 0 {
				published = append(published, &resourcev1.ResourceSlice{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%03d", pool, d/128)},
					Spec:       resourcev1.ResourceSliceSpec{Driver: "net.example.com", Pool: resourcev1.ResourcePool{Name: pool, Generation: 1}},
				})
			}
			s := published[len(published)-1]
			s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("device-", d)})
		}
		for _, s := range published {
			s.Spec.Pool.ResourceSliceCount = int64(len(published))
			if all := true; share >= nodes {
				s.Spec.AllNodes = &all
			} else {
				s.Spec.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
					{Key: "share", Operator: v1.NodeSelectorOpIn, Values: []string{fmt.Sprint(first / share)}},
				}}}}
			}
			b.set(s)
		}
	}
	return b
}

// BenchmarkWideDevices does the same with devices of shared pools: 16 nodes each, or all
// nodes.
func BenchmarkWideDevices(b *testing.B) {
	nodes := build.Sized(5000)
	for _, share := range []int{16, nodes} {
		b.Run(fmt.Sprintf("nodes=%d/share=%d", nodes, share), func(b *testing.B) { decideBatches(b, newWideBench(b, nodes, share)) })
	}
}

// TestWideDevicesCostWhatChanges places pods with devices of shared pools. A pod costs
// the changed nodes, and one node of each list of alike nodes that can use the pool, in a
// cluster of any size.
func TestWideDevicesCostWhatChanges(t *testing.T) {
	build.NotRaced(t)
	// a placement changes both scores of all nodes that share a pool
	const byDefault, byDevices = 9, 9 + 2*(16+1)
	for _, size := range []struct {
		nodes, share int
		extended     bool // pods request extended resources and have no claims
		profile      oracle.Profile
		asked        int64 // maximum for a pod
	}{
		{96, 16, false, oracle.DefaultProfile(), byDefault}, {960, 16, false, oracle.DefaultProfile(), byDefault},
		{96, 96, false, oracle.DefaultProfile(), byDefault}, {960, 960, false, oracle.DefaultProfile(), byDefault},
		{96, 16, true, oracle.DefaultProfile(), byDefault}, {960, 16, true, oracle.DefaultProfile(), byDefault},
		{96, 96, true, oracle.DefaultProfile(), byDefault}, {960, 960, true, oracle.DefaultProfile(), byDefault},
		{96, 16, true, rated(), byDevices}, {960, 16, true, rated(), byDevices},
	} {
		b := newWideBenchWith(t, size.profile, size.nodes, size.share)
		const first, pods = 10, 40
		podOf := b.podOf
		if size.extended {
			podOf = func(i int) *model.Pod { return b.requesting(i, 1) }
		}
		for i := range first + pods {
			b.claim(i)
		}
		for i := range first {
			b.place(t, podOf(i))
		}
		before, had := b.engine.Counters(), b.state.View().Devices().Work()
		for i := range pods {
			b.place(t, podOf(first+i))
		}
		after, has := b.engine.Counters(), b.state.View().Devices().Work()
		what := fmt.Sprintf("%d nodes, %d share a pool, extended resources: %t, rated: %t", size.nodes, size.share, size.extended, size.asked == byDevices)
		if asked := after.Asked - before.Asked; asked > size.asked*pods {
			t.Errorf("%s: plugins were called %d times for %d pods", what, asked, pods)
		}
		if filled := after.Filled - before.Filled; filled > 0 {
			t.Errorf("%s: %d columns were filled anew", what, filled)
		}
		if did := has.Described - had.Described + has.Matched - had.Matched + has.Touched - had.Touched; did > 2*pods {
			t.Errorf("%s: %d devices were described, nodes matched or journalled for %d pods", what, did, pods)
		}
		if err := b.state.Audit(); err != nil {
			t.Error(err)
		}
	}
}

// TestWideDevicesAreFollowed changes shared devices at random, and decides about pods.
// The node and the rejection must equal those of a new engine. Half of the profiles score
// nodes by devices.
func TestWideDevicesAreFollowed(t *testing.T) {
	build.NotRaced(t)
	placed, rejected := 0, 0
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 5))
		profile := oracle.DefaultProfile()
		if seed%2 == 1 {
			profile = rated()
		}
		b := newWideBenchWith(t, profile, 12, 4)
		var pods []*model.Pod
		for i := range 60 {
			switch r.IntN(6) {
			case 0:
				// a pool gets other devices, or serves other nodes
				object := b.state.View().Devices().Get(model.Ref{Kind: model.ResourceSliceKind, Name: fmt.Sprintf("pool-%d-000", r.IntN(3))}).(*model.ResourceSlice).Object.DeepCopy()
				object.ResourceVersion = fmt.Sprint(i + 2)
				object.Spec.Devices = object.Spec.Devices[:1+r.IntN(len(object.Spec.Devices))]
				object.Spec.AllNodes, object.Spec.NodeName = nil, nil
				if all := true; r.IntN(2) == 0 {
					object.Spec.NodeSelector, object.Spec.AllNodes = nil, &all
				}
				b.set(object)
			case 1:
				// a node changes its group, or gets a device plugin
				node := benchNode(r.IntN(12))
				node.Labels["share"] = fmt.Sprint(r.IntN(4))
				if r.IntN(3) == 0 {
					node.Status.Allocatable[benchResource] = resource.MustParse("2")
				}
				b.set(node)
			case 2:
				// a node gets a pool of its own
				name := fmt.Sprintf("node-%05d", r.IntN(12))
				slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name + "-own"}, Spec: resourcev1.ResourceSliceSpec{
					Driver: "gpu.example.com", NodeName: &name, Pool: resourcev1.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1 + int64(r.IntN(2))},
					Devices: []resourcev1.Device{{Name: "d0"}, {Name: "d1"}},
				}}
				b.set(slice)
			case 3:
				if len(pods) > 0 {
					at := r.IntN(len(pods))
					b.gone(pods[at])
					pods = slices.Delete(pods, at, at+1)
				}
			}
			devices := int64(1 + r.IntN(3))
			b.claimFor(i, devices)
			pod := b.podOf(i)
			if r.IntN(2) == 0 {
				pod = b.requesting(i, devices)
			}
			got := b.engine.Decide(b.state.View(), plan.Alone(pod))
			fresh, err := engine.New(engine.Config{Profiles: []*plugin.Profile{b.profile}, Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			want := fresh.Decide(b.state.View(), plan.Alone(pod))
			if got.Outcome != want.Outcome || got.Feasible != want.Feasible || !reflect.DeepEqual(got.Rejection, want.Rejection) {
				t.Fatalf("seed %d, step %d: %s on %d nodes, %+v; want %s on %d, %+v", seed, i, got.Outcome, got.Feasible, got.Rejection, want.Outcome, want.Feasible, want.Rejection)
			}
			if err := b.state.Audit(); err != nil {
				t.Fatal(err)
			}
			if got.Outcome == plan.Placed && (got.Placement.NodeName != want.Placement.NodeName || got.Placement.Total != want.Placement.Total) {
				t.Fatalf("seed %d, step %d: placed on %s with score %d, want %s with %d", seed, i, got.Placement.NodeName, got.Placement.Total, want.Placement.NodeName, want.Placement.Total)
			}
			if got.Outcome != plan.Placed {
				rejected++
				continue
			}
			placed++
			assume(b.state, got)
			pods = append(pods, pod)
		}
	}
	if placed < 100 || rejected < 30 {
		t.Errorf("%d pods were placed, %d rejected", placed, rejected)
	}
}

// BenchmarkDevices decides about new pods and assumes them. Each has its own claim for
// one of the eight devices of each node.
func BenchmarkDevices(b *testing.B) {
	nodes := build.Sized(5000)
	b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) { decideBatches(b, newDeviceBench(b, nodes)) })
}

func decideBatches(b *testing.B, c *deviceBench) {
	batch := min(2000, c.nodes)
	var pods []*model.Pod
	next := 0
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if i%batch == 0 {
			b.StopTimer()
			for _, pod := range pods { // so that devices do not run out
				c.bound(pod)
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
}

// TestClaimsForDevicesShareColumns places pods with a claim of their own. A pod costs the
// changed nodes, and fills no column, in a cluster of any size.
func TestClaimsForDevicesShareColumns(t *testing.T) {
	build.NotRaced(t)
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
