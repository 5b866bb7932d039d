package report_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/model/report"
)

// shows returns the pod ns/p in generation 3, with these conditions and this nominated
// node.
func shows(nominated string, conditions ...v1.PodCondition) *model.Pod {
	return model.NewPod(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "uid-p", Generation: 3, ResourceVersion: "7"},
		Spec:       v1.PodSpec{SchedulerName: "s"},
		Status:     v1.PodStatus{Conditions: conditions, NominatedNodeName: nominated},
	})
}

func failing(pod *model.Pod, message string) *plan.Decision {
	return &plan.Decision{Member: plan.Alone(pod), Outcome: plan.Failed, Err: errors.New(message)}
}

func rejecting(pod *model.Pod, nodes int, postFilter string) *plan.Decision {
	return &plan.Decision{Member: plan.Alone(pod), Outcome: plan.Unschedulable, Nodes: nodes, PostFilter: postFilter, Rejection: &plan.Rejection{
		Counts: []reason.Count{{Nodes: nodes, Reason: "Insufficient cpu"}}, Plugins: []string{"NodeResourcesFit"},
	}}
}

// TestNoteIsCut has messages around the maximal length of a note in the events API, 1,024
// bytes. As in kube-scheduler, the note is cut by bytes, even within a character, and the
// condition is not cut.
func TestNoteIsCut(t *testing.T) {
	for _, test := range []struct {
		name, message, note string
		valid               bool
	}{
		{"empty", "", "", true},
		{"1,023 bytes", strings.Repeat("a", 1023), strings.Repeat("a", 1023), true},
		{"1,024 bytes", strings.Repeat("a", 1024), strings.Repeat("a", 1024), true},
		{"1,025 bytes", strings.Repeat("a", 1025), strings.Repeat("a", 1020) + " ...", true},
		{"very long", strings.Repeat("ab", 5000), strings.Repeat("ab", 510) + " ...", true},
		{"1,024 bytes of two each", strings.Repeat("é", 512), strings.Repeat("é", 512), true},
		{"two bytes each, cut between characters", strings.Repeat("é", 513), strings.Repeat("é", 510) + " ...", true},
		{"two bytes each, cut amid one", "a" + strings.Repeat("é", 512), "a" + strings.Repeat("é", 509) + "\xc3 ...", false},
		{"four bytes each, cut amid one", "ab" + strings.Repeat("🚢", 300), "ab" + strings.Repeat("🚢", 254) + "\xf0\x9f ...", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := shows("")
			r := report.Of(failing(pod, test.message))
			if r.Event.Note != test.note || len(r.Event.Note) > 1024 || utf8.ValidString(r.Event.Note) != test.valid {
				t.Errorf("the note has %d bytes and ends with %q", len(r.Event.Note), r.Event.Note[max(0, len(r.Event.Note)-10):])
			}
			if r.Condition == nil || r.Condition.Message != test.message {
				t.Errorf("the condition is %v, want the whole message", r.Condition)
			}
		})
	}
	preemptor := shows("")
	if got := report.OfEviction(preemptor, strings.Repeat("n", 1024), false).Note; len(got) != 1024 || !strings.HasSuffix(got, "nnn ...") {
		t.Errorf("the note about an eviction has %d bytes: %q", len(got), got)
	}
}

// TestAdvice adds a suggestion to the note of an event, if it fits after kube-scheduler's
// text, and to nothing else.
func TestAdvice(t *testing.T) {
	pod := shows("")
	const advice = "Would fit."
	for _, bytes := range []int{10, 1024 - len(advice) - 1, 1024 - len(advice), 1024, 2000} {
		message := strings.Repeat("m", bytes)
		plain := report.Of(failing(pod, message))
		d := failing(pod, message)
		d.Advice = advice
		r := report.Of(d)
		want, fits := plain.Event.Note, bytes+1+len(advice) <= 1024
		if fits {
			want = message + " " + advice
		}
		if r.Event.Note != want || r.Event.Advised != fits || len(r.Event.Note) > 1024 {
			t.Errorf("%d bytes: %d bytes, advised %t, end with %q", bytes, len(r.Event.Note), r.Event.Advised, r.Event.Note[max(0, len(r.Event.Note)-15):])
		}
		if *r.Condition != *plain.Condition {
			t.Errorf("%d bytes: the condition is %v", bytes, r.Condition)
		}
	}
}

// TestReports checks the report of each outcome of a decision or a binding.
func TestReports(t *testing.T) {
	pod := shows("")
	rejected := "0/2 nodes are available: 2 Insufficient cpu."
	group := model.NewPodGroup(&schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", Namespace: "ns", UID: "uid-g"}})
	tree := &model.GroupTree{Composite: model.NewCompositeGroup(&schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "ns", UID: "uid-c"}})}
	for _, test := range []struct {
		name      string
		report    report.Report
		event     string // type, reason, action
		note      string
		condition string // status, reason, message; empty if none
	}{
		{"bound", report.OfBinding(&plan.Placement{Pod: pod, NodeName: "n"}), "Normal Scheduled Binding", "Successfully assigned ns/p to n", ""},
		{"rejected", report.Of(rejecting(pod, 2, "")), "Warning FailedScheduling Scheduling", rejected, "False Unschedulable " + rejected},
		{"in vain", report.Of(rejecting(pod, 2, "preemption: no")), "Warning FailedScheduling Scheduling", rejected + " preemption: no", "False Unschedulable " + rejected + " preemption: no"},
		{"failed", report.Of(failing(pod, "broken")), "Warning FailedScheduling Scheduling", "broken", "False SchedulerError broken"},
		{"no nodes", report.Of(&plan.Decision{Member: plan.Alone(pod), Outcome: plan.NoNodes}), "Warning FailedScheduling Scheduling",
			"no nodes available to schedule pods", "False Unschedulable no nodes available to schedule pods"},
		{"terminating", report.Of(&plan.Decision{Member: plan.Alone(pod), Outcome: plan.Terminating}), "Warning FailedScheduling Scheduling", "skip schedule deleting pod: ns/p", ""},
		{"binding failed", report.OfFailedBinding(&plan.Placement{Pod: pod}, errors.New("broken"), false), "Warning FailedScheduling Scheduling", "broken", "False SchedulerError broken"},
		{"rejected at Permit", report.OfFailedBinding(&plan.Placement{Pod: pod}, errors.New("no"), true), "Warning FailedScheduling Scheduling", "no", "False Unschedulable no"},
		{"evicted", report.Report{Event: report.OfEviction(pod, "n", false)}, "Normal Preempted Preempting", "Preempted by pod uid-p on node n", ""},
		{"evicted in memory", report.Report{Event: report.OfEviction(pod, "n", true)}, "Normal Preempted Preempting", "Preempted by pod uid-p on node n (in kube-scheduler memory).", ""},
		{"evicted for a group", report.Report{Event: report.OfEvictionForGroup(group, nil, false)}, "Normal Preempted Preempting", "Preempted by podgroup uid-g on node cluster", ""},
		{"evicted for a tree", report.Report{Event: report.OfEvictionForGroup(group, tree, true)}, "Normal Preempted Preempting",
			"Preempted by compositepodgroup uid-c on node cluster (in kube-scheduler memory).", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := test.report
			if event := fmt.Sprint(r.Event.Type, " ", r.Event.Reason, " ", r.Event.Action); event != test.event || r.Event.Note != test.note {
				t.Errorf("the event is %s: %q", event, r.Event.Note)
			}
			condition := ""
			if c := r.Condition; c != nil {
				condition = fmt.Sprint(c.Status, " ", c.Reason, " ", c.Message)
				if c.Type != v1.PodScheduled || c.ObservedGeneration != 3 || !c.LastTransitionTime.IsZero() || !c.LastProbeTime.IsZero() {
					t.Errorf("the condition is %+v", c)
				}
			}
			if condition != test.condition {
				t.Errorf("the condition is %q, want %q", condition, test.condition)
			}
			if r.Shown != nil {
				t.Errorf("the report says that %v is shown", r.Shown)
			}
		})
	}
	if got := report.RejectionOf("no room"); got != "0/1 nodes are available: 1 no room." {
		t.Errorf("a rejection at Permit reads %q", got)
	}
	if got := report.Message(&plan.Decision{Member: plan.Alone(pod), Outcome: plan.Terminating}); got != "the pod is being deleted" {
		t.Errorf("message %q", got)
	}
	if got := report.Message(&plan.Decision{Member: plan.Alone(pod), Outcome: plan.Placed, Err: errors.New("x")}); got != "" {
		t.Errorf("message of a pod that has a node: %q", got)
	}
}

// TestConditionIsWrittenIfItChanges decides about pods with a condition. It is written
// again if status, reason or message differ, and is Shown otherwise.
func TestConditionIsWrittenIfItChanges(t *testing.T) {
	same := v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: "SchedulerError", Message: "broken", ObservedGeneration: 1}
	with := func(change func(c *v1.PodCondition)) v1.PodCondition {
		c := same
		change(&c)
		return c
	}
	ready := v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionFalse, Reason: "SchedulerError", Message: "broken"}
	for _, test := range []struct {
		name    string
		shown   []v1.PodCondition
		written bool
	}{
		{"none", nil, true},
		{"another condition with these words", []v1.PodCondition{ready}, true},
		{"the same of an older generation", []v1.PodCondition{same}, false},
		{"the same behind another", []v1.PodCondition{ready, same}, false},
		{"another message under the same reason", []v1.PodCondition{with(func(c *v1.PodCondition) { c.Message = "broken again" })}, true},
		{"another reason", []v1.PodCondition{with(func(c *v1.PodCondition) { c.Reason = "Unschedulable" })}, true},
		{"another status", []v1.PodCondition{with(func(c *v1.PodCondition) { c.Status = v1.ConditionUnknown })}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := shows("", test.shown...)
			r := report.Of(failing(pod, "broken"))
			if (r.Condition != nil) != test.written || (r.Shown == nil) != test.written {
				t.Errorf("to be written %v, shown %v", r.Condition, r.Shown)
			}
			if r.Shown != nil && *r.Shown != same {
				t.Errorf("shown is %v", r.Shown)
			}
		})
	}
}

// TestNominations checks the nomination in a report. A decision determines it; a failed
// binding clears the pod's nomination.
func TestNominations(t *testing.T) {
	for _, shown := range []string{"", "a"} {
		pod := shows(shown)
		placement := &plan.Placement{Pod: pod, NodeName: "b"}
		want := plan.Keep
		if shown != "" {
			want = plan.Clear
		}
		for _, rejected := range []bool{false, true} {
			if n := report.OfFailedBinding(placement, errors.New("broken"), rejected).Nomination; n.Mode != want || n.Pod != pod || n.NodeName != "" {
				t.Errorf("after a binding that failed, of a pod that is nominated to %q: %+v", shown, n)
			}
		}
		if n := report.OfBinding(placement).Nomination; n != (plan.Nomination{}) {
			t.Errorf("after a binding: %+v", n)
		}
		for _, mode := range []plan.NominationMode{plan.Clear, plan.Set} {
			d := rejecting(pod, 1, "")
			d.Nominations = []plan.Nomination{{Pod: shows(""), Mode: plan.Set, NodeName: "other"}, {Pod: pod, Mode: mode, NodeName: "n"}}
			d.Nominations[0].Pod.UID, d.Nominations[0].Pod.Name = "uid-q", "q"
			if n := report.Of(d).Nomination; n != d.Nominations[1] {
				t.Errorf("the nomination is %+v, want that of the decision", n)
			}
		}
		if n := report.Of(rejecting(pod, 1, "")).Nomination; n.Mode != plan.Keep {
			t.Errorf("the nomination is %+v although the decision says nothing of it", n)
		}
	}
}

// TestSubject checks the fields that a series keeps of a pod.
func TestSubject(t *testing.T) {
	s := report.SubjectOf(shows(""))
	if s != (report.Subject{Namespace: "ns", Name: "p", UID: "uid-p", ResourceVersion: "7", SchedulerName: "s"}) || s.Key() != (model.PodKey{Namespace: "ns", Name: "p"}) {
		t.Errorf("%+v, %v", s, s.Key())
	}
}
