package engine_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// BenchmarkUnits prints the cost of decisions in units beside the time. A unit is meant
// to be about a nanosecond, within a factor of three.
func BenchmarkUnits(b *testing.B) {
	affinity := func(terms int) func(int, *v1.Pod) {
		return func(n int, p *v1.Pod) {
			selector := &v1.NodeSelector{}
			for i := range terms {
				selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{
					{Key: "pool", Operator: v1.NodeSelectorOpIn, Values: []string{fmt.Sprintf("x%d-%d", n, i)}},
				}})
			}
			selector.NodeSelectorTerms[terms/2].MatchExpressions[0].Values[0] = "pool-3"
			p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: selector}}
		}
	}
	shapes := []struct {
		name  string
		shape func(int, *v1.Pod)
	}{
		{"like others", func(int, *v1.Pod) {}},
		{"new request", func(n int, p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = *resource.NewMilliQuantity(int64(1+n%20000), resource.DecimalSI)
		}},
		{"new affinity of 1 term", affinity(1)},
		{"new affinity of 100 terms", affinity(100)},
		{"new affinity of 2000 terms", affinity(2000)},
	}
	for _, s := range shapes {
		b.Run(s.name, func(b *testing.B) {
			c := newBench(b, build.Sized(5000))
			c.settle(plan.Alone(c.pod(0, func(*v1.Pod) {})))
			meter, units := c.state.Meter(), int64(0)
			pods := make([]*model.Pod, b.N)
			for i := range pods {
				pods[i] = c.pod(i+1, func(p *v1.Pod) { s.shape(i, p) })
			}
			b.ResetTimer()
			for _, pod := range pods {
				before := meter.Total()
				c.place(b, pod)
				units += meter.Total() - before
			}
			b.ReportMetric(float64(units)/float64(b.N), "units/op")
		})
	}
}
