package noderesourcesfit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// TestWideAgreesWithFilter: a filter that finds shortages by the node's scalars gives the
// same verdicts and reasons as the filter with a bit for each.
func TestWideAgreesWithFilter(t *testing.T) {
	fits, short := 0, 0
	for seed := range 500 {
		r := rand.New(rand.NewPCG(uint64(seed), 2))
		asked := model.Resources{CPUMilli: int64(r.IntN(3))}
		for i := range 6 {
			if r.IntN(2) == 0 {
				amount := []int64{0, 1, 2, 3, math.MinInt64, -1}[r.IntN(6)]
				asked.Scalars = append(asked.Scalars, model.Scalar{Name: model.ResourceNameOf(fmt.Sprint("e.io/", i)), Value: amount})
			}
		}
		narrow := (*asks)(&asked).Compile().NodeVerdicts.(*filter)
		for i := range narrow.scalars {
			narrow.scalars[i].devices = r.IntN(4) == 0
		}
		copied := *narrow
		copied.scalars = slices.Clone(narrow.scalars)
		wide := widened(copied)
		for range 10 {
			n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
			n.Status.Allocatable = v1.ResourceList{v1.ResourcePods: resource.MustParse("1"), v1.ResourceCPU: *resource.NewMilliQuantity(int64(r.IntN(3)), resource.DecimalSI)}
			for i := range 6 {
				if r.IntN(4) > 0 {
					n.Status.Allocatable[v1.ResourceName(fmt.Sprint("e.io/", i))] = *resource.NewQuantity(int64(r.IntN(5)), resource.DecimalSI)
				}
			}
			on := plugintest.Node(n)
			want, got := narrow.Filter(on), wide.Filter(on)
			if (got == 0) != (want == 0) || got.IsUnresolvable() != want.IsUnresolvable() {
				t.Fatalf("seed %d: %v for %v: code %d, want %d", seed, n.Status.Allocatable, asked, got, want)
			}
			if want == 0 {
				fits++
				continue
			}
			short++
			if got, want := wide.Reasons(got), narrow.Reasons(want); !slices.Equal(got, want) {
				t.Fatalf("seed %d: %v for %v: %q, want %q", seed, n.Status.Allocatable, asked, got, want)
			}
		}
	}
	if fits < 500 || short < 500 {
		t.Errorf("%d fit and %d do not: the test says little", fits, short)
	}
}
