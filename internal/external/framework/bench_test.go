package framework_test

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/model/plan"
)

// BenchmarkTrivialPlugins schedules pods on 5,000 nodes: with built-in plugins alone, and
// with a trivial out-of-tree Filter and Score plugin that run for every node.
func BenchmarkTrivialPlugins(b *testing.B) {
	filter := &filters{"Filter", func(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) *fwk.Status { return nil }}
	score := &scores{named: "Score", score: func(node string) (int64, *fwk.Status) { return int64(len(node)), nil }}
	for name, plugins := range map[string][]fwk.Plugin{"none": nil, "Filter": {filter}, "FilterAndScore": {filter, score}} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(b, 5_000, plugins...)
			if len(plugins) == 0 {
				w.profile.External = nil
			}
			i := 0
			place := func() {
				d := w.decide(w.pod(fmt.Sprintf("p%d", i), "100m"))
				if d.Outcome != plan.Placed {
					b.Fatal(describe(&d))
				}
				w.state.Assume(d.Placement)
				i++
			}
			place() // builds the views of all nodes
			b.ReportAllocs()
			for b.Loop() {
				place()
			}
		})
	}
}
