package preempt_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// TestOrderAgreesWithThePlainSearch has preemptors of few kinds return again and again,
// so that nodes are tried by a cached order. All kinds of changes happen in between. Most
// nodes are alike, so that ties decide.
func TestOrderAgreesWithThePlainSearch(t *testing.T) {
	build.NotRaced(t)
	found := map[bool]int{}
	var looked, nodes int64
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			c := newClusterFor(t, config.Releases()[seed%2], seed)
			c.compareSearches(t, seed, found)
			w := &world{r: r, c: c}
			for range 20 {
				w.addNode()
			}
			for i := range w.nodes { // full, so that no pod finds a node
				for j := range 4 {
					p := build.Pod(build.Named(fmt.Sprint("full", i, "-", j)), build.NodeName(fmt.Sprint("n", i)), priority(pick(r, 0, 0, 0, 10)), build.Container("cpu=2"), build.Labels("app="+pick(r, "a", "b")))
					w.pods = append(w.pods, p)
					w.set(p)
				}
			}
			kinds := [][]build.PodOption{
				{build.Container("cpu=2"), priority(20)},
				{build.Container("cpu=2"), priority(100)},
				{build.Container("cpu=6"), priority(20)},
				{build.Container("cpu=7 memory=8Gi"), priority(1)},
				{build.Container("cpu=2"), priority(20), build.NodeSelector(v1.LabelTopologyZone + "=z1")},
				{build.Container("cpu=1"), priority(20), hostPort(80)},
				{build.Container("cpu=2"), priority(20), build.RequiredAntiAffinity(build.Term(v1.LabelHostname, "app=a"))},
				{build.Container("cpu=2"), priority(1), build.DoNotSchedule(v1.LabelTopologyZone, "app=a"), build.Labels("app=a")},
			}
			for step := range 150 {
				w.change()
				if r.IntN(15) == 0 { // a node goes, with its pods
					name := fmt.Sprint("n", r.IntN(w.nodes))
					for _, p := range w.pods {
						if p.Spec.NodeName == name {
							c.state.Apply([]model.Change{{Kind: model.PodGone, Key: model.NewPod(p).Key()}})
						}
					}
					c.state.Apply([]model.Change{{Kind: model.NodeGone, Name: name}})
				}
				pod := build.Pod(append(kinds[min(r.IntN(len(kinds)), r.IntN(len(kinds)))], build.Named(fmt.Sprint("p", step)))...)
				before := c.engine.Counters().Looked
				d := c.decide(pod)
				if d.Outcome == plan.Unschedulable {
					looked, nodes = looked+c.engine.Counters().Looked-before, nodes+3*int64(c.state.Nodes())
				}
				if d.Outcome == plan.Unschedulable && r.IntN(6) == 0 {
					plugintest.Set(c.state, pod)
					w.carryOut(d)
				}
				if err := errors.Join(c.engine.Audit(), c.state.Audit()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	t.Logf("found or not: %v; %d looks at nodes, where each search of all would take %d", found, looked, nodes)
	if found[true] < 1000 || found[false] < 100 || 3*looked > 2*nodes {
		t.Errorf("found or not: %v; %d looks at nodes, where each search of all would take %d", found, looked, nodes)
	}
}
