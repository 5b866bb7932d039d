package main

import (
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/component-base/metrics"

	"github.com/berth-scheduler/berth/app"
	"github.com/berth-scheduler/berth/internal/answers/shadow"
)

// shadowMetrics exports the counts of the shadow. The following goroutine sets them, and
// scrapes read them.
type shadowMetrics struct {
	metrics.BaseStableCollector

	now      atomic.Pointer[shadow.Summary]
	observed atomic.Int64 // seconds
}

func (m *shadowMetrics) set(s shadow.Summary, observed time.Duration) {
	m.observed.Store(int64(observed.Seconds()))
	s.Races = maps.Clone(s.Races) // the follower keeps changing its map
	m.now.Store(&s)
}

// The series.
var (
	shadowBindings   = shadowDesc("bindings_total", "Bindings of the other scheduler, by Berth's verdict.", "verdict")
	shadowRaces      = shadowDesc("races_total", "Bindings that are races, by the change that made the difference.", "change")
	shadowUnsearched = shadowDesc("unsearched_total", "Disagreements that were not searched for races because there were too many.")
	shadowPoints     = shadowDesc("lesser_points_total", "How far lesser nodes were below the best, in points of the weighted total.")
	maxShadowPoints  = shadowDesc("lesser_points_max", "The farthest that a lesser node was below the best, in points of the weighted total.")
	shadowPlaceable  = shadowDesc("placeable_total", "Pods that stayed pending although Berth found a node for them.")
	shadowUnseen     = shadowDesc("unseen_total", "Pods that had a node when they were first seen.")
	shadowPending    = shadowDesc("pending_pods", "Pods of the other scheduler that are pending.")
	shadowObserved   = shadowDesc("observed_seconds", "How long bindings were observed.")
	shadowObstacles  = shadowDesc("obstacles", "Parts of the rule for a switch to Berth that do not hold yet; 0 means that you can switch.")
	shadowOpen       = shadowDesc("open_disagreements", "Disagreements that are not checked for races yet.")
)

// shadowBuild has the scheduler's name and help, because dashboards find Berth's jobs by
// this series.
var shadowBuild = metrics.NewDesc("berth_build_info", "1, with the version of Berth that runs.",
	[]string{"version"}, nil, metrics.ALPHA, "")

func shadowDesc(name, help string, labels ...string) *metrics.Desc {
	return metrics.NewDesc("berth_shadow_"+name, help, labels, nil, metrics.ALPHA, "")
}

// DescribeWithStability describes the series.
func (m *shadowMetrics) DescribeWithStability(to chan<- *metrics.Desc) {
	for _, d := range []*metrics.Desc{shadowBuild, shadowBindings, shadowRaces, shadowUnsearched, shadowPoints, maxShadowPoints, shadowPlaceable, shadowUnseen, shadowPending, shadowOpen, shadowObserved, shadowObstacles} {
		to <- d
	}
}

// CollectWithStability returns the latest counts.
func (m *shadowMetrics) CollectWithStability(to chan<- metrics.Metric) {
	to <- metrics.NewLazyConstMetric(shadowBuild, metrics.GaugeValue, 1, app.Version())
	s := m.now.Load()
	if s == nil {
		return
	}
	add := func(d *metrics.Desc, kind metrics.ValueType, value int64, labels ...string) {
		to <- metrics.NewLazyConstMetric(d, kind, float64(value), labels...)
	}
	for _, row := range s.Verdicts() {
		add(shadowBindings, metrics.CounterValue, int64(row.Bindings), string(row.Verdict))
	}
	for _, change := range slices.Sorted(maps.Keys(s.Races)) {
		add(shadowRaces, metrics.CounterValue, int64(s.Races[change]), change)
	}
	add(shadowUnsearched, metrics.CounterValue, int64(s.Unsearched))
	add(shadowPoints, metrics.CounterValue, s.GapSum)
	add(maxShadowPoints, metrics.GaugeValue, s.MaxGap)
	add(shadowPlaceable, metrics.CounterValue, int64(s.Placeable))
	add(shadowUnseen, metrics.CounterValue, int64(s.Unseen))
	add(shadowPending, metrics.GaugeValue, int64(s.Pending))
	add(shadowOpen, metrics.GaugeValue, int64(s.Open))
	observed := m.observed.Load()
	add(shadowObserved, metrics.GaugeValue, observed)
	add(shadowObstacles, metrics.GaugeValue, int64(len(s.Obstacles(time.Duration(observed)*time.Second))))
}

// handler serves these series, and berth_build_info.
func (m *shadowMetrics) handler() http.Handler {
	registry := metrics.NewKubeRegistry()
	registry.CustomMustRegister(m)
	return metrics.HandlerFor(registry, metrics.HandlerOpts{ErrorHandling: metrics.ContinueOnError})
}
