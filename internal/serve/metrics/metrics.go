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

// Config is the configuration of the series.
type Config struct {
	// Register registers one family, like legacyregistry.Register or a KubeRegistry's
	// Register.
	Register func(metrics.Registerable) error
	// Enabled reports whether a feature gate is on. Families whose gate is off do not
	// exist.
	Enabled func(gate string) bool
	// Now returns the loop's time, as loop.Clock does.
	Now func() time.Time
	// Version is the version in berth_build_info.
	Version string
}

// Metrics are the scheduler's series. Loop and Commit fill them.
type Metrics struct {
	// Loop observes a loop.Loop, Commit a commit.Commit.
	Loop   *Loop
	Commit *Commit
	// External observes calls of out-of-tree plugins.
	External *External
	// Explain observes explain requests.
	Explain *Explain
}

// New builds the series and registers them. Flags that hide or disable families must have
// been applied before.
func New(config Config) (*Metrics, error) {
	if config.Register == nil || config.Enabled == nil || config.Now == nil {
		return nil, errors.New("build the series: Register, Enabled and Now must be given")
	}
	f := newFamilies()
	for _, table := range tables() {
		for i := range table.rows {
			if gate := table.rows[i].gate; gate == "" || config.Enabled(gate) {
				f.add(table.prefix, &table.rows[i])
			}
		}
	}
	// Last: only after the other collectors have been reset are the cached members stale.
	resets := &resets{}
	for _, family := range append(f.all, resets) {
		if err := config.Register(family); err != nil {
			return nil, fmt.Errorf("register the series %s: %w", family.FQName(), err)
		}
	}
	return &Metrics{Loop: newLoop(f, resets, config.Version), Commit: newCommit(f, resets, config.Now),
		External: &External{f.histogramVecs[executionSeries]}, Explain: newExplain(f)}, nil
}

// resets counts the resets of the registry, such as by DELETE /metrics. A reset detaches
// cached members of families, so they must be looked up again. The type is a family
// without series, because a registry calls Reset only on families.
type resets struct{ count atomic.Uint64 }

// Reset counts a reset; the registry calls it.
func (r *resets) Reset() { r.count.Add(1) }

// Create reports that the family is not hidden.
func (r *resets) Create(*semver.Version) bool { return true }

// ClearState has nothing to clear.
func (r *resets) ClearState() {}

// FQName is the name in errors.
func (r *resets) FQName() string { return "berth_resets" }

// Describe describes nothing.
func (r *resets) Describe(chan<- *prometheus.Desc) {}

// Collect returns nothing.
func (r *resets) Collect(chan<- prometheus.Metric) {}

// total makes a counter follow an external count. The counter may be reset; reach adds
// the difference to the last report.
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
