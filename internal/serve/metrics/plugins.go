package metrics

import (
	"math/rand/v2"
	"time"

	"k8s.io/component-base/metrics"

	"github.com/berth-scheduler/berth/internal/decide/engine"
)

// sampledEach is the mean number of attempts of which one is sampled, as in
// kube-scheduler.
const sampledEach = 10

// statusNames are kube-scheduler's names.
var statusNames = [engine.Statuses]string{
	engine.Success: statusSuccess, engine.Skip: "Skip", engine.Unschedulable: statusUnschedulable, engine.Unresolvable: statusUnresolvable, engine.Failed: statusError,
}

// plugins is an engine.Timing. It adds up the time that each plugin takes at each
// extension point in a sampled attempt, over all nodes and all members of a group.
//
// The attempts between two samples are drawn, so that pods in a regular order do not
// always sample the same kind. The seed is constant, and nothing but the measurement
// depends on it.
type plugins struct {
	draws          *rand.Rand
	left           int // attempts before the next sample
	begun, sampled bool
	lap            time.Time // when the code of the present plugin began
	took           []execution
}

// execution is the time of a plugin at an extension point, and its worst status.
type execution struct {
	executionKey
	took time.Duration
}

// executionKey identifies a member of the family.
type executionKey struct {
	plugin, point string
	status        engine.Status
}

func newPlugins() plugins {
	return plugins{draws: rand.New(rand.NewPCG(0, 0))}
}

// Sample reports whether the attempt is sampled. An attempt ends with the round.
func (p *plugins) Sample() bool {
	if p.begun {
		return p.sampled
	}
	p.begun, p.sampled = true, p.left == 0
	if p.left--; p.sampled {
		p.left = p.draws.IntN(2*sampledEach - 1) // on average sampledEach-1
	}
	return p.sampled
}

// Begin observes that the code of a plugin begins.
func (p *plugins) Begin() { p.lap = time.Now() }

// End observes that the code of a plugin has ended.
func (p *plugins) End(point, plugin string, status engine.Status) {
	took := time.Since(p.lap)
	p.lap = p.lap.Add(took)
	for i := range p.took {
		if x := &p.took[i]; x.point == point && x.plugin == plugin {
			x.took += took
			x.status = max(x.status, status)
			return
		}
	}
	p.took = append(p.took, execution{executionKey{plugin, point, status}, took})
}

// Timing returns the engine's Timing, whose measurements the loop's rounds export.
func (l *Loop) Timing() engine.Timing { return &l.plugins }

// executions exports the times of a sampled attempt, and ends the attempt.
func (l *Loop) executions() {
	for i := range l.plugins.took {
		x := &l.plugins.took[i]
		m := l.members.executions[x.executionKey]
		if m == nil {
			m = l.families.histogramVecs[executionSeries].WithLabelValues(x.plugin, x.point, statusNames[x.status])
			l.members.executions[x.executionKey] = m
		}
		m.Observe(x.took.Seconds())
	}
	l.plugins.took, l.plugins.begun = l.plugins.took[:0], false
}

// executionSeries is the family of the durations of plugins.
const executionSeries = "scheduler_plugin_execution_duration_seconds"

// executionMembers are cached members of the family.
type executionMembers map[executionKey]metrics.ObserverMetric
