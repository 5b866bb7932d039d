package gang

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
)

// A group may be beyond the help of preemption, and each of its attempts would find that
// again. Removing all pods of lower priority from their nodes costs time in proportion to
// their number. But the state keeps sums by node and priority. These give an upper bound
// on the members that would find a node.
//
// In two cases the sums even give the exact result of the attempt: if members are alike
// and filters read only resource usage, or if no member would find a node.

// lowerPods are the pods on nodes that may be evicted for a group, as resource usage.
type lowerPods struct {
	view     state.View
	priority int32
	// otherwise are the exceptions, by slot: pods whose group decides whether they may be
	// evicted, against their own priority.
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

// any reports whether nodes have such pods.
func (l *lowerPods) any() bool {
	if !l.view.UnitsBelow(l.priority) {
		return false
	}
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

// sign is +1 for an exception that may be evicted despite its higher priority, and -1 for
// one excluded despite its lower priority.
func (l *lowerPods) sign(pod *model.Pod) int32 {
	if pod.Priority < l.priority {
		return -1
	}
	return +1
}

// takeOff subtracts the usage of these pods on a node.
func (l *lowerPods) takeOff(slot int32, use *state.Use) {
	bands := l.view.Node(slot).Bands()
	for i := range bands {
		if bands[i].Priority >= l.priority {
			break
		}
		use.RemoveBand(&bands[i])
	}
	for _, pod := range l.otherwise[slot] {
		use.Add(pod, -int(l.sign(pod)))
	}
}

// maxForeseen bounds the kinds of members of a prediction.
const maxForeseen = 16

// sort is a kind of members, with equal decisions.
type sort struct {
	pod     *model.Pod // the first
	members int
}

// sorts returns the tried members by kind, or nil if they are of too many kinds.
func (a *attempt) sorts() (sorts []sort) {
	for _, i := range a.tried {
		pod := a.Members[i].Pod
		at := slices.IndexFunc(sorts, func(s sort) bool {
			return engine.Equal(s.pod, pod) && s.pod.Occupies.Equal(&pod.Occupies) && isPlain(s.pod) && isPlain(pod)
		})
		if at < 0 {
			if len(sorts) == maxForeseen {
				return nil
			}
			at, sorts = len(sorts), append(sorts, sort{pod: pod})
		}
		sorts[at].members++
	}
	return sorts
}

// isPlain reports whether the pod's needs alone determine decisions about it.
func isPlain(pod *model.Pod) bool {
	return pod.Volumes == nil && pod.Devices == nil && pod.Malformed == ""
}

// foresight is the certainty of a prediction of an attempt.
type foresight uint8

const (
	unknown foresight = iota
	// hopeless means that too few members would find a node.
	hopeless
	// foreseen means hopeless, with the exact message of the attempt.
	foreseen
)

// foresee predicts, from sums alone, the result of an attempt after removing the takeOff
// pods. If the result is foreseen, short is the reason that try would return.
func (a *attempt) foresee(takeOff func(slot int32, use *state.Use)) (short string, known foresight) {
	sorts := a.sorts()
	// the groups of a tree have separate space
	if sorts == nil || a.profile == nil || a.tree != nil {
		return "", unknown
	}
	if a.profile.Placements == nil {
		return a.foreseeOn(nil, sorts, takeOff)
	}
	b := *a
	b.observer = nil // it gets the result, if it is foreseen
	placements, err := b.generate(model.TreeOf(a.Group), a.within)
	if err != nil || len(placements) == 0 {
		return "", unknown
	}
	known = foreseen
	for i := range placements {
		of, ok := a.foreseeOn(placements[i].Nodes, sorts, takeOff)
		if known = min(known, ok); known == unknown {
			return "", unknown
		}
		if i == 0 {
			short = of
		}
	}
	if known == foreseen && a.observer != nil {
		a.observer.Generated(len(placements))
		for range placements {
			a.observer.Evaluated(false)
		}
	}
	return noneOf(len(placements), short), known
}

// foreseeOn is foresee for the nodes of a domain placement, nil for all.
func (a *attempt) foreseeOn(nodes *state.Restriction, sorts []sort, takeOff func(slot int32, use *state.Use)) (short string, known foresight) {
	b := *a
	b.count()
	needed := max(1, b.need-b.scheduled)
	n, exact := 0, true
	for _, s := range sorts {
		own, is := a.engine.Capacity(a.state.View().Restricted(nodes), s.pod, min(s.members, needed-n), takeOff)
		if exact = exact && is; n+own >= needed {
			return "", unknown
		}
		n += own
	}
	switch {
	case !exact || len(sorts) > 1 && n > 0:
		// one kind may take the space of the others
		return "", hopeless
	case b.scheduled >= b.need:
		return unschedulable, foreseen
	}
	// Members without a node are tried until too few are left.
	b.scheduled += n
	b.remaining = b.need - b.scheduled - 1
	return b.quorum(), foreseen
}
