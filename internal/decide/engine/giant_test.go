package engine_test

import (
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// giantFactor is the number of bytes that compiling a pod and its first decision may
// allocate for each byte in the API server. giantFree is allowed for every pod.
const (
	giantFactor = 200
	giantFree   = 2 << 20
)

// TestGiantPodsAllocateInProportion: pods with random lists of thousands of elements
// allocate in proportion to their size, which the API server limits.
func TestGiantPodsAllocateInProportion(t *testing.T) {
	build.NotRaced(t) // the race detector makes pools of libraries drop values
	lists := append(specLists(), shapedLists()...)
	for seed := range uint64(25) {
		checkGiant(t, lists, seed)
	}
}

func FuzzGiantPods(f *testing.F) {
	build.NotRaced(f)
	lists := append(specLists(), shapedLists()...)
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { checkGiant(t, lists, seed) })
}

func checkGiant(t *testing.T, lists []listCase, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 8))
	b := newBench(t, 30)
	var name string
	fill := func(p *v1.Pod) {
		l := lists[r.IntN(len(lists))]
		name = l.name
		l.fill(1000+r.IntN(7000), p)
		askFor(p, "1")
	}
	object := b.pod(1, fill).Object
	var pod *model.Pod
	cost := spent(b.engine, func() {
		pod = model.NewPod(object)
		b.profile.Compile(pod)
		b.engine.Decide(b.state.View(), plan.Alone(pod))
	})
	if limit := int64(giantFactor*object.Size() + giantFree); cost.bytes > limit {
		t.Errorf("seed %d (%s): %d bytes are allocated for a pod of %d, want at most %d", seed, name, cost.bytes, object.Size(), limit)
	}
}
