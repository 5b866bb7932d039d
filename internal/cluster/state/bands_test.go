package state

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// TestPreemptionSurvivesRandomHistory changes priorities, start times and amounts of
// pods, budgets, nominations and evictions at random, and recounts.
func TestPreemptionSurvivesRandomHistory(t *testing.T) {
	build.NotRaced(t)
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := New()
		for range 400 {
			s.randomPreemption(r)
			audited(t, s)
		}
		for slot := range s.Slots() {
			if s.alive[slot] {
				s.Apply([]model.Change{nodeGone(s.node[slot].Name)})
			}
		}
		for i := range 12 {
			s.Apply([]model.Change{podGone(fmt.Sprint("p", i))})
		}
		for i := range 3 {
			s.Apply([]model.Change{{Kind: model.ObjectGone, Ref: model.Ref{Kind: model.PodDisruptionBudgetKind, Namespace: fmt.Sprint(i % 2), Name: fmt.Sprint(i)}}})
			s.Apply([]model.Change{{Kind: model.ObjectGone, Ref: model.Ref{Kind: model.PodDisruptionBudgetKind, Namespace: fmt.Sprint(1 - i%2), Name: fmt.Sprint(i)}}})
		}
		if audited(t, s); len(s.byPriority)+len(s.evicted)+len(s.budgets.byNamespace)+s.Nominated() > 0 || s.View().HasBudgets() || s.View().PodsBelow(1<<31-1) {
			t.Errorf("seed %d: the state of an empty cluster is not empty", seed)
		}
	}
}

func (s *State) randomPreemption(r *rand.Rand) {
	name, on := fmt.Sprint("p", r.IntN(12)), fmt.Sprint("n", r.IntN(4))
	set := func(pod *model.Pod) { s.Apply([]model.Change{{Kind: model.PodSet, Pod: pod}}) }
	if r.IntN(2) == 0 {
		s.View().NominatedNodes() // from here on they are updated with each change
	}
	known := s.placed[model.PodKey{Namespace: "ns", Name: name}]
	switch n := r.IntN(20); {
	case n < 2:
		s.Apply([]model.Change{node(on)})
	case n < 3:
		s.Apply([]model.Change{nodeGone(on)})
	case n < 8:
		set(randomVersion(r, name, on))
	case n < 10:
		pod := randomVersion(r, name, "")
		pod.Object.Status.NominatedNodeName = []string{"", "n0", "n1"}[r.IntN(3)]
		set(model.NewPod(pod.Object))
	case n < 11:
		s.Apply([]model.Change{podGone(name)})
	case n < 13:
		if _, ok := s.Slot(on); ok && known == nil {
			s.Assume(plan.Placement{Pod: randomVersion(r, name, ""), NodeName: on})
		}
	case n < 14:
		s.Apply([]model.Change{bindDone(randomVersion(r, name, ""), on, []error{nil, errors.New("refused")}[r.IntN(2)])})
	case n < 16:
		s.Nominate(plan.Nomination{Pod: randomVersion(r, name, ""), Mode: plan.NominationMode(r.IntN(3)), NodeName: on})
	case n < 17 && known != nil:
		s.Evict(plan.Eviction{Pod: known.pod, NodeName: on})
	case n < 18 && known != nil:
		s.Apply([]model.Change{{Kind: model.PreemptionDone, Preemption: &model.PreemptionResult{Kept: []*model.Pod{known.pod}}}})
	case n < 19:
		b := budgetOf(fmt.Sprint(r.IntN(2)), fmt.Sprint(r.IntN(3)), []string{"", "app=web", "app=db", "app in (web, db)", "!app"}[r.IntN(5)], r.Int32N(2))
		s.Apply([]model.Change{compiled(model.NewDisruptionBudget(b))})
	default:
		ref := model.Ref{Kind: model.PodDisruptionBudgetKind, Namespace: fmt.Sprint(r.IntN(2)), Name: fmt.Sprint(r.IntN(3))}
		s.Apply([]model.Change{{Kind: model.ObjectGone, Ref: ref}})
	}
}

// randomVersion is a version of a pod that differs in everything that bands count.
func randomVersion(r *rand.Rand, name, node string) *model.Pod {
	p := podOn(name, fmt.Sprint(r.IntN(2)), node, r.Int64N(4)).Pod.Object
	priority := []int32{-1 << 31, -5, 0, 0, 10, 1<<31 - 1}[r.IntN(6)]
	p.Spec.Priority = &priority
	requests := p.Spec.Containers[0].Resources.Requests
	for _, name := range []v1.ResourceName{v1.ResourceMemory, v1.ResourceEphemeralStorage, "example.com/gpu"} {
		if r.IntN(2) == 0 {
			requests[name] = *resource.NewQuantity(r.Int64N(3), resource.DecimalSI)
		}
	}
	if r.IntN(2) == 0 {
		p.Status.StartTime = &metav1.Time{Time: time.Unix(r.Int64N(5)-1, 0)}
	}
	if r.IntN(5) == 0 {
		p.DeletionTimestamp = &metav1.Time{}
	}
	return model.NewPod(p)
}

// TestBandsAllocateNothing has pods of known priorities come, start and go: their bands
// allocate nothing once they have enough capacity.
func TestBandsAllocateNothing(t *testing.T) {
	s := New()
	var b bands
	var pods, started []*model.Pod
	for i, priority := range []int32{0, 10, 1000, 10} {
		p := podOn(fmt.Sprint("p", i), fmt.Sprint(i), "a", 1).Pod.Object
		p.Spec.Priority = &priority
		pods = append(pods, model.NewPod(p))
		p = p.DeepCopy()
		p.Status.StartTime = &metav1.Time{Time: time.Unix(int64(i), 0)}
		started = append(started, model.NewPod(p))
	}
	turn := func() {
		for i, p := range pods {
			b.count(p, +1)
			s.countPriority(p.Priority, +1)
			b.restart(p, started[i])
		}
		for _, p := range started {
			b.count(p, -1)
			s.countPriority(p.Priority, -1)
		}
	}
	if turn(); len(b) > 0 {
		t.Errorf("left over: %+v", b)
	}
	if n := testing.AllocsPerRun(100, turn); n > 0 {
		t.Errorf("bands of pods that come and go make %v allocations", n)
	}
}
