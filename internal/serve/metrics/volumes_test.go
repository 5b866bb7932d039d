package metrics_test

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Errors of VolumeBinding are counted by kube-scheduler's names of its stages. Errors of
// other plugins, and rejections, are not counted.
func TestVolumeErrors(t *testing.T) {
	m, registry := build(t, time.Now)
	pod := &model.Pod{SchedulerName: "default-scheduler"}
	fails := func(point, plugin string) error {
		return &plan.PluginError{Point: point, Plugin: plugin, Err: errors.New("no")}
	}
	decided := func(err error) {
		d := plan.Decision{Member: plan.Alone(pod), Outcome: plan.Failed, Err: err}
		m.Loop.Round(&loop.Round{Attempt: &plan.Attempt{Members: []plan.Decision{d}, Outcome: d.Outcome}})
	}
	decided(fails("Filter", "VolumeBinding"))
	decided(fails("Reserve", "VolumeBinding"))
	decided(fails("Reserve", "VolumeBinding"))
	decided(fails("PreFilter", "VolumeBinding"))
	decided(fails("Filter", "NodeVolumeLimits"))
	decided(nil)
	m.Commit.Passed(&commit.StageEnd{Pod: pod, Stage: plan.PreBind, Err: fails("PreBind", "VolumeBinding")})
	m.Commit.Passed(&commit.StageEnd{Pod: pod, Stage: plan.PreBind})
	scrape(t, registry).expect(t, `
		scheduler_volume_scheduling_stage_error_total{operation=predicate} 1
		scheduler_volume_scheduling_stage_error_total{operation=assume} 2
		scheduler_volume_scheduling_stage_error_total{operation=bind} 1
	`)
}
