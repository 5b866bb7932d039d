package report

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// costBy describes each kind of work for people.
var costBy = [price.Kinds]string{
	price.Nodes:      "checking nodes",
	price.Counts:     "counting pods for spread constraints and affinity",
	price.Devices:    "searching for devices",
	price.Victims:    "searching for pods to evict",
	price.Placements: "trying one topology domain after another",
}

// Deferred returns the event that tells a pod's owner about an expensive turn and its
// consequence. kube-scheduler has no such event.
func Deferred(pod *model.Pod, d *plan.Deferral) Report {
	note := fmt.Sprintf("Deciding about this pod took about %d ms of work, most of it for %s. Pods of namespace %q now let others of the same priority go first.",
		(d.Units+price.Millisecond-1)/price.Millisecond, costBy[d.Kind], pod.Namespace)
	return Report{Event: Event{Type: v1.EventTypeNormal, Reason: "SchedulingDeferred", Action: "Scheduling", Note: cut(note)}}
}
