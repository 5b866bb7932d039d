package metrics_test

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/queue"
	"github.com/berth-scheduler/berth/internal/serve/metrics"
)

// typical is a round under load: a pod arrived and was placed, and another was confirmed.
func typical() *loop.Round {
	p := model.NewPod(pod("p", "1"))
	on := model.NewPod(pod("q", "1", func(p *v1.Pod) { p.Spec.NodeName = "a" }))
	return &loop.Round{
		Changes: 3,
		Delta: state.Delta{Arrived: []*model.Pod{p}, Events: []model.Event{
			{Resource: model.AssignedPodEvent, Action: model.Add, Pod: on},
		}},
		Applying: 3 * time.Microsecond, Popping: time.Microsecond, Deciding: 25 * time.Microsecond, Settling: time.Microsecond,
		Attempt: &plan.Attempt{Outcome: plan.Placed, Members: []plan.Decision{{Member: plan.Member{QueuedPod: plan.QueuedPod{Pod: p, Attempt: 1}}, Outcome: plan.Placed, Placement: plan.Placement{NodeName: "a"}}}},
		Moves:   []queue.Move{{Queue: "active", Event: "UnscheduledPodAdd", Pods: 1}},
	}
}

func observe(m *metrics.Metrics, r *loop.Round) {
	m.Loop.Enter(engine.PreFilter)
	m.Loop.Enter(engine.Filter)
	m.Loop.Enter(engine.Score)
	m.Loop.Round(r)
}

// BenchmarkRound measures the loop's cost of observing one round, including the clock
// readings of its phases.
func BenchmarkRound(b *testing.B) {
	m, _ := build(b, time.Now)
	r := typical()
	b.ReportAllocs()
	for b.Loop() {
		observe(m, r)
	}
}

// BenchmarkStanding measures the report of gauges and counters, which happens about once
// a second, and while the loop is idle.
func BenchmarkStanding(b *testing.B) {
	m, _ := build(b, time.Now)
	s := standing()
	b.ReportAllocs()
	for b.Loop() {
		s.Work.Asked++
		m.Loop.Standing(s)
	}
}

func standing() *loop.Standing {
	s := &loop.Standing{Nodes: 5000, Pods: 30_000}
	for _, plugin := range []string{"NodeResourcesFit", "TaintToleration", "NodeAffinity"} {
		s.Unschedulable = append(s.Unschedulable, loop.Unschedulable{Profile: "default-scheduler", Plugin: plugin, Pods: 3})
		s.Asked = append(s.Asked, loop.Asked{Profile: "default-scheduler", Plugin: plugin, Phase: engine.Filter, Times: 5000})
	}
	return s
}

// BenchmarkSent measures the cost of observing one binding.
func BenchmarkSent(b *testing.B) {
	m, _ := build(b, time.Now)
	d := settled("p", 1, time.Now(), time.Second)
	s := &commit.Settled{QueuedPod: d.QueuedPod, Placement: d.Placement}
	w := &commit.Write{Kind: commit.BindingWrite, Pod: s.Placement.Pod}
	b.ReportAllocs()
	for b.Loop() {
		m.Commit.Sent(m.Commit.Sending(context.Background(), w), w, time.Millisecond, nil)
		m.Commit.Settled(s)
	}
}

// TestObservingAllocatesNothing checks that observing allocates nothing once every series
// exists.
func TestObservingAllocatesNothing(t *testing.T) {
	m, _ := build(t, time.Now)
	r, s := typical(), standing()
	if n := testing.AllocsPerRun(100, func() { observe(m, r) }); n != 0 {
		t.Errorf("observing a round allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { m.Loop.Standing(s) }); n != 0 {
		t.Errorf("telling how things stand allocates %v times", n)
	}
}
