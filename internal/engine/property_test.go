package engine_test

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/berth-scheduler/berth/internal/engine"
	"github.com/berth-scheduler/berth/internal/engine/enginetest"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/oracle"
	"github.com/berth-scheduler/berth/internal/oracle/random"
	"github.com/berth-scheduler/berth/internal/state"
)

var (
	seeds = flag.Int("seeds", 30, "how many random clusters to compare with the oracle")
	seed  = flag.Uint64("seed", 0, "the only seed to run, to replay a failure")
)

// TestEngineAgreesWithOracle changes random clusters step by step and asks, after each change, for pods seen before and for new
// ones: the engine, from columns that follow the journal, must say of every node what the oracle says from nothing.
func TestEngineAgreesWithOracle(t *testing.T) {
	random.EverySeed(t, "./internal/engine", *seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n)
		cluster := random.Cluster(r, random.Size{Nodes: r.IntN(40), Placed: r.IntN(80), Pending: 6})
		agree(t, r, n, cluster, random.Profile(r), random.Change)
	})
}

// TestEngineAgreesWithOracleOnTopology does the same with all plugins on, and with pods, namespaces, services and controllers that relate
// pods to each other.
func TestEngineAgreesWithOracleOnTopology(t *testing.T) {
	random.EverySeed(t, "./internal/engine", *seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n)
		cluster := random.TopologyCluster(r, random.Size{Nodes: r.IntN(14), Placed: r.IntN(60), Pending: 6})
		agree(t, r, n, cluster, random.TopologyProfile(r), random.TopologyChange)
	})
}

func agree(t *testing.T, r *rand.Rand, n uint64, cluster oracle.Cluster, profile oracle.Profile, change func(*rand.Rand, oracle.Cluster) random.Mutation) {
	enginesProfile := enginetest.Profile(t, profile)
	// A small column budget makes eviction part of what is tested.
	e, err := engine.New(engine.Config{Profiles: []*engine.Profile{enginesProfile}, Seed: n, ColumnBytes: 4 * 40 * (4 + r.IntN(60))})
	if err != nil {
		t.Fatal(err)
	}
	s := state.New()
	s.Apply(enginetest.Changes(cluster))
	for step := range 60 {
		for _, pod := range enginetest.Pending(cluster) {
			compiled := model.NewPod(pod)
			enginesProfile.Compile(compiled)
			if diff := enginetest.Compare(s, e, compiled, oracle.Judge(cluster, pod, profile)); diff != "" {
				t.Fatalf("step %d, pod %s: engine (-) and oracle (+) differ:\n%s", step, pod.Name, diff)
			}
		}
		m := change(r, cluster)
		cluster = m.After
		s.Apply(enginetest.MutationChanges(m))
	}
}
