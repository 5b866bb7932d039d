package gang

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
)

// A group that evictions cannot help finds that out at each of its attempts, and to take all pods of lower priority off their nodes for that costs as much as there are
// of them. How many members would find a node at most follows from sums that the state keeps by node and priority; and where members are alike, and filters read nothing
// of pods but what they occupy, or where none would find one, so does what the attempt without those pods would end with.

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
		use.RemoveBand(&bands[i])
	}
	for _, pod := range l.otherwise[slot] {
		use.Add(pod, -int(l.sign(pod)))
	}
}

// mostForeseen is of how many kinds the members may be for anything to be foreseen.
const mostForeseen = 16

// sort is members that are decided about alike.
type sort struct {
	pod     *model.Pod // the first
	members int
}

// sorts returns the members that are tried by what decides about them; nil if they are of too many kinds.
func (a *attempt) sorts() (sorts []sort) {
	for _, i := range a.tried {
		pod := a.Members[i].Pods[0].Pod
		at := slices.IndexFunc(sorts, func(s sort) bool {
			return engine.Equal(s.pod, pod) && s.pod.Occupies.Equal(&pod.Occupies) && isPlain(s.pod) && isPlain(pod)
		})
		if at < 0 {
			if len(sorts) == mostForeseen {
				return nil
			}
			at, sorts = len(sorts), append(sorts, sort{pod: pod})
		}
		sorts[at].members++
	}
	return sorts
}

// isPlain reports whether nothing but the pod's needs decides about it.
func isPlain(pod *model.Pod) bool {
	return pod.Volumes == nil && pod.Devices == nil && pod.Malformed == ""
}

// foresight is what is known of an attempt that is not made.
type foresight uint8

const (
	unknown foresight = iota
	// hopeless means that too few members would find a node.
	hopeless
	// foreseen means that it is known, too, what the attempt would end with.
	foreseen
)

// foresee returns what is known of an attempt without the pods that takeOff takes off their nodes. If it is foreseen, short is why too few members would find a node, as
// try would say it.
func (a *attempt) foresee(takeOff func(slot int32, use *state.Use)) (short string, known foresight) {
	sorts := a.sorts()
	if sorts == nil || a.profile == nil || a.tree != nil { // the groups of a tree have room of their own
		return "", unknown
	}
	if a.profile.Placements == nil {
		return a.foreseeOn(nil, sorts, takeOff)
	}
	b := *a
	b.observer = nil // it hears of the result, if it is foreseen
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
	case !exact || len(sorts) > 1 && n > 0: // what one kind takes the others may not have
		return "", hopeless
	case b.scheduled >= b.need:
		return unschedulable, foreseen
	}
	// Those that find none are tried until too few are left.
	b.scheduled += n
	b.remaining = b.need - b.scheduled - 1
	return b.quorum(), foreseen
}
