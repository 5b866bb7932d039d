package interpodaffinity_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/internal/engine"
	"github.com/berth-scheduler/berth/internal/engine/enginetest"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/oracle"
	"github.com/berth-scheduler/berth/internal/oracle/random"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/report"
	"github.com/berth-scheduler/berth/internal/state"
)

var (
	seeds = flag.Int("seeds", 4, "how many random clusters to compare with the oracle")
	seed  = flag.Uint64("seed", 0, "the only seed to run, to replay a failure")
)

// TestAgreesWithOracle changes random clusters step by step and asks, after each change, for pods seen before and for new ones: the plugin,
// from counts that follow each change, must say of every node what the oracle says from nothing.
func TestAgreesWithOracle(t *testing.T) {
	random.EverySeed(t, "./internal/plugins/interpodaffinity", *seeds, *seed, agree)
}

// sides are an engine with its state, and the cluster that the oracle sees instead.
type sides struct {
	cluster oracle.Cluster
	oracle  oracle.Profile
	profile *engine.Profile
	engine  *engine.Engine
	state   *state.State
}

func newSides(t *testing.T, r *rand.Rand, n uint64) *sides {
	w := &sides{state: state.New()}
	// Some clusters have hosts enough, and pods few enough of a kind, for groups to be kept as lists, others as arrays.
	w.cluster = random.TopologyCluster(r, random.Size{Nodes: r.IntN(40), Placed: r.IntN(90), Pending: 6})
	w.oracle = random.TopologyProfile(r)
	w.oracle.Disabled["PodTopologySpread"] = true
	w.profile = enginetest.Profile(t, w.oracle)
	var err error
	if w.engine, err = engine.New(engine.Config{Profiles: []*engine.Profile{w.profile}, Seed: n}); err != nil {
		t.Fatal(err)
	}
	w.state.Apply(enginetest.Changes(w.cluster))
	return w
}

func agree(t *testing.T, n uint64) {
	r := random.New(n)
	w := newSides(t, r, n)
	for step := range 80 {
		seen := enginetest.Pending(w.cluster)
		pods := append(seen[:min(3, len(seen))], random.TopologyPod(r, 1000+step))
		for _, pod := range pods {
			asked := model.NewPod(pod)
			w.profile.Compile(asked)
			if diff := enginetest.Compare(w.state, w.engine, asked, oracle.Judge(w.cluster, pod, w.oracle)); diff != "" {
				t.Fatalf("step %d, pod %s: engine (-) and oracle (+) differ:\n%s", step, pod.Name, diff)
			}
		}
		m := random.TopologyChange(r, w.cluster)
		w.cluster = m.After
		w.state.Apply(enginetest.MutationChanges(m))
	}
}

// TestBrokenSelectorsAgreeWithOracle asks for pods with a term that cannot be parsed. The texts of parse errors are the library's, so only who
// rejects the pod is compared.
func TestBrokenSelectorsAgreeWithOracle(t *testing.T) {
	rejected := 0
	for n := range uint64(100) {
		r := random.New(n)
		w := newSides(t, r, n)
		pod := random.WithBrokenSelector(r, random.TopologyPod(r, 1000))
		asked := model.NewPod(pod)
		w.profile.Compile(asked)
		d, want := w.engine.Decide(w.state, plan.Work{Pod: asked}), oracle.Judge(w.cluster, pod, w.oracle)
		if want.PreFilter == nil || want.PreFilter.Plugin != "InterPodAffinity" {
			continue
		}
		rejected++
		if d.Rejection == nil || fmt.Sprint(d.Rejection.Plugins) != "[InterPodAffinity]" || !strings.Contains(report.Message(d), "nodes are available: parsing pod: ") {
			t.Errorf("seed %d: got %+v, want %s", n, d, want.Message)
		}
	}
	if rejected < 20 {
		t.Errorf("only %d pods were rejected", rejected)
	}
}
