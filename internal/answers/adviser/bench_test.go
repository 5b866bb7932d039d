package adviser_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// BenchmarkSearch is a search for what would help a pod, beside 15,000 nodes: with all that the simulation does besides, and, as counted, what it takes from the budget.
func BenchmarkSearch(b *testing.B) {
	c := newCluster(b, true, build.Sized(15_000))
	advance(b, c, time.Minute)
	before, n := c.Hints(), 0
	b.ResetTimer()
	for b.Loop() {
		name := fmt.Sprintf("web-%d", n)
		c.SetPod(pod(name, fmt.Sprintf("cpu=%d", 5+n), build.NodeSelector("zone=z1")))
		advance(b, c, 20*time.Second)
		c.DeletePod(model.PodKey{Namespace: "shop", Name: name}) // or what was found for it would be tried again
		n++
	}
	after := c.Hints()
	if after.Searches-before.Searches != int64(n) {
		b.Errorf("%d searches for %d pods", after.Searches-before.Searches, n)
	}
	b.ReportMetric(float64(after.Steps-before.Steps)/float64(n), "steps/op")
	b.ReportMetric(float64((after.Spent-before.Spent).Microseconds())/float64(n), "counted-µs/op")
}
