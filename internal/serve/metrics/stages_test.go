package metrics_test

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// TestStagesAndPlugins passes extension points with each result, and runs out-of-tree
// plugins.
func TestStagesAndPlugins(t *testing.T) {
	m, registry := build(t, time.Now)
	p := model.NewPod(pod("p", "1"))
	for _, s := range []commit.StageEnd{
		{Stage: plan.Reserve}, {Stage: plan.Reserve, Err: errors.New("no")}, {Stage: plan.PreBind, Err: errors.New("no"), Rejected: true},
		{Stage: plan.Bind}, {Stage: plan.PostBind}, {Stage: plan.Permit}, {Stage: plan.Permit, Err: errors.New("no"), Rejected: true},
	} {
		s.Pod, s.Took = p, time.Second
		m.Commit.Passed(&s)
	}
	m.External.Ran("x", "Filter", "Success", 4, 2*time.Second)
	m.External.Ran("x", "Filter", "Success", 1, 3*time.Second)
	m.External.Ran("x", "Score", "Success", 0, time.Second) // no calls
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, one := range f.GetMetric() {
			if h := one.GetHistogram(); h.GetSampleCount() > 0 {
				got[f.GetName()+labelsOf(one)] = h.GetSampleSum()
			}
		}
	}
	const point, profile = "scheduler_framework_extension_point_duration_seconds{extension_point=", ",profile=default-scheduler,status="
	want := map[string]float64{
		point + "PreBindPreFlight" + profile + "Success}": 1, point + "PreBindPreFlight" + profile + "Error}": 1, point + "PreBind" + profile + "Unschedulable}": 1,
		point + "Bind" + profile + "Success}": 1, point + "PostBind" + profile + "Success}": 1,
		"scheduler_permit_wait_duration_seconds{result=Success}":                                      1,
		"scheduler_permit_wait_duration_seconds{result=Unschedulable}":                                1,
		"scheduler_plugin_execution_duration_seconds{extension_point=Filter,plugin=x,status=Success}": 3.5,
	}
	for name, sum := range want {
		if got[name] != sum {
			t.Errorf("%s is %v, want %v", name, got[name], sum)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("besides, %v", got)
	}
}
