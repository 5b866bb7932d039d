package hints_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// BenchmarkSearch measures a search for a pod among 15,000 nodes, including the rest of
// the simulation. counted-µs/op is the cost charged to the budget.
func BenchmarkSearch(b *testing.B) {
	c := newCluster(b, true, build.Sized(15_000))
	advance(b, c, time.Minute)
	before, n := c.Hints(), 0
	b.ResetTimer()
	for b.Loop() {
		name := fmt.Sprintf("web-%d", n)
		c.SetPod(pod(name, fmt.Sprintf("cpu=%d", 5+n), build.NodeSelector("zone=z1")))
		advance(b, c, 20*time.Second)
		// Otherwise its suggestion would be verified again.
		c.DeletePod(model.PodKey{Namespace: "shop", Name: name})
		n++
	}
	after := c.Hints()
	if after.Searches-before.Searches != int64(n) {
		b.Errorf("%d searches for %d pods", after.Searches-before.Searches, n)
	}
	b.ReportMetric(float64(after.Steps-before.Steps)/float64(n), "steps/op")
	b.ReportMetric(float64((after.Spent-before.Spent).Microseconds())/float64(n), "counted-µs/op")
}
