package loop

import (
	"errors"

	"github.com/berth-scheduler/berth/internal/kit/audit"
)

// Audit checks the invariants of the state, the queue, the engine and the waits, and
// their consistency with each other. It returns every violation in one error, or nil, and
// changes nothing. It may be called only between rounds, on the goroutine that calls
// Once. Its time is proportional to everything that the loop owns.
func (l *Loop) Audit() error {
	v := audit.Of("loop")
	l.auditPlaces(v)
	l.waits.audit(v)
	return errors.Join(l.state.Audit(), l.queue.Audit(), l.engine.Audit(), v.Err())
}

// auditPlaces checks that a pod is either on a node or waits for one. Pods that are
// assumed in the state must be exactly those that are binding in the queue. A confirmed
// pod must not be in the queue.
func (l *Loop) auditPlaces(v *audit.Violations) {
	for slot := range l.state.Slots() {
		for pod := range l.state.PodsOn(int32(slot)) {
			_, confirmed, _ := l.state.NodeOf(pod.Key())
			if place := l.queue.PlaceOf(pod.Key()); confirmed && place != "" || !confirmed && place != "binding" {
				v.Add("pod %s is on node %s, confirmed: %t, and its place in the queue is %q", pod, pod.NodeName, confirmed, place)
			}
		}
	}
	if binding, assumed := l.queue.Counts().Binding, l.state.Assumed(); binding != assumed {
		v.Add("%d pods are binding in the queue, %d are assumed in the state", binding, assumed)
	}
}

func (ws *waits) audit(v *audit.Violations) {
	listed := 0
	for key, pod := range ws.byPod {
		if pod.placement.Pod.Key() != key {
			v.Add("the waits of pod %s are listed as those of %s", pod.placement.Pod, key)
		}
		for _, w := range pod.waits {
			listed += len(w.refs)
			w.audit(v, ws, pod)
		}
	}
	for ref, list := range ws.byRef {
		if len(list) == 0 {
			v.Add("nothing waits for %v, which byRef has", ref)
		}
		listed -= len(list)
	}
	if listed != 0 || len(ws.touched) > 0 {
		v.Add("byRef lists %d waits less than pods have; %d are touched", listed, len(ws.touched))
	}
}

func (w *wait) audit(v *audit.Violations, ws *waits, pod *waitingPod) {
	if w.pod != pod || w.over || w.touched || len(w.at) != len(w.refs) {
		v.Add("the wait of pod %s for plugin %s is of another pod: %t; over: %t; touched: %t; it has %d positions for %d objects",
			pod.placement.Pod, w.plugin, w.pod != pod, w.over, w.touched, len(w.at), len(w.refs))
		return
	}
	for i, ref := range w.refs {
		if list := ws.byRef[ref]; w.at[i] >= len(list) || list[w.at[i]] != w {
			v.Add("the wait of pod %s for plugin %s is not at position %d of those for %v", pod.placement.Pod, w.plugin, w.at[i], ref)
		}
	}
}
