package advice

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// TestSearchFindsTheFirst searches step by step in random clusters. It finds the change
// of the pod alone that For sorts first, makes at most one decision per step, and leaves
// the state unchanged.
func TestSearchFindsTheFirst(t *testing.T) {
	found := map[Kind]int{}
	decisions, ofFor := 0, 0
	for seed := range uint64(300) {
		r := random.New(seed)
		size := random.Size{Nodes: 1 + r.IntN(6), Placed: r.IntN(13), Pending: 4}
		var c oracle.Cluster
		switch seed % 3 {
		case 0:
			c = random.Cluster(r, size)
		case 1:
			c = random.TopologyCluster(r, size)
		default:
			c = random.PreemptionCluster(r, size)
		}
		var others []kinds.Object
		for _, o := range c.Others() {
			others = append(others, o.(kinds.Object))
		}
		in, _ := cluster(t, c.Nodes, c.Pods, others...)
		version := in.State.Version()
		for _, pod := range c.Pods {
			if pod.Spec.NodeName != "" || len(pod.Spec.SchedulingGates) > 0 || pod.DeletionTimestamp != nil {
				continue
			}
			question := Question{Pod: pod, OfPod: true}
			in.In.Set(pod)
			if d := in.Engine.Decide(in.State.View(), plan.Alone(in.In.Drain()[0].Pod)); d.Outcome != plan.Unschedulable {
				continue
			}
			want := For(in, question)
			search := NewSearch(Around{State: in.State, Nodes: in.Nodes, In: in.In}, pod, func(p *model.Pod) (string, bool) { return in.Engine.FitsOn(in.State.View(), p, "") })
			steps := 0
			for before := 0; !search.Step(); before = search.Decisions() {
				if steps++; search.Decisions() > before+1 {
					t.Fatalf("seed %d, %s: %d decisions in one step", seed, pod.Name, search.Decisions()-before)
				}
				if steps > 10*MaxDecisions {
					t.Fatalf("seed %d, %s: the search does not end", seed, pod.Name)
				}
			}
			got, compiled := search.Found()
			if decisions, ofFor = decisions+search.Decisions(), ofFor+want.Decisions; search.Decisions() > want.Decisions {
				t.Errorf("seed %d, %s: %d decisions, For makes %d", seed, pod.Name, search.Decisions(), want.Decisions)
			}
			switch {
			case len(want.Suggestions) == 0 && got != nil:
				t.Errorf("seed %d, %s: found %s, want nothing", seed, pod.Name, got.Changes[0].Text)
			case len(want.Suggestions) == 0:
				found["nothing"]++
			case got == nil:
				t.Errorf("seed %d, %s: found nothing, want %s", seed, pod.Name, want.Suggestions[0].Changes[0].Text)
			case got.Changes[0].Text != want.Suggestions[0].Changes[0].Text:
				t.Errorf("seed %d, %s: found %s, want %s", seed, pod.Name, got.Changes[0].Text, want.Suggestions[0].Changes[0].Text)
			default:
				found[got.Changes[0].Kind]++
				changed, _, _ := got.Apply(pod)
				never := v1.PreemptNever
				changed.Spec.PreemptionPolicy = &never
				in.In.Set(changed)
				for _, p := range []*model.Pod{compiled, in.In.Drain()[0].Pod} {
					if _, fits := in.Engine.FitsOn(in.State.View(), p, ""); !fits {
						t.Errorf("seed %d, %s: %s does not help", seed, pod.Name, got.Changes[0].Text)
					}
				}
			}
		}
		// Changes of the pod alone do not touch the state.
		if in.State.Version() != version {
			t.Errorf("seed %d: the state has changed", seed)
		}
	}
	if decisions > ofFor*19/20 { // The search ends with the first kind that helps.
		t.Errorf("%d decisions; For makes %d", decisions, ofFor)
	}
	for _, kind := range []Kind{"nothing", Selector, Tolerate, Request, Skew, Widen, DropSelector, DropAffinity, DropAntiAffinity, DropPort} {
		if found[kind] == 0 {
			t.Errorf("nothing of kind %s was found: the test says nothing about it: %v", kind, found)
		}
	}
}
