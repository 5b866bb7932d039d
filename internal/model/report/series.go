package report

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
)

// Subject is the pod that an event regards, in the version that was decided about. It
// holds only the fields that the event needs, because it is kept for minutes after the
// pod is deleted.
type Subject struct {
	Namespace, Name string
	UID             types.UID
	ResourceVersion string
	// SchedulerName is the event's reporting controller.
	SchedulerName string
}

// SubjectOf returns the subject of an event about a pod.
func SubjectOf(pod *model.Pod) Subject {
	return Subject{pod.Namespace, pod.Name, pod.UID, pod.Object.ResourceVersion, pod.SchedulerName}
}

// Key returns the pod's namespace and name.
func (s *Subject) Key() model.PodKey { return model.PodKey{Namespace: s.Namespace, Name: s.Name} }

// Series is an event and the number of its occurrences for one version of a pod. The API
// has one object for all of them.
type Series struct {
	Event
	Subject Subject
	// First is the time of the first occurrence, which is part of the object's name. Last
	// is the time of the last one.
	First, Last time.Time
	// Count is at least 1.
	Count int
}
