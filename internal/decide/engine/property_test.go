package engine_test

import (
	"flag"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

var (
	seeds = flag.Int("seeds", build.UnlessRaced(20, 3), "how many random clusters to compare with the oracle")
	seed  = flag.Uint64("seed", 0, "the only seed to run, to replay a failure")
)

// TestEngineAgreesWithOracle changes random clusters step by step and compares, after
// each change, for old and new pods. The engine's results for every node come from
// columns that follow the journal. They must equal the oracle's, which starts from
// nothing.
func TestEngineAgreesWithOracle(t *testing.T) {
	random.EverySeed(t, "./internal/decide/engine", *seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n)
		cluster := random.Cluster(r, random.Size{Nodes: r.IntN(40), Placed: r.IntN(80), Pending: 6})
		newPair(t, r, n, cluster, random.Profile(r)).Agree(t, r, 60, pending, random.Change)
	})
}

// TestEngineAgreesWithOracleOnTopology does the same with all plugins, and with pods,
// namespaces, services and controllers that relate pods to each other.
func TestEngineAgreesWithOracleOnTopology(t *testing.T) {
	random.EverySeed(t, "./internal/decide/engine", *seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n)
		cluster := random.TopologyCluster(r, random.Size{Nodes: r.IntN(14), Placed: r.IntN(60), Pending: 6})
		newPair(t, r, n, cluster, random.TopologyProfile(r)).Agree(t, r, 60, pending, random.TopologyChange)
	})
}

// newPair has a budget for a few columns, so that eviction is tested, too, or for many,
// so that columns follow the cluster for long.
func newPair(t *testing.T, r *rand.Rand, n uint64, cluster oracle.Cluster, profile oracle.Profile) *enginetest.Pair {
	const columnBytes = 1<<10 + 4*40 // about the size of a column
	config := engine.Config{Seed: n, ColumnBytes: columnBytes * (4 + r.IntN(60))}
	if r.IntN(2) == 0 {
		config.ColumnBytes = 1000 * columnBytes
	}
	return enginetest.NewPair(t, cluster, profile, config)
}

func pending(_ int, c oracle.Cluster) []*v1.Pod { return enginetest.Pending(c) }
