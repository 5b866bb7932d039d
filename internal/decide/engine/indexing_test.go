package engine_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// TestIndexAgreesWithScan places and removes pods that are all different, and changes and
// removes nodes in between. The audit compares each decision by the index with the scan.
func TestIndexAgreesWithScan(t *testing.T) {
	for seed := range uint64(build.UnlessRaced(8, 1)) {
		r := rand.New(rand.NewPCG(seed, 1))
		nodes := 20 + r.IntN(150)
		b := newDifferent(t, nodes, 1+39*int(seed%2))
		e, err := engine.New(engine.Config{Profiles: []*plugin.Profile{b.profile}, Seed: seed, Audit: true})
		if err != nil {
			t.Fatal(err)
		}
		b.engine = e
		var placed []model.PodKey
		decided := 0
		for i := range 1500 {
			switch r.IntN(12) {
			case 0:
				n := benchNode(r.IntN(nodes))
				n.Labels["rack"] = fmt.Sprintf("rack-%d", r.IntN(20))
				n.Spec.Unschedulable = r.IntN(4) == 0
				b.state.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(n)}})
			case 1:
				b.state.Apply([]model.Change{{Kind: model.NodeGone, Name: benchNode(r.IntN(nodes)).Name}})
			}
			if n := len(placed); n > 0 && r.IntN(3) == 0 {
				at := r.IntN(n)
				b.state.Apply([]model.Change{{Kind: model.PodGone, Key: placed[at]}})
				placed[at] = placed[n-1]
				placed = placed[:n-1]
			}
			pod := different(r, i, func(i int, p *v1.Pod) { differentShapes[r.IntN(3)].apply(r.IntN(3), p) })
			b.profile.Compile(pod)
			if d := e.Decide(b.state.View(), plan.Alone(pod)); d.Outcome == plan.Placed {
				b.state.Assume(d.Placement)
				placed = append(placed, pod.Key())
				decided++
			}
			if err := e.Audit(); err != nil {
				t.Fatalf("seed %d, pod %d: %v", seed, i, err)
			}
		}
		if indexed := e.Counters().Indexed; indexed < int64(decided)/2 {
			t.Errorf("seed %d: %d of %d decisions by an index", seed, indexed, decided)
		}
	}
}

// TestIndexAgreesWithOracle changes random clusters step by step and compares, after each
// change, the decisions of an engine that uses an index wherever it can.
func TestIndexAgreesWithOracle(t *testing.T) {
	for name, small := range map[string]func(r *rand.Rand) (oracle.Cluster, oracle.Profile){
		"all": func(r *rand.Rand) (oracle.Cluster, oracle.Profile) {
			return random.Cluster(r, random.Size{Nodes: r.IntN(40), Placed: r.IntN(80), Pending: 6}), random.Profile(r)
		},
		"topology": func(r *rand.Rand) (oracle.Cluster, oracle.Profile) {
			return random.TopologyCluster(r, random.Size{Nodes: r.IntN(14), Placed: r.IntN(60), Pending: 6}), oracle.DefaultProfile()
		},
	} {
		var indexed atomic.Int64
		t.Run(name, func(t *testing.T) {
			random.EverySeed(t, "./internal/decide/engine", *seeds, *seed, func(t *testing.T, n uint64) {
				r := random.New(n)
				cluster, profile := small(r)
				p := newPair(t, r, n, cluster, profile)
				p.Engine.AlwaysIndex()
				change := random.Change
				if name == "topology" {
					change = random.TopologyChange
				}
				p.Agree(t, r, 60, pending, change)
				indexed.Add(p.Engine.Counters().Indexed)
			})
		})
		if indexed.Load() == 0 {
			t.Errorf("%s: no decision by an index", name)
		}
	}
}

// TestNewRequestsLookAtFew counts the nodes and boxes that decisions about pods with
// new requests look at. Ten times the nodes may cost four times as much, and no column
// is left behind.
func TestNewRequestsLookAtFew(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	build.NotRaced(t)
	for _, shape := range []int{0, 2} {
		var small int64
		for _, nodes := range []int{1000, 10_000} {
			b := newDifferent(t, nodes, 1)
			r := rand.New(rand.NewPCG(1, 2))
			b.halfFull(r, nodes)
			decide := func(from, pods int) int64 {
				before := b.engine.Counters().Visited
				for i := range pods {
					pod := different(r, from+i, differentShapes[shape].apply)
					b.profile.Compile(pod)
					b.place(t, pod)
				}
				return (b.engine.Counters().Visited - before) / int64(pods)
			}
			decide(0, 40)
			columns, indexed := b.engine.Columns(), b.engine.Counters().Indexed
			visited := decide(1000, 200)
			if n := b.engine.Counters().Indexed - indexed; n < 190 {
				t.Errorf("%s, %d nodes: %d of 200 decisions by an index", differentShapes[shape].name, nodes, n)
			}
			if n := b.engine.Columns(); n > columns {
				t.Errorf("%s, %d nodes: %d columns, %d before", differentShapes[shape].name, nodes, n, columns)
			}
			t.Logf("%s, %d nodes: %d looks a decision", differentShapes[shape].name, nodes, visited)
			if small == 0 {
				small = visited
			} else if visited > 4*small || visited > int64(nodes)/10 {
				t.Errorf("%s: a decision at %d nodes looks at %d boxes and nodes, at 1,000 nodes at %d", differentShapes[shape].name, nodes, visited, small)
			}
		}
	}
}
