package metrics_test

import (
	"testing"
	"time"

	componentmetrics "k8s.io/component-base/metrics"

	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/serve/metrics"
)

// TestPlacements observes rounds in which pod groups had domain placements. The first
// member is being deleted, which has no effect.
func TestPlacements(t *testing.T) {
	const gate = "TopologyAwareWorkloadScheduling"
	for _, on := range []bool{true, false} {
		registry := componentmetrics.NewKubeRegistry()
		m, err := metrics.New(metrics.Config{Register: registry.Register, Enabled: func(name string) bool { return on || name != gate }, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		member := model.NewPod(pod("p", "1"))
		round := &loop.Round{
			Turn:      member,
			Attempt:   &plan.Attempt{Members: []plan.Decision{{Member: plan.Alone(member), Outcome: plan.Terminating}}, Outcome: plan.Terminating},
			Generated: 4, Evaluated: []loop.Evaluation{{Feasible: false, Took: 2 * time.Second}, {Feasible: true, Took: time.Second}, {Feasible: false, Took: time.Second}},
		}
		m.Loop.Round(round)
		m.Loop.Round(round)
		round.Generated, round.Evaluated = 0, nil
		m.Loop.Round(round)
		shown := scrape(t, registry)
		if !on {
			if _, there := shown["scheduler_generated_placements_total{profile=default-scheduler}"]; there {
				t.Error("placements are counted without their gate")
			}
			continue
		}
		shown.expect(t, `
			scheduler_generated_placements_total{profile=default-scheduler} 8
			scheduler_placement_evaluations_total{profile=default-scheduler,result=infeasible} 4
			scheduler_placement_evaluations_total{profile=default-scheduler,result=feasible} 2
			scheduler_placement_evaluation_duration_seconds{profile=default-scheduler,result=infeasible} 4
			scheduler_placement_evaluation_duration_seconds{profile=default-scheduler,result=feasible} 2
		`)
	}
}
