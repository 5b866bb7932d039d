package interpodaffinity_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/engine"
	"github.com/berth-scheduler/berth/internal/engine/enginetest"
	"github.com/berth-scheduler/berth/internal/oracle"
	"github.com/berth-scheduler/berth/internal/oracle/random"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/report"
)

var (
	seeds = flag.Int("seeds", 4, "how many random clusters to compare with the oracle")
	seed  = flag.Uint64("seed", 0, "the only seed to run, to replay a failure")
)

// TestAgreesWithOracle changes random clusters step by step and compares, after each change, for old and new pods: the plugin's results for
// every node, from counts that follow each change, must equal the oracle's, which starts from nothing.
func TestAgreesWithOracle(t *testing.T) {
	random.EverySeed(t, "./internal/plugins/interpodaffinity", *seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n)
		newPair(t, r, n).Agree(t, r, 80, func(step int, c oracle.Cluster) []*v1.Pod {
			seen := enginetest.Pending(c)
			return append(seen[:min(3, len(seen))], random.TopologyPod(r, 1000+step))
		}, random.TopologyChange)
	})
}

func newPair(t *testing.T, r *rand.Rand, n uint64) *enginetest.Pair {
	// Some clusters have so many hosts, and so few pods with a term, that carriers are kept as lists, others as arrays.
	cluster := random.TopologyCluster(r, random.Size{Nodes: r.IntN(40), Placed: r.IntN(90), Pending: 6})
	profile := random.TopologyProfile(r)
	profile.Disabled["PodTopologySpread"] = true
	return enginetest.NewPair(t, cluster, profile, engine.Config{Seed: n})
}

// TestBrokenSelectorsAgreeWithOracle compares for pods with a term that cannot be parsed. The texts of parse errors are the library's, so only
// the rejecting plugin is compared.
func TestBrokenSelectorsAgreeWithOracle(t *testing.T) {
	rejected := 0
	for n := range uint64(100) {
		r := random.New(n)
		pair := newPair(t, r, n)
		pod := random.WithBrokenSelector(r, random.TopologyPod(r, 1000))
		d, want := pair.Engine.Decide(pair.State.View(), plan.WorkFor(pair.Compile(pod))), oracle.Judge(pair.Cluster, pod, pair.Oracle)
		if want.PreFilter == nil || want.PreFilter.Plugin != "InterPodAffinity" {
			continue
		}
		rejected++
		if d.Rejection == nil || fmt.Sprint(d.Rejection.Plugins) != "[InterPodAffinity]" || !strings.Contains(report.Message(&d), "nodes are available: parsing pod: ") {
			t.Errorf("seed %d: got %+v, want %s", n, d, want.Message)
		}
	}
	if rejected < 20 {
		t.Errorf("only %d pods were rejected", rejected)
	}
}
