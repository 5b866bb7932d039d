package gang

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Room returns a nomination for each member of a rejected group or tree that finds a
// node, computed as if the pods that overtook the group were gone. The result is empty if
// the members with a node are fewer than the group needs. Overtaking pods do not outrank
// the group and were created after the last of its members. Pods being deleted count as
// gone, too.
//
// Members get free space first, and then the space of pods that must end. The state is
// unchanged on return. moved is the number of pods temporarily removed from their nodes.
// It is 0 if resource usage alone shows that removing them would not help.
func Room(s *state.State, e *engine.Engine, of *plan.Attempt) (places []plan.Nomination, moved int) {
	s.BeginGroupTurn() // so that members share a claim that none of them has yet
	defer s.EndGroupTurn()
	whole := attempt{Attempt: of, state: s, engine: e, profile: e.Profile(of.First().SchedulerName), tree: of.Tree, maxKept: maxKept}
	var last metav1.Time
	for i := range of.Members {
		pod := of.Members[i].Pod
		if pod.Terminating {
			continue
		}
		whole.tried = append(whole.tried, i)
		if created := pod.Object.CreationTimestamp; last.Before(&created) {
			last = created
		}
	}
	if len(whole.tried) == 0 {
		return nil, 0
	}
	gone := overtakers(s, of, last)
	if len(gone) == 0 || whole.isHopelessWithout(gone) {
		return nil, 0
	}
	w := whole.again()
	// The groups of a tree, and members that must share a domain, are not placed one by
	// one.
	anywhere := of.Tree == nil && (of.Group.Object.Spec.SchedulingConstraints == nil || w.profile == nil || w.profile.Placements == nil)
	if of.Tree == nil {
		w.need = 1
		if w.enforces() {
			w.need = of.Group.MinCount
		}
		w.need -= s.View().GroupPlaced(of.Group.Key)
	}
	w.begin()
	if anywhere {
		// space is free already, but the order of the group's pass does not find it
		if w.fill(); w.placed >= max(1, w.need) {
			w.revert()
			return nil, 0
		}
	}
	s.Displace(gone...)
	defer func() {
		w.revert()
		s.Return(gone...)
	}()
	if anywhere {
		w.fill()
	}
	if anywhere && w.placed >= max(1, w.need) {
		return w.places(), len(gone)
	}
	w.revert()
	if short, err := w.try(); err == nil && short == "" {
		return w.places(), len(gone)
	}
	return nil, len(gone)
}

// isHopelessWithout reports whether, by resource usage alone, too few members would find
// a node if some pods were gone.
func (a *attempt) isHopelessWithout(gone []*model.Pod) bool {
	bySlot := map[int32][]*model.Pod{}
	for _, pod := range gone {
		if slot, ok := a.state.Slot(pod.NodeName); ok {
			bySlot[slot] = append(bySlot[slot], pod)
		}
	}
	_, known := a.foresee(func(slot int32, use *state.Use) {
		for _, pod := range bySlot[slot] {
			use.Add(pod, -1)
		}
	})
	return known != unknown
}

// fill places the members without a node that find one, in their order.
func (a *attempt) fill() {
	b := *a
	b.tried = slices.DeleteFunc(slices.Clone(a.tried), func(i int) bool { return a.Members[i].Outcome == plan.Placed })
	run, following := a.engine.NewRun(), b.following()
	for n, i := range b.tried {
		m := &a.Members[i]
		if *m = run.Decide(a.state.View(), m.Member, following[n]); m.Outcome == plan.Placed {
			a.state.Assume(m.Placement)
			a.placed++
		}
	}
}

// places returns the nodes of the placed members.
func (a *attempt) places() []plan.Nomination {
	var places []plan.Nomination
	for _, i := range a.tried {
		if m := &a.Members[i]; m.Outcome == plan.Placed {
			places = append(places, plan.Nomination{Pod: m.Pod, Mode: plan.Set, NodeName: m.Placement.NodeName})
		}
	}
	return places
}

// overtakers returns the overtaking pods and the pods being deleted, by node and name.
func overtakers(s *state.State, of *plan.Attempt, last metav1.Time) []*model.Pod {
	own := map[model.GroupKey]bool{of.Group.Key: of.Tree == nil}
	if of.Tree != nil {
		for group := range of.Tree.Leaves {
			own[group.Key] = true
		}
	}
	var all []*model.Pod
	for slot, alive := range s.Alive() {
		if !alive {
			continue
		}
		first := len(all)
		for pod := range s.PodsOn(int32(slot)) {
			created := pod.Object.CreationTimestamp
			if pod.Terminating || pod.Priority <= of.Group.Priority && !own[pod.Group] && last.Before(&created) {
				all = append(all, pod)
			}
		}
		slices.SortFunc(all[first:], func(a, b *model.Pod) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
	}
	return all
}
