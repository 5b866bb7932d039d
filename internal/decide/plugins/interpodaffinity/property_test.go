package interpodaffinity_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

var (
	seeds = flag.Int("seeds", 4, "how many random clusters to compare with the oracle")
	seed  = flag.Uint64("seed", 0, "the only seed to run, to replay a failure")
)

// TestAgreesWithOracle changes random clusters step by step, and compares the results for
// old and new pods after each change. The plugin's results come from counts that follow
// each change. They must equal the oracle's for every node, which counts from nothing.
func TestAgreesWithOracle(t *testing.T) {
	random.EverySeed(t, "./internal/decide/plugins/interpodaffinity", *seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n)
		newPair(t, r, n).Agree(t, r, 80, func(step int, c oracle.Cluster) []*v1.Pod {
			seen := enginetest.Pending(c)
			return append(seen[:min(3, len(seen))], random.TopologyPod(r, 1000+step))
		}, random.TopologyChange)
	})
}

func newPair(t *testing.T, r *rand.Rand, n uint64) *enginetest.Pair {
	// Some clusters have so many hosts, and so few pods with a term, that carriers are
	// kept as lists, others as arrays.
	cluster := random.TopologyCluster(r, random.Size{Nodes: r.IntN(40), Placed: r.IntN(90), Pending: 6})
	profile := random.TopologyProfile(r)
	profile.Disabled["PodTopologySpread"] = true
	return enginetest.NewPair(t, cluster, profile, engine.Config{Seed: n})
}

// TestBrokenSelectorsAgreeWithOracle compares for pods with a malformed term. The texts
// of parse errors are the library's, so only the rejecting plugin is compared.
func TestBrokenSelectorsAgreeWithOracle(t *testing.T) {
	rejected := 0
	for n := range uint64(100) {
		r := random.New(n)
		pair := newPair(t, r, n)
		pod := random.WithBrokenSelector(r, random.TopologyPod(r, 1000))
		d, want := pair.Engine.Decide(pair.State.View(), plan.Alone(pair.Compile(pod))), oracle.Judge(pair.Cluster, pod, pair.Oracle)
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

// TestManyTermsAgreeWithOracle is TestAgreesWithOracle for pods, pending and placed, with
// so many terms that these are counted together.
func TestManyTermsAgreeWithOracle(t *testing.T) {
	random.EverySeed(t, "./internal/decide/plugins/interpodaffinity", 2**seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n)
		cluster := random.TopologyCluster(r, random.Size{Nodes: r.IntN(14), Placed: r.IntN(40), Pending: 4})
		for _, p := range cluster.Pods {
			if r.IntN(3) > 0 {
				manyTerms(r, p)
			}
		}
		profile := random.TopologyProfile(r)
		profile.Disabled["PodTopologySpread"] = true
		pair := enginetest.NewPair(t, cluster, profile, engine.Config{Seed: n})
		pair.Agree(t, r, 40, func(step int, c oracle.Cluster) []*v1.Pod {
			seen, own := enginetest.Pending(c), random.TopologyPod(r, 1000+step)
			manyTerms(r, own)
			return append(seen[:min(2, len(seen))], own, random.TopologyPod(r, 2000+step))
		}, func(r *rand.Rand, c oracle.Cluster) random.Mutation {
			m := random.TopologyChange(r, c)
			if m.NewPod != nil && m.OldPod == nil && r.IntN(2) == 0 {
				manyTerms(r, m.NewPod)
			}
			return m
		})
	})
}

// manyTerms gives a pod the terms of other pods. Most are preferred: with many required
// terms no node would be feasible.
func manyTerms(r *rand.Rand, p *v1.Pod) {
	near, apart := &v1.PodAffinity{}, &v1.PodAntiAffinity{}
	required := []int{0, 0, 1, 30}[r.IntN(4)]
	for of := range 60 {
		a := random.TopologyPod(r, of).Spec.Affinity
		if a == nil {
			continue
		}
		if x := a.PodAffinity; x != nil {
			near.PreferredDuringSchedulingIgnoredDuringExecution = append(near.PreferredDuringSchedulingIgnoredDuringExecution, x.PreferredDuringSchedulingIgnoredDuringExecution...)
			if of < required {
				near.RequiredDuringSchedulingIgnoredDuringExecution = append(near.RequiredDuringSchedulingIgnoredDuringExecution, x.RequiredDuringSchedulingIgnoredDuringExecution...)
			}
		}
		if x := a.PodAntiAffinity; x != nil {
			apart.PreferredDuringSchedulingIgnoredDuringExecution = append(apart.PreferredDuringSchedulingIgnoredDuringExecution, x.PreferredDuringSchedulingIgnoredDuringExecution...)
			if of < 2*required {
				apart.RequiredDuringSchedulingIgnoredDuringExecution = append(apart.RequiredDuringSchedulingIgnoredDuringExecution, x.RequiredDuringSchedulingIgnoredDuringExecution...)
			}
		}
	}
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{}
	}
	p.Spec.Affinity.PodAffinity, p.Spec.Affinity.PodAntiAffinity = near, apart
}
