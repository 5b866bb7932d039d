// Package report formulates decisions in kube-scheduler's words.
//
// It takes a decision or the result of a binding. It returns the event and the condition
// that the pod's owner reads. It owns nothing, and never writes to the API; package
// commit does.
package report

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
)

// Event is an event about a pod, in the terms of events.k8s.io/v1. A Normal event happens
// to a pod once; a Warning may repeat.
type Event struct {
	Type   string // Normal or Warning
	Reason string
	Action string
	Note   string
	// Advised means that the note ends with a suggestion, which is Berth's own.
	Advised bool
}

// Report is the event and the status change of one pod after a decision.
type Report struct {
	Event Event
	// Condition is the new PodScheduled condition; nil if it stays equal. It has no
	// times, because the writer sets them.
	Condition *v1.PodCondition
	// Shown is the condition that stays equal, from the version of the pod that was
	// decided about. It is nil if Condition is set, or if the report is not about the
	// condition.
	Shown *v1.PodCondition
	// Nomination is the change of the pod's nominated node.
	Nomination plan.Nomination
}

// noteBytes is the maximal length of a note in the events API.
const noteBytes = 1024

// OfBinding reports that a pod is bound.
func OfBinding(p *plan.Placement) Report {
	return Report{Event: Event{
		Type: v1.EventTypeNormal, Reason: "Scheduled", Action: "Binding",
		Note: fmt.Sprintf("Successfully assigned %s to %s", p.Pod, p.NodeName),
	}}
}

// OfFailedBinding reports that a pod could not be bound, and ends its nomination. err is
// the failed operation, or the reason of the plugin that rejected the pod in Permit.
func OfFailedBinding(p *plan.Placement, err error, rejected bool) Report {
	nomination, why := plan.Nomination{Pod: p.Pod}, v1.PodReasonSchedulerError
	if p.Pod.NominatedNode != "" {
		nomination.Mode = plan.Clear
	}
	if rejected {
		why = v1.PodReasonUnschedulable
	}
	return pending(p.Pod, why, err.Error(), nomination)
}

// OfWait returns the event at the beginning of a wait.
func OfWait(e *plan.PodEvent) Event {
	return Event{Type: v1.EventTypeNormal, Reason: e.Reason, Action: e.Action, Note: cut(e.Note)}
}

// OfEviction returns the event about a pod that was preempted by another pod. With
// inMemory the victim was not bound yet, so it is not deleted.
func OfEviction(preemptor *model.Pod, nodeName string, inMemory bool) Event {
	return evicted(fmt.Sprintf("Preempted by pod %s on node %s", preemptor.UID, nodeName), inMemory)
}

// OfEvictionForGroup returns the event about a pod that was preempted by a pod group or
// its tree. The node is called "cluster", because kube-scheduler searches the whole
// cluster for such victims.
func OfEvictionForGroup(group *model.PodGroup, tree *model.GroupTree, inMemory bool) Event {
	return evicted(fmt.Sprintf("Preempted by %s %s on node cluster", PreemptorOf(tree), groupUID(group, tree)), inMemory)
}

// PreemptorOf returns kube-scheduler's word for a pod group that preempts. tree is nil
// for a PodGroup without a parent.
func PreemptorOf(tree *model.GroupTree) string {
	if tree != nil {
		return "compositepodgroup"
	}
	return "podgroup"
}

func groupUID(group *model.PodGroup, tree *model.GroupTree) types.UID {
	if tree != nil {
		return tree.Composite.UID()
	}
	return group.UID()
}

func evicted(note string, inMemory bool) Event {
	if inMemory {
		note += " (in kube-scheduler memory)."
	}
	return Event{Type: v1.EventTypeNormal, Reason: "Preempted", Action: "Preempting", Note: cut(note)}
}

// RejectionOf returns kube-scheduler's text for a pod that a plugin rejected in Permit.
// Only the pod's own node counts there.
func RejectionOf(why string) string {
	return rejected(&plan.Decision{Nodes: 1, Rejection: &plan.Rejection{Counts: []reason.Count{{Nodes: 1, Reason: why}}}})
}

// Of reports a decision without a placement to the pod's owner.
func Of(d *plan.Decision) Report {
	pod, why := d.Pod, v1.PodReasonUnschedulable
	switch d.Outcome {
	case plan.Terminating:
		return Report{Event: failed(fmt.Sprintf("skip schedule deleting pod: %s", pod))}
	case plan.Failed:
		why = v1.PodReasonSchedulerError
	}
	report := pending(pod, why, Message(d), d.NominationOf(pod))
	report.Event.advise(d.Advice)
	return report
}

// advise appends a suggestion to the note, unless it is empty or the note would exceed
// noteBytes.
func (e *Event) advise(advice string) {
	if advice == "" || len(e.Note)+1+len(advice) > noteBytes {
		return
	}
	e.Note, e.Advised = e.Note+" "+advice, true
}

func failed(note string) Event {
	return Event{Type: v1.EventTypeWarning, Reason: "FailedScheduling", Action: "Scheduling", Note: cut(note)}
}

func cut(note string) string {
	const ending = " ..."
	if len(note) <= noteBytes {
		return note
	}
	return note[:noteBytes-len(ending)] + ending
}

func pending(pod *model.Pod, why, message string, nomination plan.Nomination) Report {
	report := Report{Event: failed(message), Nomination: nomination}
	condition := v1.PodCondition{
		Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: why, Message: message,
		ObservedGeneration: pod.Object.Generation,
	}
	if have := ScheduledCondition(pod.Object); have == nil || have.Status != condition.Status ||
		have.Reason != condition.Reason || have.Message != condition.Message {
		report.Condition = &condition
	} else {
		report.Shown = have
	}
	return report
}

// ScheduledCondition returns the pod's PodScheduled condition, or nil.
func ScheduledCondition(pod *v1.Pod) *v1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == v1.PodScheduled {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// Message returns the reason why a decision placed no pod, in kube-scheduler's words if
// it has any, and uncut. It is empty if the pods were placed.
func Message(d *plan.Decision) string {
	switch d.Outcome {
	case plan.Unschedulable:
		return rejected(d)
	case plan.Failed:
		return d.Err.Error()
	case plan.Terminating:
		return "the pod is being deleted"
	case plan.NoNodes:
		return "no nodes available to schedule pods"
	}
	return ""
}

// rejected returns the reasons why no node is feasible.
func rejected(d *plan.Decision) string {
	text := d.Rejection.Text(d.Nodes)
	if d.PostFilter != "" {
		text += " " + d.PostFilter
	}
	return text
}
