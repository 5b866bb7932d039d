package enginetest

import (
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// Pair is an engine and an oracle with the same cluster.
type Pair struct {
	Cluster oracle.Cluster // the oracle's input
	State   *state.State   // the engine's input

	Engine  *engine.Engine
	Profile *plugin.Profile
	Oracle  oracle.Profile
}

// NewPair returns an engine and the oracle with the same cluster and profile. config
// needs no profiles.
func NewPair(t testing.TB, cluster oracle.Cluster, profile oracle.Profile, config engine.Config) *Pair {
	t.Helper()
	return NewPairOf(t, cluster, profile, Profile(t, profile), config)
}

// NewPairOf is NewPair with an engine for another form of the oracle's profile.
func NewPairOf(t testing.TB, cluster oracle.Cluster, of oracle.Profile, profile *plugin.Profile, config engine.Config) *Pair {
	t.Helper()
	p := &Pair{Cluster: cluster, State: state.New(), Profile: profile, Oracle: of}
	config.Profiles, config.Audit = []*plugin.Profile{p.Profile}, true
	var err error
	if p.Engine, err = engine.New(config); err != nil {
		t.Fatal(err)
	}
	p.State.Apply(Changes(cluster))
	return p
}

// Compile compiles a pod for the engine.
func (p *Pair) Compile(pod *v1.Pod) *model.Pod {
	compiled := model.NewPod(pod)
	p.Profile.Compile(compiled)
	return compiled
}

// Compare runs both for a pod and returns the differences, like the function [Compare].
func (p *Pair) Compare(pod *v1.Pod) string {
	return Compare(p.State.View(), p.Engine, p.Compile(pod), oracle.Judge(p.Cluster, pod, p.Oracle))
}

// Agree changes the cluster step by step and fails if the two differ about a pod, or if
// an invariant of the state or of the engine is violated. Before each change it compares
// the two for the pods that ask returns.
func (p *Pair) Agree(t *testing.T, r *rand.Rand, steps int, ask func(step int, c oracle.Cluster) []*v1.Pod, change func(*rand.Rand, oracle.Cluster) random.Mutation) {
	t.Helper()
	for step := range steps {
		for _, pod := range ask(step, p.Cluster) {
			if diff := p.Compare(pod); diff != "" {
				t.Fatalf("step %d, pod %s: engine (-) and oracle (+) differ:\n%s", step, pod.Name, diff)
			}
		}
		if err := p.Engine.Audit(); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		mutation := change(r, p.Cluster)
		p.Cluster = mutation.After
		p.State.Apply(MutationChanges(mutation))
		if err := p.State.Audit(); err != nil {
			t.Fatalf("after step %d: %v", step, err)
		}
	}
}
