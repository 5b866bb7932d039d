package loop

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/report"
)

// onceForGroup is the rest of a round in which the members of a pod group are decided about.
func (l *Loop) onceForGroup(now time.Time, work plan.Work) {
	group := l.decideGroup(work)
	if group.Outcome == plan.Placed {
		l.state.NoteGroupScheduled(work.Group)
	}
	if group.Outcome != plan.Terminating && (group.Outcome == plan.Placed || !l.state.View().GroupScheduled(work.Group)) {
		if write := report.OfGroup(&group, now); write != nil {
			group.Members[0].Writes = append(group.Members[0].Writes, *write)
		}
	}
	l.report.decided(group.Members...)
	for i := range group.Members {
		l.takeAsked(now, group.Members[i].Nominations)
	}
	l.queue.SettleGroup(now, &group)
	for i := range group.Members {
		l.commit.Start(group.Members[i])
		l.wait(&group.Members[i])
	}
}

// attempt is the turn of a group.
type attempt struct {
	*plan.GroupDecision
	// tried are the positions among Members of those that are not being deleted.
	tried []int
	// need is how many members must have a node, scheduled how many have one so far, remaining how many have not been tried.
	need, scheduled, remaining int
	// placed is how many found one in this turn.
	placed int
}

// decideGroup places the members of a group one after another, each as if those before it were on their nodes. If that is enough of them they are assumed there
// when it returns, and otherwise none is. As in kube-scheduler there is one pass, in the order of the work: feasibility may depend on the order.
func (l *Loop) decideGroup(work plan.Work) plan.GroupDecision {
	d := plan.GroupDecision{Group: work.Group, Members: make([]plan.Decision, len(work.Pods))}
	a := attempt{GroupDecision: &d, need: work.Group.MinCount, scheduled: l.state.View().GroupPlaced(work.Group.Key)}
	for i := range work.Pods {
		m := &d.Members[i]
		m.Work = plan.Work{Pods: work.Pods[i : i+1 : i+1], Group: work.Group}
		m.Nodes = l.state.Nodes()
		if m.Pods[0].Pod.Terminating {
			m.Outcome = plan.Terminating
		} else {
			a.tried = append(a.tried, i)
		}
	}
	if !l.enforces(work) {
		a.need = 1
	}
	if len(a.tried) == 0 {
		d.Outcome = plan.Terminating
		return d
	}
	if err := l.refuses(work.Group, &a); err != nil {
		a.fail(err)
		return d
	}
	l.place(&a)
	return d
}

// enforces reports whether the profile of a group's pods has GangScheduling, without which a gang is no more than a group.
func (l *Loop) enforces(work plan.Work) bool {
	p := l.engine.Profile(work.Pods[0].Pod.SchedulerName)
	return p != nil && slices.ContainsFunc(p.PreEnqueue, func(x plugin.PreEnqueue) bool { return x.Name() == "GangScheduling" })
}

// refuses returns why a group cannot be tried: its members do not belong together, or Berth cannot do it yet.
func (l *Loop) refuses(group *model.PodGroup, a *attempt) error {
	first := a.Members[a.tried[0]].Pods[0].Pod
	check := func(pod *model.Pod) error {
		switch {
		case pod.SchedulerName != first.SchedulerName:
			return fmt.Errorf("all pods in a single pod group should have the same .spec.schedulerName set, got: %q and %q", first.SchedulerName, pod.SchedulerName)
		case pod.Priority != group.Priority:
			return fmt.Errorf("all pods in a single pod group should have the same priority as the pod group's priority, got %d and %d", pod.Priority, group.Priority)
		case pod.PreemptionPolicy() != first.PreemptionPolicy():
			return fmt.Errorf("all pods in a single pod group should have the same preemption policy, got %s and %s", first.PreemptionPolicy(), pod.PreemptionPolicy())
		}
		return nil
	}
	for _, i := range a.tried {
		if err := check(a.Members[i].Pods[0].Pod); err != nil {
			return err
		}
	}
	var others []*model.Pod
	for pod := range l.state.View().GroupMembers(group.Key) {
		others = append(others, pod)
	}
	slices.SortFunc(others, func(a, b *model.Pod) int { return strings.Compare(a.Name, b.Name) })
	for _, pod := range others {
		if err := check(pod); err != nil {
			return err
		}
	}
	if p := l.engine.Profile(first.SchedulerName); p != nil && p.Outside != nil {
		return errors.New("pod groups beside plugins from outside are not part of this version of Berth")
	}
	return nil
}

// place tries the members.
func (l *Loop) place(a *attempt) {
	a.remaining = len(a.tried)
	text := "pod group is unschedulable, " + a.quorum()
	lost := a.scheduled+a.remaining < a.need
	for n := 0; n < len(a.tried) && !lost; n++ {
		m := &a.Members[a.tried[n]]
		*m = l.engine.Decide(l.state.View(), m.Work)
		a.remaining--
		switch m.Outcome {
		case plan.Placed:
			l.state.Assume(m.Placements...)
			a.scheduled++
			a.placed++
		case plan.Unschedulable:
		default:
			l.takeBack(a)
			a.fail(fmt.Errorf("failed to schedule other pod from a pod group: %s", report.Message(m)))
			return
		}
		if lost = a.scheduled+a.remaining < a.need; lost {
			text = a.quorum()
		}
	}
	switch {
	case !lost && a.placed > 0:
		a.Outcome = plan.Placed
		return
	case !lost:
		text = "pod group is unschedulable"
	}
	l.takeBack(a)
	a.reject(text, l.preemptionOf(a))
}

// quorum says that too few members can have a node.
func (a *attempt) quorum() string {
	return "minCount (" + strconv.Itoa(a.need) + ") cannot be satisfied: " + strconv.Itoa(a.scheduled) + " scheduled, " + strconv.Itoa(a.remaining) + " remaining"
}

// takeBack takes the members off their nodes that were placed in this turn, the last first.
func (l *Loop) takeBack(a *attempt) {
	for _, i := range slices.Backward(a.tried) {
		l.state.Unassume(a.Members[i].Placements...)
	}
}

// reject ends an attempt in which too few members found a node. Members that found none keep their own reasons; the others are told the group's: with what
// preemption adds to it if they had found a node, without if they were not tried.
func (a *attempt) reject(text, preemption string) {
	a.Outcome, a.Message = plan.Unschedulable, text+preemption
	for _, i := range a.tried {
		switch m := &a.Members[i]; m.Outcome {
		case plan.Placed:
			pod := m.Pods[0].Pod
			m.Outcome, m.Placements = plan.Unschedulable, nil
			m.Rejection = &plan.Rejection{Group: "pod group is unschedulable, " + a.Message}
			if pod.NominatedNode != "" {
				m.Nominations = []plan.Nomination{{Pod: pod, Mode: plan.Clear}}
			}
		case plan.Undecided:
			m.Outcome, m.Rejection = plan.Unschedulable, &plan.Rejection{Group: text}
		}
	}
}

// fail ends an attempt with an error. A member that failed itself keeps its own.
func (a *attempt) fail(err error) {
	a.Outcome, a.Message = plan.Failed, err.Error()
	for _, i := range a.tried {
		m := &a.Members[i]
		if m.Outcome == plan.Failed || m.Outcome == plan.NoNodes {
			continue
		}
		pod := m.Pods[0].Pod
		m.Outcome, m.Err, m.Placements, m.Rejection, m.Nominations = plan.Failed, err, nil, nil, nil
		if pod.NominatedNode != "" {
			m.Nominations = []plan.Nomination{{Pod: pod, Mode: plan.Clear}}
		}
	}
}

// preemptionOf returns what kube-scheduler's PodGroupPostFilter plugins add to the text of a group that was rejected. Berth does not evict pods for a group yet; where
// there is nobody to evict, or nobody may be, the texts are kube-scheduler's.
func (l *Loop) preemptionOf(a *attempt) string {
	first := a.Members[a.tried[0]].Pods[0].Pod
	p := l.engine.Profile(first.SchedulerName)
	if p == nil {
		return ""
	}
	has := func(name string) bool {
		return slices.ContainsFunc(p.PostFilters, func(f plugin.PostFilter) bool { return f.Name() == name })
	}
	const prefix = ", pod group preemption: "
	switch {
	case !has("DefaultPreemption"):
		return ""
	case first.NeverPreempts():
		text := prefix + "not eligible due to preemptionPolicy=Never."
		if has("DynamicResources") {
			text = ", deallocation and deletion of ResourceClaims completed" + text
		}
		return text
	case !l.state.View().PodsBelow(first.Priority):
		return prefix + "No preemption victims found for incoming preemptor"
	}
	return prefix + "evicting pods for a pod group is not part of this version of Berth"
}
