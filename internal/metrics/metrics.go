package metrics

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/blang/semver/v4"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
)

// Config is what the series need to be built.
type Config struct {
	// Register takes in one family, as legacyregistry.Register and a KubeRegistry's Register do.
	Register func(metrics.Registerable) error
	// Enabled says whether a feature gate is on. Families that hang on one that is off are not there.
	Enabled func(gate string) bool
	// Now is what time it is for the loop; a loop.Clock tells.
	Now func() time.Time
	// Version is shown in berth_build_info.
	Version string
}

// Metrics are the scheduler's series. Loop and Commit are what fills them.
type Metrics struct {
	// Loop observes a loop.Loop, Commit a commit.Commit.
	Loop   *Loop
	Commit *Commit
}

// New builds the series and registers them. Whether a family is hidden or disabled by a flag must be known by then.
func New(config Config) (*Metrics, error) {
	if config.Register == nil || config.Enabled == nil || config.Now == nil {
		return nil, errors.New("build the series: Register, Enabled and Now must be given")
	}
	f := newFamilies()
	for _, table := range []struct {
		prefix string
		rows   []series
	}{{schedulerPrefix, schedulerSeries()}, {"", claimSeries()}, {berthPrefix, berthSeries()}} {
		for i := range table.rows {
			if gate := table.rows[i].gate; gate == "" || config.Enabled(gate) {
				f.add(table.prefix, &table.rows[i])
			}
		}
	}
	// Last: when everything is reset, what was looked up before is stale only after the others have forgotten it.
	resets := &resets{}
	for _, family := range append(f.all, resets) {
		if err := config.Register(family); err != nil {
			return nil, fmt.Errorf("register the series %s: %w", family.FQName(), err)
		}
	}
	return &Metrics{Loop: newLoop(f, resets, config.Version), Commit: newCommit(f, resets, config.Now)}, nil
}

// resets counts how often the registry was reset, as DELETE /metrics does. Members of families that were looked up before are no longer
// shown then, and must be looked up again. It poses as a family without series, since that is what a registry tells of resets.
type resets struct{ count atomic.Uint64 }

// Reset is called by the registry.
func (r *resets) Reset() { r.count.Add(1) }

// Create reports that there is nothing to hide.
func (r *resets) Create(*semver.Version) bool { return true }

// ClearState has nothing to clear.
func (r *resets) ClearState() {}

// FQName names it in errors.
func (r *resets) FQName() string { return "berth_resets" }

// Describe describes nothing.
func (r *resets) Describe(chan<- *prometheus.Desc) {}

// Collect gives nothing.
func (r *resets) Collect(chan<- prometheus.Metric) {}

// total counts up to what somebody else has counted. The counter may be reset; what is added is the difference to the last report.
type total struct {
	counter metrics.CounterMetric
	seen    int64
}

func (t *total) reach(now int64) {
	if now > t.seen {
		t.counter.Add(float64(now - t.seen))
	}
	t.seen = now
}
