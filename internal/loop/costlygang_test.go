package loop_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/config/feature"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/queue"
)

// TestGangOfTwoKindsEnds decides about a gang with two kinds of claims, whose first
// members exceed the budget of a round. Such an attempt keeps no progress. So each round
// has twice the budget of the round before, until the attempt ends.
func TestGangOfTwoKindsEnds(t *testing.T) {
	const nodes, first, second = 200, 900, 300
	gates, err := feature.With(map[string]bool{"GenericWorkload": true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.ParseWith("config", []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"), config.Request{Gates: gates})
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
	f := &withDevices{full: full{engine: decider, changes: changes, commit: &atOnce{changes: changes, made: map[plan.Outcome]int{}}, now: time.Unix(1_000_000, 0)}}
	f.loop = loop.New(loop.Config{Source: changes, Queue: waiting, Engine: decider, Commit: f.commit})
	changes.Set(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{Selectors: deviceSelectors(`device.driver == "gpu.example.com"`)}})
	small := "small"
	for i := range nodes {
		node := fmt.Sprintf("node-%05d", i)
		changes.Set(build.Node(node, build.Allocatable("cpu=64 memory=64Gi pods=110")))
		slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-gpu"}, Spec: resourcev1.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		}}
		for d := range 8 {
			slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("gpu-", d), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: &small}}})
		}
		changes.Set(slice)
	}
	f.rest()
	for i := range first + second {
		name := fmt.Sprintf("m-%05d", i)
		var sel []string
		if i >= first {
			sel = []string{`device.attributes["gpu.example.com"].model == "small"`}
		}
		changes.Set(f.claim(name, "gpu", sel...))
		p := member(name)
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "r", ResourceClaimName: &name}}
		changes.Set(p)
	}
	changes.Set(gang(int32(first + second)))
	rounds := 0
	for f.loop.Once(f.now); f.loop.Unfinished() && rounds < 20; f.loop.Once(f.now) {
		rounds++
	}
	if rounds == 0 || f.commit.made[plan.Placed] != first+second {
		t.Errorf("after %d unfinished rounds the decisions are %v", rounds, f.commit.made)
	}
}
