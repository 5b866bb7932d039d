package group

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/state"
)

// A group that evictions cannot help finds that out at each of its attempts, and to take all pods of lower priority off their nodes for that costs as much as there are
// of them. Where members are alike, and filters read nothing of pods but what they occupy, how many would find a node follows from sums that the state keeps by
// node and priority, and from that what the attempt without those pods would end with.

// lowerPods are the pods on nodes that may be evicted for a group, as what they occupy.
type lowerPods struct {
	view     state.View
	priority int32
	// otherwise are the pods, by slot, whose group decides whether they may be evicted, and decides otherwise than their own priority.
	otherwise map[int32][]*model.Pod
}

func (a *attempt) lowerPods(v state.View) *lowerPods {
	l := &lowerPods{view: v, priority: a.Group.Priority}
	for slot, pod := range v.RankedOtherwise(l.priority) {
		if l.otherwise == nil {
			l.otherwise = map[int32][]*model.Pod{}
		}
		l.otherwise[slot] = append(l.otherwise[slot], pod)
	}
	return l
}

// any reports whether there are such pods on nodes.
func (l *lowerPods) any() bool {
	for slot := range l.view.EachToChooseAmong(nil) {
		var n int32
		for bands := l.view.Node(slot).Bands(); len(bands) > 0 && bands[0].Priority < l.priority; bands = bands[1:] {
			n += bands[0].Pods
		}
		for _, pod := range l.otherwise[slot] {
			n += l.sign(pod)
		}
		if n > 0 {
			return true
		}
	}
	return false
}

// sign is +1 for a pod of otherwise that may be evicted, although its own priority is too high, and -1 for one that may not.
func (l *lowerPods) sign(pod *model.Pod) int32 {
	if pod.Priority < l.priority {
		return -1
	}
	return +1
}

// takeOff takes what they occupy on a node off its use.
func (l *lowerPods) takeOff(slot int32, use *state.Use) {
	bands := l.view.Node(slot).Bands()
	for i := range bands {
		if bands[i].Priority >= l.priority {
			break
		}
		use.Add(&bands[i].Used, int(bands[i].Pods), -1)
	}
	for _, pod := range l.otherwise[slot] {
		use.Add(&pod.Occupies, 1, -int(l.sign(pod)))
	}
}

// foresee returns why too few members would find a node if the lower pods were gone, as try would say it then. ok is false if that cannot be said from what pods
// occupy, or if enough of them would.
func (a *attempt) foresee(lower *lowerPods) (short string, ok bool) {
	if !a.isUniform() {
		return "", false
	}
	if a.profile.Placements == nil {
		return a.foreseeOn(nil, lower)
	}
	b := *a
	b.observer = nil // it hears of the result, if there is one
	placements, err := b.generate()
	if err != nil || len(placements) == 0 {
		return "", false
	}
	for i := range placements {
		of, ok := a.foreseeOn(placements[i].Nodes, lower)
		if !ok {
			return "", false
		}
		if i == 0 {
			short = of
		}
	}
	if a.observer != nil {
		a.observer.Generated(len(placements))
		for range placements {
			a.observer.Evaluated(false)
		}
	}
	return noneOf(len(placements), short), true
}

// foreseeOn is foresee for the nodes of a domain placement, nil for all.
func (a *attempt) foreseeOn(nodes *state.Restriction, lower *lowerPods) (short string, ok bool) {
	b := *a
	b.count()
	needed := max(1, b.need-b.scheduled)
	n, ok := a.engine.Capacity(lower.view.Restricted(nodes), a.Members[a.tried[0]].Pods[0].Pod, needed, lower.takeOff)
	switch {
	case !ok || n >= needed:
		return "", false
	case b.scheduled >= b.need:
		return unschedulable, true
	}
	// Those that find none are tried until too few are left.
	b.scheduled += n
	b.remaining = b.need - b.scheduled - 1
	return b.quorum(), true
}

// isUniform reports whether all members that are tried are decided about alike, and occupy the same.
func (a *attempt) isUniform() bool {
	v, first := a.state.View(), a.Members[a.tried[0]].Pods[0].Pod
	return !slices.ContainsFunc(a.tried, func(i int) bool {
		pod := a.Members[i].Pods[0].Pod
		return !engine.Equal(first, pod) || !pod.Occupies.Equal(&first.Occupies) || pod.Volumes != nil || pod.Devices != nil || pod.Malformed != "" ||
			v.Nominated() > 0 && v.IsNominated(pod.Key())
	})
}
