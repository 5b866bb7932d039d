package state

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Renominated are nominations that differ from the state's. Out-of-tree plugins change
// nominations during a turn, and the state applies them afterwards. Nil means that none
// differs. A Renominated never changes.
type Renominated struct {
	pods map[types.UID]struct{}
	// Invariant: slots are the keys of on, ascending.
	on    map[int32][]*model.Pod
	slots []int32
}

// Renominated returns the nominations of a view with changes. Pods that are on a node,
// and nodes that do not exist, have none.
func (v View) Renominated(changes []plan.Nomination) *Renominated {
	if len(changes) == 0 {
		return nil
	}
	r := &Renominated{pods: make(map[types.UID]struct{}, len(changes)), on: map[int32][]*model.Pod{}}
	for i := range changes {
		n := &changes[i]
		r.pods[n.Pod.UID] = struct{}{}
		slot, ok := v.Slot(n.NodeName)
		if n.Mode != plan.Set || !ok || v.s.placed[n.Pod.Key()] != nil {
			continue
		}
		if r.on[slot] == nil {
			r.slots = append(r.slots, slot)
		}
		r.on[slot] = append(r.on[slot], n.Pod)
	}
	slices.Sort(r.slots)
	return r
}

// NominatedBeforeWith is NominatedBefore with changed nominations, which come last. The
// slice is valid until the next change.
func (v View) NominatedBeforeWith(r *Renominated, pod *model.Pod, slot int32) []*model.Pod {
	before := v.NominatedBefore(pod, slot)
	if r == nil {
		return before
	}
	before = slices.DeleteFunc(slices.Clone(before), func(other *model.Pod) bool {
		_, changed := r.pods[other.UID]
		// A reservation is no nomination.
		return changed && v.s.nominations.holdFor[other] == nil
	})
	for _, other := range r.on[slot] {
		if v.comesBefore(other, pod) {
			before = append(before, other)
		}
	}
	return before
}

// NominatedBelowWith is NominatedBelow with changed nominations, which come last.
func (v View) NominatedBelowWith(r *Renominated, pod *model.Pod, slot int32) []*model.Pod {
	below := v.NominatedBelow(pod, slot)
	if r == nil {
		return below
	}
	below = slices.DeleteFunc(below, func(other *model.Pod) bool {
		_, changed := r.pods[other.UID]
		return changed
	})
	for _, other := range r.on[slot] {
		known := v.s.nominations.byPod[other.Key()]
		if other.Priority < pod.Priority && known != nil && known.UID == other.UID && !v.d.places(other.Key()) && isNominatedInAPI(known) {
			below = append(below, known)
		}
	}
	return below
}

func isNominatedInAPI(pod *model.Pod) bool { return pod.Object.Status.NominatedNodeName != "" }

// EachNominatedWith is EachNominated with changed nominations.
func (v View) EachNominatedWith(r *Renominated, pod *model.Pod, yield func(slot int32, before []*model.Pod)) {
	if r == nil {
		v.EachNominated(pod, yield)
		return
	}
	slots := slices.Concat(v.s.nominatedSlots(), r.slots)
	slices.Sort(slots)
	for _, slot := range slices.Compact(slots) {
		if before := v.NominatedBeforeWith(r, pod, slot); len(before) > 0 {
			yield(slot, before)
		}
	}
}
