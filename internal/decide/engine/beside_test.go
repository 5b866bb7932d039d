package engine_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// TestRoomBesideNominatedPods preempts on a node to which a pod of higher priority is
// nominated. The preemptor must fit together with that pod, exactly.
func TestRoomBesideNominatedPods(t *testing.T) {
	of := func(name string, priority int32, options ...build.PodOption) *v1.Pod {
		p := build.Pod(append(options, build.Named(name))...)
		p.UID, p.Spec.Priority = types.UID(name), &priority
		return p
	}
	for _, row := range []struct {
		name, node, asks string
		want             string
	}{
		{"cpu to spare", "cpu=4 memory=4Gi pods=9", "cpu=2500m", "n"},
		{"exactly the cpu that is left", "cpu=4 memory=4Gi pods=9", "cpu=3", "n"},
		{"too little cpu", "cpu=4 memory=4Gi pods=9", "cpu=3001m", ""},
		{"exactly the pods that are allowed", "cpu=4 memory=4Gi pods=2", "cpu=1500m", "n"},
		{"too few pods are allowed", "cpu=4 memory=4Gi pods=1", "cpu=1500m", ""},
	} {
		b := newBench(t, 0)
		plugintest.Set(b.state, build.NodesInZones("n=z1", build.Allocatable(row.node))[0],
			of("victim", 1, build.NodeName("n"), build.Container("cpu=3")),
			of("nominated", 100, build.NominatedNodeName("n"), build.Container("cpu=1")))
		d := b.engine.Decide(b.state.View(), plan.Alone(b.compiled(of("preemptor", 50, build.Container(row.asks)))))
		got := ""
		if len(d.Nominations) > 0 && d.Nominations[0].Mode == plan.Set {
			got = d.Nominations[0].NodeName
		}
		if d.Outcome != plan.Unschedulable || got != row.want || len(d.Evictions) != len(row.want) {
			t.Errorf("%s: %v, nominated to %q with %d evictions, want %q (%s)", row.name, d.Outcome, got, len(d.Evictions), row.want, d.PostFilter)
		}
	}
}
