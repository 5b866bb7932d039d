package loop_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/randfill"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/config/feature"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/queue"
)

// words are names that random objects share, so that they refer to each other; and absurd
// ones.
var words = []string{"", "a", "b", "c", "default", "kubernetes.io/hostname", "x/y/z", "-", "\x00", "9223372036854775808", "device.driver == ", "size(device)",
	"In", "NotIn", "Exists", "Gt", "Lt", "NoSchedule", "NoExecute", "ScheduleAnyway", "DoNotSchedule", "Equal", "All", "ExactCount"}

// amounts are quantities at and beyond the limits of an int64.
var amounts = []string{"0", "1", "-1", "9223372036854775807", "-9223372036854775808", "1e30", "-1e30", "1n", "0.1m", "8Ei", "1E400"}

// filler fills objects with anything that their types can hold.
func filler(seed int64) *randfill.Filler {
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	return randfill.NewWithSeed(seed).NilChance(0.4).NumElements(0, 3).MaxDepth(14).Funcs(
		func(s *string, _ randfill.Continue) { *s = words[r.IntN(len(words))] },
		func(q *resource.Quantity, _ randfill.Continue) {
			if parsed, err := resource.ParseQuantity(amounts[r.IntN(len(amounts))]); err == nil {
				*q = parsed
			}
		},
		func(t *metav1.Time, _ randfill.Continue) { t.Time = time.Unix(r.Int64N(1<<40)-1<<39, 0) },
		func(t *metav1.MicroTime, _ randfill.Continue) { t.Time = time.Unix(r.Int64N(1<<40)-1<<39, 0) },
		func(*metav1.FieldsV1, randfill.Continue) {},
		func(*runtime.RawExtension, randfill.Continue) {},
		func(n *int32, _ randfill.Continue) { *n = []int32{0, 1, -1, 2, 1<<31 - 1, -1 << 31}[r.IntN(6)] },
		func(n *int64, _ randfill.Continue) { *n = []int64{0, 1, -1, 2, 1<<63 - 1, -1 << 63}[r.IntN(6)] },
	)
}

// anyObject is a random object of a kind, with a name out of three.
func anyObject(row *kinds.Row, fill *randfill.Filler, r *rand.Rand) kinds.Object {
	object := row.New()
	fill.Fill(object)
	object.SetName([]string{"a", "b", "c"}[r.IntN(3)])
	object.SetNamespace("default")
	object.SetResourceVersion(fmt.Sprint(r.Uint32()))
	object.SetUID(types.UID(fmt.Sprint(row.Resource.Resource, object.GetName())))
	if pod, ok := object.(*v1.Pod); ok {
		pod.Spec.SchedulerName, pod.Spec.SchedulingGates, pod.Status.Phase, pod.DeletionTimestamp = v1.DefaultSchedulerName, nil, v1.PodPending, nil
		// the spec of a pod does not change
		pod.Spec.NodeName, pod.Name = []string{"", "", "a", "c"}[r.IntN(4)], fmt.Sprint("p-", r.Uint32())
		pod.UID = types.UID(pod.Name)
	}
	if node, ok := object.(*v1.Node); ok && r.IntN(2) == 0 {
		node.Spec = v1.NodeSpec{}
		node.Status.Allocatable = build.Node("n", build.Allocatable("cpu=100 memory=64Gi pods=100")).Status.Allocatable
	}
	if claim, ok := object.(*resourcev1.ResourceClaim); ok && r.IntN(2) == 0 {
		claim.Status, claim.DeletionTimestamp = resourcev1.ResourceClaimStatus{}, nil
	}
	return object
}

// gatedParts are the parts of a loop with feature gates.
func gatedParts(t *testing.T, on map[string]bool) (*config.Config, *queue.Queue, *engine.Engine) {
	t.Helper()
	gates, err := feature.With(on)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Read(config.Request{Gates: gates})
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
	return c, waiting, decider
}

// TestAnyObjects shows a loop objects of all kinds with arbitrary contents. The loop
// continues to decide, with and without all feature gates, and in the end places an
// ordinary pod.
func TestAnyObjects(t *testing.T) {
	for seed := range int64(6) {
		c, waiting, decider := gatedParts(t, map[string]bool{"AllAlpha": seed%2 == 1, "AllBeta": seed%2 == 1})
		changes := ingest.New(c.Compile())
		r := rand.New(rand.NewPCG(uint64(seed), 2))
		fill, shaped := filler(seed), kinds.Kept(false)
		now := time.Unix(1_000_000, 0)
		commit := &atOnce{changes: changes, made: map[plan.Outcome]int{}}
		l := loop.New(loop.Config{Source: changes, Queue: waiting, Engine: decider, Commit: commit})
		var pods []string
		for range 25 {
			for range 10 {
				object := anyObject(kinds.Get(model.Kind(r.IntN(int(model.KindCount)))), fill, r)
				shaped(object)
				changes.Set(object)
				if _, ok := object.(*v1.Pod); ok {
					pods = append(pods, object.GetName())
				}
				if r.IntN(20) == 0 {
					ref, _ := kinds.RefOf(object)
					changes.Remove(ref)
				}
			}
			now = now.Add(time.Second)
			for range 20 {
				if !l.Once(now) && !l.Unfinished() {
					break
				}
			}
		}
		for _, name := range []string{"a", "b", "c"} {
			changes.Remove(model.Ref{Kind: model.NodeKind, Name: name})
			for kind := model.NamespaceKind; kind < model.KindCount; kind++ {
				ref := model.Ref{Kind: kind, Namespace: "default", Name: name}
				if !kinds.Get(kind).Namespaced {
					ref.Namespace = ""
				}
				changes.Remove(ref)
			}
		}
		for _, name := range pods {
			changes.Remove(model.PodKey{Namespace: "default", Name: name}.Ref())
		}
		changes.Set(build.Node("good", build.Allocatable("cpu=100 memory=64Gi pods=100")))
		pod := build.Pod(build.Named("good"), build.Container("cpu=1"))
		pod.Spec.Priority = ptr.To[int32](1<<31 - 1)
		changes.Set(pod)
		for range 5_000 {
			if !l.Once(now) && !l.Unfinished() {
				break
			}
		}
		if err := l.Audit(); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		if _, _, placed := l.State().NodeOf(model.PodKey{Namespace: pod.Namespace, Name: pod.Name}); !placed {
			t.Errorf("seed %d: the good pod is %s", seed, l.Queue().PlaceOf(model.PodKey{Namespace: pod.Namespace, Name: pod.Name}))
		}
	}
}
