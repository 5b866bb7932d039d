package loop_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/queue"
)

// bills is an observer that records the work of device searches in each round.
type bills struct {
	loop.Observer
	devices []int64
}

func (b *bills) Round(r *loop.Round)       { b.devices = append(b.devices, r.Cost[price.Devices]) }
func (b *bills) Standing(s *loop.Standing) {}

// take returns the work of searches since its last call: in all, and in the most
// expensive round.
func (b *bills) take() (sum, most int64) {
	for _, units := range b.devices {
		sum, most = sum+units, max(most, units)
	}
	b.devices = nil
	return sum, most
}

// withCards is a scheduler with nodes that have virtual functions of two network cards
// each. The attributes of these devices are different on every node. A pod of twoCards
// has a claim that the allocator rejects only after very many combinations.
type withCards struct {
	full
	*bills
}

func newWithCards(t testing.TB, nodes, functions int, timeout time.Duration) *withCards {
	t.Helper()
	text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" +
		"profiles: [{pluginConfig: [{name: DynamicResources, args: {filterTimeout: " + timeout.String() + "}}]}]\n"
	c, err := config.Parse("config", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := queue.New(c.Queue(queue.DefaultMaxParked))
	if err != nil {
		t.Fatal(err)
	}
	decider, err := engine.New(engine.Config{Profiles: c.Profiles, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	changes := ingest.New(c.Compile())
	f := &withCards{full{engine: decider, changes: changes, commit: &atOnce{changes: changes, made: map[plan.Outcome]int{}}, now: time.Unix(1_000_000, 0)}, &bills{}}
	f.loop = loop.New(loop.Config{Source: changes, Queue: waiting, Engine: decider, Commit: f.commit, Observers: []loop.Observer{f.bills}})
	changes.Set(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "vf"}, Spec: resourcev1.DeviceClassSpec{Selectors: deviceSelectors(`device.driver == "nic.example.com"`)}})
	for i := range nodes {
		node := fmt.Sprintf("node-%05d", i)
		changes.Set(build.Node(node, build.Allocatable("cpu=64 memory=64Gi pods=110")))
		slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourcev1.ResourceSliceSpec{
			Driver: "nic.example.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		}}
		for d := range functions {
			card, serial := fmt.Sprint("card", 2*d/functions), fmt.Sprint(node, d)
			slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{
				Name: fmt.Sprint("vf", d), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"parent": {StringValue: &card}, "serial": {StringValue: &serial}},
			})
		}
		changes.Set(slice)
	}
	f.rest()
	return f
}

// twoCards creates a pod whose claim requests some functions, and two more that must be
// on the same card and on different cards.
func (f *withCards) twoCards(name string, before int64) {
	parent := resourcev1.FullyQualifiedName("nic.example.com/parent")
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: name, UID: types.UID(name)}}
	request := func(of string, count int64, selectors ...string) {
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourcev1.DeviceRequest{Name: of, Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: "vf", Selectors: deviceSelectors(selectors...), AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count,
		}})
	}
	request("a", before)
	request("b", 1, `device.attributes["nic.example.com"].parent == "card1"`)
	request("d", 1, `device.attributes["nic.example.com"].parent == "card0"`)
	claim.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{Requests: []string{"b", "d"}, MatchAttribute: &parent}}
	f.changes.Set(claim)
	pod := f.pod(name, 10)
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "r", ResourceClaimName: &name}}
	f.changes.Set(pod)
}

// mostInARound is the maximum work of searches in a round: its budget, the minimum work
// of a search, and a step.
const mostInARound = 22 * price.Millisecond

// TestDeviceSearchIsDivided has a pod whose searches are given up. No round costs more
// than its budget. The first node that fails the turn is the last node to be searched.
// Further attempts use the cached result.
func TestDeviceSearchIsDivided(t *testing.T) {
	const limit = 100 * time.Millisecond
	for _, nodes := range []int{1, 3, 50} {
		f := newWithCards(t, nodes, 64, limit)
		f.twoCards("hostile", 16)
		f.rest()
		const want = `running "DynamicResources" filter plugin: node node-00000: timed out trying to allocate devices`
		d := f.commit.last
		if d.Outcome != plan.Failed || d.Err.Error() != want || f.commit.made[plan.Failed] != 1 {
			t.Fatalf("%d nodes: %v, %v, want %s", nodes, d.Outcome, d.Err, want)
		}
		sum, most := f.take()
		if sum < int64(limit) || sum > int64(limit)+2*mostInARound || most > mostInARound {
			t.Errorf("%d nodes: searches cost %d units, in one round %d", nodes, sum, most)
		}
		for attempt := range 3 {
			f.now = f.now.Add(20 * time.Second)
			f.rest()
			if sum, _ := f.take(); f.commit.made[plan.Failed] != 2+attempt || sum > price.Millisecond {
				t.Errorf("%d nodes: after %d attempts, searches cost %d units more", nodes, f.commit.made[plan.Failed], sum)
			}
		}
		if err := f.loop.Audit(); err != nil {
			t.Error(err)
		}
	}
}

// TestDeviceSearchOfManyNodesIsDivided has pods whose searches end, but take long on
// every node. No round costs more than its budget, and the final verdict equals
// kube-scheduler's.
func TestDeviceSearchOfManyNodesIsDivided(t *testing.T) {
	const nodes = 20
	f := newWithCards(t, nodes, 12, time.Minute)
	f.twoCards("heavy", 3)
	f.rest()
	d := f.commit.last
	if d.Outcome != plan.Unschedulable || d.Rejection.Text(d.Nodes) != "0/20 nodes are available: 20 cannot allocate all claims." {
		t.Fatalf("%v: %v, %v", d.Outcome, d.Rejection, d.Err)
	}
	sum, most := f.take()
	if sum < 5*mostInARound || most > mostInARound {
		t.Errorf("searches cost %d units, in one round %d", sum, most)
	}
	f.twoCards("alike", 3)
	f.rest()
	if again, _ := f.take(); f.commit.made[plan.Unschedulable] != 2 || again > sum/100 {
		t.Errorf("searches for another pod like it cost %d units, for the first one %d", again, sum)
	}
}

// TestCostlySelectorsOfParkedPods parks pods with costly selectors and pods with ordinary
// selectors, all without suitable devices. A changed slice wakes only the pods with
// costly selectors, because hints do not evaluate these to the end.
func TestCostlySelectorsOfParkedPods(t *testing.T) {
	costly := "true"
	for level := range 4 {
		costly = fmt.Sprintf("[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15].all(v%d, %s)", level, costly)
	}
	for _, hostile := range []int{0, 1, 10, 200} {
		f := newWithDevices(t, 4, 60)
		for i := range hostile {
			name := fmt.Sprint("hostile-", i)
			claim := f.claim(name, "gpu", "false")
			second := claim.Spec.Devices.Requests[0].DeepCopy()
			second.Name, second.Exactly.Selectors = "s", deviceSelectors(append(slices.Repeat([]string{fmt.Sprint(costly, strings.Repeat(" ", i))}, 4), "false")...)
			claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, *second)
			f.changes.Set(claim)
			pod := f.pod(name, 10)
			pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "r", ResourceClaimName: &name}}
			f.changes.Set(pod)
		}
		f.rest()
		f.now = f.now.Add(time.Minute)
		before := f.engine.Counters().Decisions
		node := "node-00001"
		slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-gpu"}, Spec: resourcev1.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 2, ResourceSliceCount: 1},
		}}
		small := "small"
		for d := range 7 {
			slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{
				Name: fmt.Sprint("gpu-", d), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: &small}},
			})
		}
		f.changes.Set(slice)
		for f.rest(); f.loop.Unfinished(); f.rest() {
		}
		if tried := f.engine.Counters().Decisions - before; tried != int64(hostile) {
			t.Errorf("%d costly pods: %d pods were tried, want these", hostile, tried)
		}
	}
}

// BenchmarkBesideDeviceSearch measures the waits of ordinary pods while another pod's
// search for devices goes on without success. In each iteration an ordinary pod of higher
// priority arrives and is placed.
func BenchmarkBesideDeviceSearch(b *testing.B) {
	for _, nodes := range []int{3, 500} {
		b.Run(fmt.Sprint("nodes=", nodes), func(b *testing.B) {
			f := newWithCards(b, nodes, 64, 10*time.Second)
			f.twoCards("hostile", 16)
			var waits []time.Duration
			b.ResetTimer()
			for i := range b.N {
				f.loop.Once(f.now) // runs a part of the search
				pod := f.pod(fmt.Sprint("other-", i), 10)
				one := int32(1)
				pod.Spec.Priority = &one
				began := time.Now()
				f.changes.Set(pod)
				for placed := f.commit.made[plan.Placed]; f.commit.made[plan.Placed] == placed; {
					f.loop.Once(f.now)
				}
				waits = append(waits, time.Since(began))
				f.changes.Remove(keyOf(pod.Name).Ref())
			}
			slices.Sort(waits)
			b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds()), "µs-p99")
			_, most := f.take()
			b.ReportMetric(float64(most)/price.Millisecond, "ms-search/round")
		})
	}
}
