package model_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// TestNewPodTakesNoWrongShortCut compares compiled pods with the definition of each
// amount.
func TestNewPodTakesNoWrongShortCut(t *testing.T) {
	r := random.New(1)
	for i := range 1500 {
		for _, object := range []*v1.Pod{random.Pod(r, i), random.PlacedPod(r, i, "node")} {
			pod := model.NewPod(object)
			want := *pod
			want.Occupies = model.Occupied(object)
			want.NonZeroCPUMilli, want.NonZeroMemoryBytes = model.NonZero(object)
			if object.Spec.NodeName == "" {
				want.Asks, want.Scored = model.Asked(object), model.Scored(object)
			}
			if diff := cmp.Diff(pod, &want, cmpopts.IgnoreUnexported(model.Pod{}), cmpopts.EquateEmpty(), cmp.Comparer(func(a, b model.ResourceName) bool { return a == b })); diff != "" {
				t.Fatalf("pod %d: compiled (-) and by definition (+) differ:\n%s", i, diff)
			}
		}
	}
}

func BenchmarkNewPod(b *testing.B) {
	r := random.New(1)
	objects := make([]*v1.Pod, 1000)
	for i := range objects {
		objects[i] = random.Pod(r, i)
	}
	b.ReportAllocs()
	for i := range b.N {
		model.NewPod(objects[i%len(objects)])
	}
}
