package podtopologyspread_test

import (
	"flag"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/decide/plugins/podtopologyspread"
	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

var (
	seeds = flag.Int("seeds", 15, "how many random clusters to compare with the oracle")
	seed  = flag.Uint64("seed", 0, "the only seed to run, to replay a failure")
)

// TestAgreesWithOracle changes random clusters step by step, and compares the results for
// old and new pods after each change. Results from tallies that were kept up to date must
// equal the oracle's, which counts from nothing.
func TestAgreesWithOracle(t *testing.T) {
	random.EverySeed(t, "./internal/decide/plugins/podtopologyspread", *seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n)
		cluster := random.TopologyCluster(r, random.Size{Nodes: r.IntN(11), Placed: r.IntN(70), Pending: 6})
		profile := random.TopologyProfile(r)
		profile.Disabled["InterPodAffinity"] = true
		pair := enginetest.NewPair(t, cluster, profile, engine.Config{Seed: n})
		pair.Agree(t, r, 50, func(_ int, c oracle.Cluster) []*v1.Pod {
			pending := enginetest.Pending(c)
			if len(pending) > 0 && r.IntN(10) == 0 {
				pending = append(pending, random.WithBrokenSelector(r, pending[0]))
			}
			return pending
		}, random.TopologyChange)
	})
}

func newPlugin(t testing.TB, profile oracle.Profile) *podtopologyspread.Plugin {
	t.Helper()
	p, err := podtopologyspread.New(&profile.Spread)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
