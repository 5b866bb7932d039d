// Package report puts decisions into the words that kube-scheduler uses.
//
// It takes plan.Decision; it gives the event and the condition that the pod's owner will read. It owns nothing and writes
// nothing: what it returns is carried out by others.
package report

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/plan"
)

// Event is an event about a pod, in the terms of events.k8s.io/v1. A Normal one happens to a pod once: two that say the same are one.
type Event struct {
	Type   string // Normal or Warning
	Reason string
	Action string
	Note   string
}

// Report is what a decision is to be told as. For a pod that got a node, the event holds once the binding succeeded.
type Report struct {
	Event Event
	// Condition is the new PodScheduled condition, nil if it stays as it is. It has no times: whoever writes it knows them.
	Condition *v1.PodCondition
	// ClearNomination says that the pod's nominated node must be taken back.
	ClearNomination bool
}

// noteBytes is the longest note that the events API accepts.
const noteBytes = 1024

// Of reports a decision.
func Of(d plan.Decision) Report {
	switch {
	case d.Settled():
		return Report{Event: Event{
			Type: v1.EventTypeNormal, Reason: "Scheduled", Action: "Binding",
			Note: fmt.Sprintf("Successfully assigned %s to %s", d.Pod, d.NodeName),
		}}
	case d.Err == plan.ErrTerminating:
		return Report{Event: failed(fmt.Sprintf("skip schedule deleting pod: %s", d.Pod))}
	case d.Err == plan.ErrNoNodes:
		return pending(d, v1.PodReasonUnschedulable, d.Err.Error(), true)
	case d.Err != nil:
		return pending(d, v1.PodReasonSchedulerError, d.Err.Error(), true)
	}
	return pending(d, v1.PodReasonUnschedulable, Message(d), false)
}

// OfFailedBinding reports a binding that the API server refused; err says what was being done.
func OfFailedBinding(d plan.Decision, err error) Report {
	return pending(d, v1.PodReasonSchedulerError, err.Error(), true)
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

func pending(d plan.Decision, why, message string, clearNomination bool) Report {
	report := Report{Event: failed(message), ClearNomination: clearNomination && d.Pod.NominatedNode != ""}
	condition := v1.PodCondition{
		Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: why, Message: message,
		ObservedGeneration: d.Pod.Object.Generation,
	}
	if have := ScheduledCondition(d.Pod.Object); have == nil || have.Status != condition.Status ||
		have.Reason != condition.Reason || have.Message != condition.Message {
		report.Condition = &condition
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

// Message is kube-scheduler's text for a pod that no node is feasible for.
func Message(d plan.Decision) string {
	r := d.Rejection
	var b strings.Builder
	fmt.Fprintf(&b, "0/%d nodes are available:", d.Nodes)
	if r.PreFilter != "" {
		fmt.Fprintf(&b, " %s.", r.PreFilter)
		return b.String()
	}
	for i, c := range r.Counts {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %d %s", c.Nodes, c.Reason)
	}
	if len(r.Counts) > 0 {
		b.WriteByte('.')
	}
	return b.String()
}
