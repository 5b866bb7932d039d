package attribution

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/decide/gang"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
)

// world is a state between both snapshots. Moving from one set of differences to another
// changes only the units in which the two sets differ.
type world struct {
	Cluster
	*Differences
	// old marks the units that are as in the older snapshot. present holds the differing
	// objects as they are in the state.
	old     []bool
	present []kinds.Object
	// decisions, ofMembers (decisions about single members) and replaced are counted.
	// cutShort is set once one of them reaches its limit.
	decisions, ofMembers, replaced int
	cutShort                       bool
}

// newWorld begins at the newer snapshot. It removes the pods to judge from the state.
func newWorld(c Cluster, d *Differences) *world {
	w := &world{Cluster: c, Differences: d, old: make([]bool, len(d.units)), present: make([]kinds.Object, len(d.objects))}
	for i := range d.objects {
		w.present[i] = d.objects[i].after
	}
	for _, key := range d.hidden {
		w.In.Remove(key.Ref())
	}
	w.State.Apply(w.In.Drain())
	return w
}

// moveTo changes the state so that some units are as in the older snapshot, and all
// others as in the newer.
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
			// A plain update is not possible: the object is a different one, or a pod on
			// a node cannot change in this way.
			w.In.Remove(refOf(was))
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

// mayGoOn reports whether another decision may be made.
func (w *world) mayGoOn() bool {
	if w.decisions >= MaxDecisions || w.ofMembers >= maxMemberDecisions || w.replaced >= maxReplaced*(len(w.objects)+MaxDecisions) {
		w.cutShort = true
	}
	return !w.cutShort
}

// compiled returns the pods to judge, as they are in the present state of the world.
func (w *world) compiled() (pods []*model.Pod) {
	for _, pod := range w.renderPods(w.isOld) {
		w.In.Set(pod)
		pods = append(pods, w.In.Drain()[0].Pod)
	}
	return pods
}

// answer decides about the pod or group in the present state of the world.
func (w *world) answer() Answer {
	if w.group != nil {
		return w.ofGroup()
	}
	w.decisions++
	pod := w.compiled()[0]
	if _, reason := w.Profiles[pod.SchedulerName].RunPreEnqueue(w.State.View(), pod); reason != "" {
		return Answer{Verdict: Gated, Message: reason}
	}
	d := w.Engine.Decide(w.State.View(), plan.Alone(pod))
	return answerOf(&d)
}

// answerOf converts a decision about one pod to an answer.
func answerOf(d *plan.Decision) Answer {
	pod := d.Pod
	switch nomination := d.NominationOf(pod); {
	case d.Outcome == plan.Placed:
		return Answer{Verdict: Placed, Node: d.Placement.NodeName}
	case d.Outcome == plan.Failed:
		return Answer{Verdict: Failed, Message: d.Err.Error()}
	case d.Outcome == plan.Unschedulable && nomination.Mode == plan.Set:
		return Answer{Verdict: Preempts, Node: nomination.NodeName, Message: report.Message(d)}
	}
	return Answer{Verdict: Pending, Message: report.Message(d)}
}

// ofGroup is answer for a pod group. All members are decided about together, and the
// placements are reverted.
func (w *world) ofGroup() Answer {
	w.decisions++
	members := w.compiled()
	w.ofMembers += len(members)
	a := Answer{Verdict: Gated, Members: len(members)}
	group := w.State.View().Group(*w.group)
	if group == nil {
		a.Message = fmt.Sprintf("PodGroup %s does not exist", w.group)
		return a
	}
	var pods []plan.QueuedPod
	for _, pod := range members {
		if _, reason := w.Profiles[pod.SchedulerName].RunPreEnqueue(w.State.View(), pod); reason != "" {
			a.Message = fmt.Sprintf("member %s is held back: %s", pod, reason)
			return a
		}
		pods = append(pods, plan.QueuedPod{Pod: pod})
	}
	if len(members) == 0 {
		a.Message = "there are no members"
		return a
	}
	for _, p := range w.Profiles[members[0].SchedulerName].PreEnqueue {
		if p.Group != nil {
			if a.Message = p.Group(group, len(members)); a.Message != "" {
				return a
			}
		}
	}
	// Members are tried in the order after an attempt.
	slices.SortStableFunc(pods, func(x, y plan.QueuedPod) int { return cmp.Compare(x.Pod.Name, y.Pod.Name) })
	d := plan.ForGroup(group, nil, pods)
	gang.Decide(w.State, w.Engine, d, nil)
	a.Message = d.Message
	evicts := false
	for i := range d.Members {
		if m := &d.Members[i]; m.Outcome == plan.Placed {
			a.on = append(a.on, m.Placement.NodeName)
		}
		evicts = evicts || len(d.Members[i].Evictions) > 0
	}
	switch {
	case d.Outcome == plan.Placed:
		a.Verdict, a.Fit, a.Message = Placed, len(a.on), ""
		for i := range slices.Backward(d.Members) {
			if m := &d.Members[i]; m.Outcome == plan.Placed {
				w.State.Unassume(m.Placement)
			}
		}
	case d.Outcome != plan.Unschedulable:
		a.Verdict = Failed
	case evicts:
		a.Verdict = Preempts
	default:
		a.Verdict = Pending
	}
	return a
}

// whole is answer with the results of all nodes.
func (w *world) whole() (Answer, error) {
	if w.group != nil {
		return w.ofGroup(), nil
	}
	w.decisions++
	pod := w.compiled()[0]
	if pod.Malformed != "" {
		return Answer{Verdict: Failed, Message: pod.Malformed}, nil
	}
	full, err := w.Engine.Answer(w.State.View(), pod)
	if err != nil {
		return Answer{}, fmt.Errorf("evaluate pod %s: %w", pod, err)
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
