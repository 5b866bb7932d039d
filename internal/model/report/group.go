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

// reasonScheduled is the reason of a condition with status True. The API has no constant
// for it.
const reasonScheduled = "Scheduled"

// ConditionAfter returns the condition that an attempt would set on a PodGroup without
// conditions. It has no time.
func ConditionAfter(a *plan.Attempt) metav1.Condition {
	condition := metav1.Condition{
		Type: schedulingv1beta1.PodGroupInitiallyScheduled, Status: metav1.ConditionFalse, Message: a.Message, ObservedGeneration: a.Group.Object.Generation,
	}
	switch a.Outcome {
	case plan.Placed:
		condition.Status, condition.Reason = metav1.ConditionTrue, reasonScheduled
	case plan.Unschedulable:
		condition.Reason = schedulingv1beta1.PodGroupReasonUnschedulable
	default:
		condition.Reason = schedulingv1beta1.PodGroupReasonSchedulerError
	}
	return condition
}

// WriteAfter reports an attempt as a write of the PodGroup's condition. It returns nil if
// the condition in the watched version stays equal. A condition that is
// True never becomes False, because it records that the group was scheduled once. For a
// new generation of the PodGroup the condition is written again.
func WriteAfter(a *plan.Attempt, now time.Time) *plan.Write {
	object := a.Group.Object
	condition := ConditionAfter(a)
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
		// API types can always be encoded.
		panic(fmt.Sprintf("encode the condition of a pod group: %v", err))
	}
	return &plan.Write{
		Resource: schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups"), Namespace: object.Namespace, Name: object.Name, Subresource: "status",
		Type: types.StrategicMergePatchType, Data: patch, Latest: true,
	}
}
