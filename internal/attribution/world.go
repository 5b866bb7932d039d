package attribution

import (
	"fmt"

	"github.com/berth-scheduler/berth/internal/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/report"
)

// world is a state between both snapshots. It goes from one set of differences to the next by what differs between these alone.
type world struct {
	Cluster
	*Differences
	// old has which units are as in the older snapshot; present the objects that differ as the state has them.
	old     []bool
	present []kinds.Object
	// decisions and replaced are counted; cutShort is set once one of them has reached its bound.
	decisions, replaced int
	cutShort            bool
}

// newWorld begins at the newer snapshot. The pod that is asked about is taken out of the state.
func newWorld(c Cluster, d *Differences) *world {
	w := &world{Cluster: c, Differences: d, old: make([]bool, len(d.units)), present: make([]kinds.Object, len(d.objects))}
	for i := range d.objects {
		w.present[i] = d.objects[i].after
	}
	w.In.Remove(d.key.Ref())
	w.State.Apply(w.In.Drain())
	return w
}

// moveTo makes the state the one in which some units are as in the older snapshot, and all others as in the newer.
func (w *world) moveTo(old func(unit int) bool) {
	var touched []int
	seen := map[int]bool{}
	for u := range w.units {
		if w.old[u] == old(u) {
			continue
		}
		w.old[u] = !w.old[u]
		if at := w.units[u].object; at >= 0 && !seen[at] {
			seen[at] = true
			touched = append(touched, at)
		}
	}
	if len(touched) == 0 {
		return
	}
	var put []kinds.Object
	for _, at := range touched {
		was, is := w.present[at], w.render(&w.objects[at], w.isOld)
		w.present[at] = is
		if is == nil || was != nil && (was.GetUID() != is.GetUID() || isOnNode(was)) {
			w.In.Remove(refOf(was)) // it does not become what it is: another object, or a pod in a version that a pod on its node cannot have
		}
		if is != nil {
			put = append(put, is)
		}
	}
	w.replaced += len(touched)
	w.State.Apply(w.In.Drain())
	for _, o := range put {
		w.In.Set(o)
	}
	w.State.Apply(w.In.Drain())
}

func (w *world) isOld(unit int) bool { return w.old[unit] }

// mayGoOn reports whether a further decision may be made.
func (w *world) mayGoOn() bool {
	if w.decisions >= DecisionsMax || w.replaced >= replacedMax*(len(w.objects)+DecisionsMax) {
		w.cutShort = true
	}
	return !w.cutShort
}

// compiled is the pod as it is in the state that the world is at.
func (w *world) compiled() *model.Pod {
	w.In.Set(w.renderPod(w.isOld))
	return w.In.Drain()[0].Pod
}

// answer decides about the pod in the state that the world is at.
func (w *world) answer() Answer {
	w.decisions++
	pod := w.compiled()
	if _, reason := w.Profiles[pod.SchedulerName].RunPreEnqueue(w.State.View(), pod); reason != "" {
		return Answer{Verdict: Gated, Message: reason}
	}
	d := w.Engine.Decide(w.State.View(), plan.WorkFor(pod))
	return answerOf(&d)
}

// answerOf puts a decision about one pod into a verdict.
func answerOf(d *plan.Decision) Answer {
	pod := d.Pods[0].Pod
	switch nomination := d.NominationOf(pod); {
	case d.Outcome == plan.Placed:
		return Answer{Verdict: Placed, Node: d.Placements[0].NodeName}
	case d.Outcome == plan.Failed:
		return Answer{Verdict: Failed, Message: d.Err.Error()}
	case d.Outcome == plan.Unschedulable && nomination.Mode == plan.Set:
		return Answer{Verdict: Preempts, Node: nomination.NodeName, Message: report.Message(d)}
	}
	return Answer{Verdict: Pending, Message: report.Message(d)}
}

// whole is answer with what each node says.
func (w *world) whole() (Answer, error) {
	w.decisions++
	pod := w.compiled()
	if pod.Malformed != "" {
		return Answer{Verdict: Failed, Message: pod.Malformed}, nil
	}
	full, err := w.Engine.Answer(w.State.View(), pod)
	if err != nil {
		return Answer{}, fmt.Errorf("ask the engine about pod %s: %w", pod, err)
	}
	a := answerOf(&full.Decision)
	if _, reason := w.Profiles[pod.SchedulerName].RunPreEnqueue(w.State.View(), pod); reason != "" {
		a = Answer{Verdict: Gated, Message: reason}
	}
	a.Nodes, a.answers = full.Decision.Nodes, full.Nodes
	for i := range full.Nodes {
		if full.Nodes[i].Feasible {
			a.Feasible++
		}
	}
	return a, nil
}
