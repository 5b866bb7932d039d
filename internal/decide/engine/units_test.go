package engine_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// TestReasonsHaveAPrice rejects a pod with 10,000 resources that no node has. Its turn
// costs in proportion to the reasons, at first sight and when the reasons have changed.
func TestReasonsHaveAPrice(t *testing.T) {
	const names = 10_000
	c := newBench(t, 10)
	pod := c.pod(1, func(p *v1.Pod) {
		for i := range names {
			p.Spec.Containers[0].Resources.Requests[v1.ResourceName(fmt.Sprintf("example.com/r%05d", i))] = resource.MustParse("1")
		}
	})
	for turn := range 2 {
		before := c.state.Meter().Total()
		d := c.engine.Decide(c.state.View(), plan.Alone(pod))
		if d.Outcome != plan.Unschedulable || len(d.Rejection.Counts) < names {
			t.Fatalf("turn %d: %v with %d reasons", turn, d.Outcome, len(d.Rejection.Counts))
		}
		if units := c.state.Meter().Total() - before; units < 5*price.Millisecond {
			t.Errorf("turn %d costs %d units, want at least %d", turn, units, 5*price.Millisecond)
		}
		// One more node changes the count of each reason.
		c.state.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(benchNode(10 + turn))}})
	}
}
