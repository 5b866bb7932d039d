package podtopologyspread_test

import (
	"flag"
	"testing"

	"github.com/berth-scheduler/berth/internal/engine"
	"github.com/berth-scheduler/berth/internal/engine/enginetest"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/oracle"
	"github.com/berth-scheduler/berth/internal/oracle/random"
	"github.com/berth-scheduler/berth/internal/plugins/podtopologyspread"
	"github.com/berth-scheduler/berth/internal/state"
)

var (
	seeds = flag.Int("seeds", 15, "how many random clusters to compare with the oracle")
	seed  = flag.Uint64("seed", 0, "the only seed to run, to replay a failure")
)

// TestAgreesWithOracle changes random clusters step by step and asks, after each change, for pods seen before and for new ones: what follows
// from tallies that were kept up to date must be what the oracle counts from nothing.
func TestAgreesWithOracle(t *testing.T) {
	random.EverySeed(t, "./internal/plugins/podtopologyspread", *seeds, *seed, agree)
}

func agree(t *testing.T, n uint64) {
	r := random.New(n)
	cluster := random.TopologyCluster(r, random.Size{Nodes: r.IntN(11), Placed: r.IntN(70), Pending: 6})
	profile := random.TopologyProfile(r)
	profile.Disabled["InterPodAffinity"] = true
	enginesProfile := enginetest.Profile(t, profile)
	e, err := engine.New(engine.Config{Profiles: []*engine.Profile{enginesProfile}, Seed: n})
	if err != nil {
		t.Fatal(err)
	}
	s := state.New()
	s.Apply(enginetest.Changes(cluster))
	for step := range 50 {
		pending := enginetest.Pending(cluster)
		if len(pending) > 0 && r.IntN(10) == 0 {
			pending = append(pending, random.WithBrokenSelector(r, pending[0]))
		}
		for _, pod := range pending {
			compiled := model.NewPod(pod)
			enginesProfile.Compile(compiled)
			if diff := enginetest.Compare(s, e, compiled, oracle.Judge(cluster, pod, profile)); diff != "" {
				t.Fatalf("step %d, pod %s: engine (-) and oracle (+) differ:\n%s", step, pod.Name, diff)
			}
		}
		m := random.TopologyChange(r, cluster)
		cluster = m.After
		s.Apply(enginetest.MutationChanges(m))
	}
}

func newPlugin(t testing.TB, profile oracle.Profile) *podtopologyspread.Plugin {
	t.Helper()
	p, err := podtopologyspread.New(&profile.Spread)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var _ interface {
	engine.LayerFilterer
	engine.SetScorer
	engine.Waker
} = (*podtopologyspread.Plugin)(nil)
