package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/elements"
)

// TestRoundsOfFreshNamesAreForgotten decides about rounds of pods that come and go with
// their nodes. Each round has its own names, labels, taints, images, domains, volumes and
// priorities.
//
// Caches stay within their limits. No map or list reachable from the engine has more
// elements than in the first rounds. Long after the last round, only the columns of the
// one remaining pod are left.
func TestRoundsOfFreshNamesAreForgotten(t *testing.T) {
	build.NotRaced(t)
	const rounds, first, rejectionBytes, compiledMost = 90, 45, 20_000, 4096
	b := newBench(t, 3)
	e, err := engine.New(engine.Config{Profiles: []*plugin.Profile{b.profile}, RejectionBytes: rejectionBytes})
	if err != nil {
		t.Fatal(err)
	}
	b.engine = e
	plain := b.pod(0, shapes["plain"])
	idle := func(decisions int) {
		for range decisions {
			b.engine.Decide(b.state.View(), plan.Alone(plain))
		}
	}
	idle(1)
	columns, most := e.Columns(), map[string]int{}
	var did roundWork
	dropped, evicted := false, false
	for round := range rounds {
		compiled, before := e.Compiled(), e.Columns()
		did.add(b.freshRound(round))
		evicted = evicted || e.Compiled() < compiled
		idle(300)
		dropped = dropped || e.Columns() < before
		if rejections, bytes := e.Rejections(); e.Compiled() > compiledMost || bytes > rejectionBytes || rejections == 0 {
			t.Fatalf("round %d: %d compiled needs, %d rejections in %d bytes", round, e.Compiled(), rejections, bytes)
		}
		if round%4 > 0 {
			continue
		}
		if err := e.Audit(); err != nil {
			t.Fatal(err)
		}
		kept := elements.Of(e)
		delete(kept, "state.journal.entries") // bounded by the tests of the state
		for _, name := range slices.Sorted(maps.Keys(kept)) {
			// The size of several caches depends on how full each is; a leak would double
			// it.
			if have := kept[name]; round >= first && have > most[name]+most[name]/10 {
				t.Errorf("%s has %d elements after %d rounds, and had at most %d in the first %d", name, have, round, most[name], first)
			}
			most[name] = max(most[name], kept[name])
		}
		if t.Failed() {
			return
		}
	}
	if did.placed < 5*rounds || did.rejected < 5*rounds || did.evictions < rounds || !dropped || !evicted || e.Columns() < 10*columns {
		t.Errorf("too little has happened to prove anything: %+v, columns dropped: %t, needs evicted: %t, %d columns", did, dropped, evicted, e.Columns())
	}
	idle(4096 + 512)
	if e.Columns() != columns {
		t.Errorf("%d columns are kept for one pod when no other has come for long, want %d", e.Columns(), columns)
	}
}

// roundWork counts the results of the decisions about the pods of rounds.
type roundWork struct{ placed, rejected, evictions int }

func (w *roundWork) add(o roundWork) {
	w.placed, w.rejected, w.evictions = w.placed+o.placed, w.rejected+o.rejected, w.evictions+o.evictions
}

// freshRound adds nodes and pods, some of them feasible and others not, and removes them.
func (b *bench) freshRound(round int) (did roundWork) {
	fresh := fmt.Sprint(round)
	namespace := model.Ref{Kind: model.NamespaceKind, Name: "ns-" + fresh}
	b.state.Apply([]model.Change{{Kind: model.ObjectSet, Ref: namespace, Object: build.Namespace(namespace.Name, "team="+fresh)}})
	gone := []model.Change{{Kind: model.ObjectGone, Ref: namespace}}
	for i := range 2 {
		name := fmt.Sprintf("fresh-%s-%d", fresh, i)
		labels := fmt.Sprintf("kubernetes.io/hostname=%[1]s topology.kubernetes.io/zone=zone-%[2]s pool-%[2]s=yes domain-%[2]s=d-%[3]d", name, fresh, i)
		n := build.Node(name, build.Allocatable("cpu=4 memory=8Gi pods=110"), build.NodeLabels(labels), build.Taints("taint-"+fresh+":NoSchedule"))
		n.Status.Images = []v1.ContainerImage{{Names: []string{"image-" + fresh}, SizeBytes: 1 << 30}}
		b.state.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(n)}})
		gone = append(gone, model.Change{Kind: model.NodeGone, Name: name})
	}
	for i := range 24 {
		f := fmt.Sprintf("%s-%d", fresh, i)
		term := build.Term("domain-"+fresh, "app=a-"+f)
		p := build.Pod(
			build.Named("pod-"+f), build.InNamespace(namespace.Name), build.Labels("app=a-"+f), build.NodeSelector("pool-"+fresh+"=yes"),
			build.Tolerations(v1.Toleration{Key: "taint-" + fresh, Operator: v1.TolerationOpExists}), build.RequiredAntiAffinity(term),
			build.PreferredAffinity(7, build.Term("topology.kubernetes.io/zone", "app=b-"+f, build.NamespaceSelector("team="+fresh))),
			build.DoNotSchedule("domain-"+fresh, "app=a-"+f), build.ScheduleAnyway("kubernetes.io/hostname", "app=a-"+f), build.Container("cpu=100m memory=10Mi"),
		)
		p.UID, p.Spec.SchedulerName, p.Spec.Containers[0].Image = types.UID(f), v1.DefaultSchedulerName, "image-"+fresh
		priority := int32(1000*round + i)
		p.Spec.Priority = &priority
		switch {
		case i == 10 || i == 11: // they take all remaining space
			p.Spec.Containers[0].Resources.Requests = build.Resources("cpu=3400m")
		case i > 20: // and these evict them
			p.Spec.Containers[0].Resources.Requests = build.Resources("cpu=3")
		case i%2 == 1:
			p.Spec.NodeSelector = map[string]string{"nowhere-" + f: "yes"}
		}
		pod := b.compiled(p)
		d := b.engine.Decide(b.state.View(), plan.Alone(pod))
		did.evictions += len(d.Evictions)
		switch d.Outcome {
		case plan.Placed:
			did.placed++
			assume(b.state, d)
			gone = append(gone, model.Change{Kind: model.PodGone, Key: pod.Key()})
		case plan.Unschedulable:
			did.rejected++
		}
	}
	slices.Reverse(gone)
	b.state.Apply(gone)
	return did
}
