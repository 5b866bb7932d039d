package report_test

import (
	"encoding/json"
	"testing"
	"time"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
)

// TestConditionOfAGroup decides about a PodGroup with or without a condition. Differences
// are written, with the time of the last change of the status. True never changes.
func TestConditionOfAGroup(t *testing.T) {
	now, before := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	shown := func(status metav1.ConditionStatus, reason, message string) *metav1.Condition {
		return &metav1.Condition{Type: "PodGroupInitiallyScheduled", Status: status, Reason: reason, Message: message, LastTransitionTime: before, ObservedGeneration: 4}
	}
	of := func(generation int64, c *metav1.Condition) *metav1.Condition {
		c.ObservedGeneration = generation
		return c
	}
	const at, then = `"2026-01-02T00:00:00Z"`, `"2026-01-01T00:00:00Z"`
	for _, row := range []struct {
		name    string
		shown   *metav1.Condition
		outcome plan.Outcome
		message string
		// written reason, message, status and time; empty if nothing is written
		want string
	}{
		{"scheduled", nil, plan.Placed, "", `"lastTransitionTime":` + at + `,"message":"","observedGeneration":4,"reason":"Scheduled","status":"True"`},
		{"unschedulable", nil, plan.Unschedulable, "no room", `"lastTransitionTime":` + at + `,"message":"no room","observedGeneration":4,"reason":"Unschedulable","status":"False"`},
		{"failed", nil, plan.Failed, "broken", `"lastTransitionTime":` + at + `,"message":"broken","observedGeneration":4,"reason":"SchedulerError","status":"False"`},
		{"still unschedulable", shown("False", "Unschedulable", "no room"), plan.Unschedulable, "no room", ""},
		{"another message", shown("False", "Unschedulable", "little room"), plan.Unschedulable, "no room",
			`"lastTransitionTime":` + then + `,"message":"no room","observedGeneration":4,"reason":"Unschedulable","status":"False"`},
		{"another reason", shown("False", "SchedulerError", "no room"), plan.Unschedulable, "no room",
			`"lastTransitionTime":` + then + `,"message":"no room","observedGeneration":4,"reason":"Unschedulable","status":"False"`},
		{"at last", shown("False", "Unschedulable", "no room"), plan.Placed, "", `"lastTransitionTime":` + at + `,"message":"","observedGeneration":4,"reason":"Scheduled","status":"True"`},
		{"unknown before", shown("Unknown", "Unschedulable", "no room"), plan.Unschedulable, "no room",
			`"lastTransitionTime":` + at + `,"message":"no room","observedGeneration":4,"reason":"Unschedulable","status":"False"`},
		{"scheduled before", shown("True", "Scheduled", ""), plan.Placed, "", ""},
		{"still unschedulable, of another generation", of(3, shown("False", "Unschedulable", "no room")), plan.Unschedulable, "no room",
			`"lastTransitionTime":` + then + `,"message":"no room","observedGeneration":4,"reason":"Unschedulable","status":"False"`},
		{"scheduled before, of another generation", of(3, shown("True", "Scheduled", "")), plan.Placed, "",
			`"lastTransitionTime":` + then + `,"message":"","observedGeneration":4,"reason":"Scheduled","status":"True"`},
		{"scheduled before, of another generation, rejected now", of(3, shown("True", "Scheduled", "")), plan.Unschedulable, "no room", ""},
		{"scheduled before, rejected now", shown("True", "Scheduled", ""), plan.Unschedulable, "no room", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "u", Generation: 4}}
			group.Status.Conditions = []metav1.Condition{{Type: "Other", Status: "True"}}
			if row.shown != nil {
				group.Status.Conditions = append(group.Status.Conditions, *row.shown)
			}
			w := report.WriteAfter(&plan.Attempt{Group: model.NewPodGroup(group), Outcome: row.outcome, Message: row.message}, now)
			if row.want == "" {
				if w != nil {
					t.Errorf("written: %s", w.Data)
				}
				return
			}
			if w == nil {
				t.Fatal("nothing is written")
			}
			// json.Marshal of a map sorts keys, so the text has this order.
			var sorted any
			if err := json.Unmarshal(w.Data, &sorted); err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(sorted)
			if err != nil {
				t.Fatal(err)
			}
			want := `{"metadata":{"uid":"u"},"status":{"conditions":[{` + row.want + `,"type":"PodGroupInitiallyScheduled"}]}}`
			if string(got) != want {
				t.Errorf("written:\n%s\nwant:\n%s", got, want)
			}
			if w.Resource.String() != "scheduling.k8s.io/v1beta1, Resource=podgroups" || w.Namespace != "ns" || w.Name != "g" || w.Subresource != "status" ||
				w.Type != types.StrategicMergePatchType || !w.Latest {
				t.Errorf("the write is %+v", w)
			}
		})
	}
}
