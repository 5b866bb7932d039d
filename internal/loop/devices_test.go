package loop_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/devices"
	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// withDevices is a scheduler of nodes with eight devices each. Some pods take one device
// each; others have claims that nothing can satisfy.
type withDevices struct {
	full
	next, ended int // numbers of pods that take devices
}

func deviceSelectors(expressions ...string) (selectors []resourcev1.DeviceSelector) {
	for _, e := range expressions {
		selectors = append(selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: e}})
	}
	return selectors
}

// newWithDevices has half of the devices in use. Each hopeless pod requests an
// unavailable class, model or driver.
func newWithDevices(t testing.TB, nodes, hopeless int) *withDevices {
	t.Helper()
	c, waiting, decider := defaultParts(t, false)
	changes := ingest.New(c.Compile())
	f := &withDevices{full: full{engine: decider, changes: changes, commit: &atOnce{changes: changes, made: map[plan.Outcome]int{}}, now: time.Unix(1_000_000, 0)}}
	f.loop = loop.New(loop.Config{Source: changes, Queue: waiting, Engine: decider, Commit: f.commit})
	for name, expression := range map[string]string{
		"gpu": `device.driver == "gpu.example.com"`, "fpga": `device.driver == "fpga.example.com"`,
		"large": `device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].model == "large"`,
	} {
		changes.Set(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.DeviceClassSpec{Selectors: deviceSelectors(expression)}})
	}
	small := "small"
	for i := range nodes {
		node := fmt.Sprintf("node-%05d", i)
		changes.Set(build.Node(node, build.Allocatable("cpu=64 memory=64Gi pods=110")))
		slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-gpu"}, Spec: resourcev1.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		}}
		for d := range 8 {
			slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{
				Name: fmt.Sprint("gpu-", d), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: &small}},
			})
		}
		changes.Set(slice)
	}
	f.rest()
	for range 4 * nodes {
		f.take(t)
	}
	for i := range hopeless {
		f.create(fmt.Sprint("hopeless-", i), []string{"fpga", "large", "gpu"}[i%3], [][]string{nil, nil, {`device.attributes["gpu.example.com"].model == "larger"`}}[i%3]...)
	}
	f.rest()
	if counts := f.loop.Queue().Counts(); counts.Parked != hopeless {
		t.Fatalf("%+v, want %d parked pods", counts, hopeless)
	}
	f.now = f.now.Add(time.Minute) // backoffs have ended
	return f
}

func claimRef(name string) model.Ref {
	return model.ClaimKey{Namespace: v1.NamespaceDefault, Name: name}.DeviceRef()
}

func (f *withDevices) claim(name, class string, selectors ...string) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: name, UID: types.UID(name)},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: class, Selectors: deviceSelectors(selectors...), AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
			},
		}}}},
	}
}

// create creates a pod and its claim.
func (f *withDevices) create(name, class string, selectors ...string) {
	f.changes.Set(f.claim(name, class, selectors...))
	pod := f.pod(name, 10)
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "r", ResourceClaimName: &name}}
	f.changes.Set(pod)
}

// take creates a pod that takes a device, and has it placed. Then the allocation is
// written.
func (f *withDevices) take(t testing.TB) {
	name := fmt.Sprint("taker-", f.next)
	f.next++
	f.create(name, "gpu")
	for placed := f.commit.made[plan.Placed]; f.commit.made[plan.Placed] == placed; {
		if !f.loop.Once(f.now) && f.changes.Waiting() == 0 && f.commit.made[plan.Placed] == placed {
			t.Fatalf("pod %s is not placed: %+v", name, f.loop.Queue().Counts())
		}
	}
	claim := f.claim(name, "gpu")
	claim.Status.Allocation = f.commit.last.Placement.Holds[0].Value.(*devices.Promise).Allocation
	f.changes.Set(claim)
}

// free ends the pod that has had its device for the longest.
func (f *withDevices) free() {
	key := keyOf(fmt.Sprint("taker-", f.ended))
	f.ended++
	f.changes.Remove(key.Ref())
	f.changes.Remove(claimRef(key.Name))
}

// TestDevicesGivenBackBesideHopeless counts decisions while devices are released and
// taken. Pods whose claims can never be satisfied are not retried, however many they are.
// A pod that waits for such a device is retried.
func TestDevicesGivenBackBesideHopeless(t *testing.T) {
	for _, hopeless := range []int{30, 600} {
		f := newWithDevices(t, 4, hopeless)
		for range 16 {
			f.take(t)
		}
		f.create("waits", "gpu")
		f.rest()
		f.now = f.now.Add(time.Minute)
		before := f.engine.Counters().Decisions
		const turns = 10
		for range turns {
			f.free()
			f.rest()
			if f.commit.last.Pod.Name != "waits" || f.commit.last.Outcome != plan.Placed {
				t.Fatalf("%s of %s, want the pod that waits to be placed", f.commit.last.Outcome, f.commit.last.Pod)
			}
			claim := f.claim("waits", "gpu")
			claim.Status.Allocation = f.commit.last.Placement.Holds[0].Value.(*devices.Promise).Allocation
			f.changes.Set(claim)
			f.rest()
			f.changes.Remove(keyOf("waits").Ref())
			f.changes.Remove(claimRef("waits"))
			f.rest()
			f.take(t)
			f.create("waits", "gpu")
			f.rest()
			f.now = f.now.Add(11 * time.Second) // its backoff has ended
		}
		// In each turn the waiting pod is placed, another pod takes its released device,
		// and the next pod is rejected.
		if decisions := f.engine.Counters().Decisions - before; decisions != 3*turns {
			t.Errorf("%d hopeless pods: %d decisions were made in %d turns, want 3 each", hopeless, decisions, turns)
		}
		if err := f.loop.Audit(); err != nil {
			t.Error(err)
		}
	}
}

// BenchmarkHopelessClaims measures how pods with claims that nothing can satisfy slow
// down other pods. The second of two schedulers has 10,000 such pods; both have their
// turns in the same run. Other pods take devices as fast as possible, and each time
// another pod releases one.
func BenchmarkHopelessClaims(b *testing.B) {
	nodes, parked, turn := build.Sized(500), build.Sized(10_000), 500
	alone, beside := newWithDevices(b, nodes, 0), newWithDevices(b, nodes, parked)
	tried := beside.commit.made[plan.Unschedulable]
	took := map[*withDevices]time.Duration{}
	b.ResetTimer()
	for i := 0; i < b.N; i += turn {
		for _, f := range []*withDevices{alone, beside} {
			began, now := time.Now(), f.now
			for range min(turn, b.N-i) {
				f.free()
				f.now = now.Add(time.Since(began))
				f.take(b)
			}
			took[f] += time.Since(began)
		}
	}
	without, with := float64(b.N)/took[alone].Seconds(), float64(b.N)/took[beside].Seconds()
	b.ReportMetric(without, "pods/s-alone")
	b.ReportMetric(with, fmt.Sprint("pods/s-beside-", parked))
	b.ReportMetric(100*(1-with/without), "%-lost")
	b.ReportMetric(float64(beside.commit.made[plan.Unschedulable]-tried)/took[beside].Seconds(), "vain-attempts/s")
}
