package engine

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

// A node on which other pods were promised a place must do for a pod both with them, so that it leaves them their room, and without, for
// they may never come (kube-scheduler's two filter passes). There are few such nodes, so they are asked about one by one.

// leaveToPromised drops from e.scan.slots the nodes that would not do if the promised pods were there.
func (e *Engine) leaveToPromised(s *state.State, p *profile, pod *model.Pod) {
	e.compile(p, pod)
	asked := false
	s.EachPromised(pod, func(slot int32, promised []*model.Pod) {
		at, ok := slices.BinarySearch(e.scan.slots, slot)
		if !ok {
			return
		}
		asked = true
		if e.besidePromised(s, p, pod, slot, promised).code != reason.None {
			e.scan.slots = slices.Delete(e.scan.slots, at, at+1)
		}
	})
	if asked {
		e.unpromise(s, p, pod)
	}
}

// objectionsBesidePromised returns, for the nodes that would not do if the promised pods were there, what is then said of them first.
// Such a node is not asked about without them.
func (e *Engine) objectionsBesidePromised(s *state.State, p *profile, pod *model.Pod) map[int32]objection {
	if s.Nominated() == 0 {
		return nil
	}
	said := map[int32]objection{}
	s.EachPromised(pod, func(slot int32, promised []*model.Pod) {
		if o := e.besidePromised(s, p, pod, slot, promised); o.code != reason.None {
			said[slot] = o
		}
	})
	e.unpromise(s, p, pod)
	return said
}

// besidePromised returns the first objection to a node with the promised pods on it. The pod's filters must have been compiled. What counts
// ask of a node must be worked out again afterwards, by unpromise.
func (e *Engine) besidePromised(s *state.State, p *profile, pod *model.Pod, slot int32, promised []*model.Pod) (o objection) {
	s.Try(slot, promised, func() {
		_, _ = e.layer(s, p, pod) // what fails a pod as a whole has been found out before
		o.filter, o.code = e.firstObjection(s.Node(slot))
	})
	return o
}

// unpromise works out again what counts ask of a node as it is.
func (e *Engine) unpromise(s *state.State, p *profile, pod *model.Pod) { _, _ = e.layer(s, p, pod) }
