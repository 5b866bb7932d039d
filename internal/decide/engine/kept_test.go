package engine_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// TestRoomThatIsKept has a single node whose space is held for a group. Other pods would
// fit without that, and some of their rejections are remembered. No pod of lower priority
// is evicted for them. Their nominations end, unless a pod is leaving the node for them.
func TestRoomThatIsKept(t *testing.T) {
	evicted := func(p *v1.Pod) {
		build.Terminating(p)
		p.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler}}
	}
	for name, row := range map[string]struct {
		low  build.PodOption // of the pod on the node
		pod  []build.PodOption
		kept bool
		ends bool // its nomination
	}{
		"it waits":                             {low: ofPriority(1), kept: true},
		"it is nominated":                      {low: ofPriority(1), pod: []build.PodOption{build.NominatedNodeName("n")}, kept: true, ends: true},
		"it is nominated elsewhere":            {low: ofPriority(1), pod: []build.PodOption{build.NominatedNodeName("gone")}, kept: true, ends: true},
		"a pod is leaving for it":              {low: evicted, pod: []build.PodOption{build.NominatedNodeName("n")}, kept: true},
		"a pod of equal priority is leaving":   {low: func(p *v1.Pod) { evicted(p); ofPriority(5)(p) }, pod: []build.PodOption{build.NominatedNodeName("n")}, kept: true, ends: true},
		"it outranks the group":                {low: ofPriority(1), pod: []build.PodOption{ofPriority(6)}},
		"the node has no room for it as it is": {low: ofPriority(9), pod: []build.PodOption{build.Container("cpu=2")}},
	} {
		b := newBench(t, 0)
		plugintest.Set(b.state, build.Node("n", build.Allocatable("cpu=3 pods=9")), build.Pod(build.Named("low"), build.NodeName("n"), build.Container("cpu=1"), row.low))
		of := model.GroupKey{Namespace: "default", Name: "g"}
		member := b.compiled(build.Pod(build.Named("member"), build.Container("cpu=2"), ofPriority(5)))
		b.state.HoldRoom(model.RootKey{Key: of}, []model.GroupKey{of}, []plan.Nomination{{Pod: member, Mode: plan.Set, NodeName: "n"}})
		e, err := engine.New(engine.Config{Profiles: []*plugin.Profile{b.profile}, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, turn := range []string{"first", "again"} {
			pod := build.Pod(append([]build.PodOption{build.Named(turn), build.Container("cpu=1"), ofPriority(5)}, row.pod...)...)
			d := e.Decide(b.state.View(), plan.Alone(b.compiled(pod)))
			if kept := d.Rejection != nil && d.Rejection.HeldRoom; kept != row.kept || (len(d.Nominations) == 1 && d.Nominations[0].Mode == plan.Clear) != row.ends || kept && len(d.Evictions) > 0 {
				t.Errorf("%s, %s: %s, kept: %t, nominations %+v, %d evictions", name, turn, d.Outcome, kept, d.Nominations, len(d.Evictions))
			}
		}
	}
}

// TestProfile finds profiles by scheduler name.
func TestProfile(t *testing.T) {
	b := newBench(t, 0)
	if b.engine.Profile("default-scheduler") != b.profile || b.engine.Profile("other") != nil {
		t.Errorf("%v, %v", b.engine.Profile("default-scheduler"), b.engine.Profile("other"))
	}
}
