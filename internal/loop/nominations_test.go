package loop_test

import (
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// TestDecisionHasTheLastWordAboutNominations has a plugin nominate the pod of the turn
// elsewhere during PostFilter. DefaultPreemption then nominates the pod to a, where it
// evicts pods.
func TestDecisionHasTheLastWordAboutNominations(t *testing.T) {
	c, waiting, _ := defaultParts(t, false)
	changes := ingest.New(c.Compile())
	decider, err := engine.New(engine.Config{Profiles: c.Profiles, Seed: 1, OnPhase: func(p engine.Phase) {
		if p == engine.PostFilter {
			changes.Nominate(model.NominationRequest{Pod: keyOf("p"), UID: "p", NodeName: "elsewhere"})
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	at := &atOnce{changes: changes, made: map[plan.Outcome]int{}}
	l := loop.New(loop.Config{Source: changes, Queue: waiting, Engine: decider, Commit: at})
	changes.Set(build.Node("a", build.Allocatable("cpu=2 memory=8Gi pods=110")))
	changes.Set(lowly("first"))
	changes.Set(lowly("last"))
	pod := ranks("p", "2", 10)
	pod.UID = "p"
	changes.Set(pod)
	l.Once(time.Unix(1_000_000, 0))
	if len(at.last.Evictions) == 0 {
		t.Fatalf("%+v", at.last)
	}
	for node := range l.State().View().NominatedPods() {
		if node != "a" {
			t.Errorf("victims are evicted from a, and the pod is nominated to %s; in kube-scheduler the turn's result comes last", node)
		}
	}
}
