package report

import (
	"encoding/json"
	"fmt"
	"time"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model/plan"
)

// reasonScheduled is that of a group whose condition is True, for which the API has no constant.
const reasonScheduled = "Scheduled"

// ConditionOfGroup is the condition that a decision about a pod group would set if the PodGroup had none. It has no time.
func ConditionOfGroup(d *plan.GroupDecision) metav1.Condition {
	condition := metav1.Condition{
		Type: schedulingv1beta1.PodGroupInitiallyScheduled, Status: metav1.ConditionFalse, Message: d.Message, ObservedGeneration: d.Group.Object.Generation,
	}
	switch d.Outcome {
	case plan.Placed:
		condition.Status, condition.Reason = metav1.ConditionTrue, reasonScheduled
	case plan.Unschedulable:
		condition.Reason = schedulingv1beta1.PodGroupReasonUnschedulable
	default:
		condition.Reason = schedulingv1beta1.PodGroupReasonSchedulerError
	}
	return condition
}

// OfGroup reports a decision about a pod group as a condition of the PodGroup, which it returns as a write; nil if the condition stays as it is, as far as the
// watch has shown it. Once the condition is True it stays so: it says that the group was scheduled once. It is written again, True or not, for a new generation of the
// PodGroup.
func OfGroup(d *plan.GroupDecision, now time.Time) *plan.Write {
	object := d.Group.Object
	condition := ConditionOfGroup(d)
	condition.LastTransitionTime = metav1.NewTime(now)
	if have := meta.FindStatusCondition(object.Status.Conditions, condition.Type); have != nil {
		if have.Status == condition.Status {
			condition.LastTransitionTime = have.LastTransitionTime
		}
		if have.Status == metav1.ConditionTrue && condition.Status != metav1.ConditionTrue || *have == condition {
			return nil
		}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": object.UID},
		"status":   map[string]any{"conditions": []metav1.Condition{condition}},
	})
	if err != nil {
		panic(fmt.Sprintf("encode the condition of a pod group: %v", err)) // API types can always be encoded
	}
	return &plan.Write{
		Resource: schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups"), Namespace: object.Namespace, Name: object.Name, Subresource: "status",
		Type: types.StrategicMergePatchType, Data: patch, Latest: true,
	}
}
