package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-scheduler/berth/internal/model/report"
)

// Record creates an event of events.k8s.io/v1, with its series after a repetition. The
// event's name is deterministic. So if the response was lost and the event is sent again,
// it is stored once, and the error is AlreadyExists.
func (w *Writer) Record(ctx context.Context, event *report.Series) error {
	object := w.compose(event)
	// Not Events().Create, which would decode the response.
	return w.client.EventsV1().RESTClient().Post().Namespace(object.Namespace).Resource("events").Body(object).MaxRetries(once).Do(ctx).Error()
}

// Repeat patches the count and the last time of an event. If the API server does not have
// the event, the error is NotFound.
func (w *Writer) Repeat(ctx context.Context, event *report.Series) error {
	data, err := patchOf(event)
	if err != nil {
		return fmt.Errorf("put the series of event %s of %s into words: %w", event.Reason, event.Subject.Key(), err)
	}
	return w.client.EventsV1().RESTClient().Patch(types.StrategicMergePatchType).Namespace(namespaceOf(event)).Resource("events").
		Name(eventName(event)).Body(data).MaxRetries(once).Do(ctx).Error()
}

// patchOf returns the patch of an event's series, as client-go's recorder builds it.
func patchOf(event *report.Series) ([]byte, error) {
	return json.Marshal(struct {
		Series *eventsv1.EventSeries `json:"series"`
	}{seriesOf(event)})
}

// compose returns the API object of an event, as client-go's recorder builds it.
func (w *Writer) compose(event *report.Series) *eventsv1.Event {
	subject := &event.Subject
	object := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: eventName(event), Namespace: namespaceOf(event)},
		EventTime:           metav1.MicroTime{Time: event.First},
		ReportingController: subject.SchedulerName,
		ReportingInstance:   subject.SchedulerName + "-" + w.host,
		Action:              event.Action,
		Reason:              event.Reason,
		Regarding: v1.ObjectReference{
			Kind: "Pod", APIVersion: "v1", Namespace: subject.Namespace, Name: subject.Name, UID: subject.UID, ResourceVersion: subject.ResourceVersion,
		},
		Note: event.Note,
		Type: event.Type,
	}
	if event.Count > 1 {
		object.Series = seriesOf(event)
	}
	return object
}

func seriesOf(event *report.Series) *eventsv1.EventSeries {
	return &eventsv1.EventSeries{Count: int32(min(event.Count, math.MaxInt32)), LastObservedTime: metav1.MicroTime{Time: event.Last}}
}

// namespaceOf returns the namespace of the event's subject, or the default namespace if
// it has none.
func namespaceOf(event *report.Series) string {
	return cmp.Or(event.Subject.Namespace, metav1.NamespaceDefault)
}

// eventName builds the name of an event as client-go's recorder does, from the pod's name
// and the nanosecond of the first occurrence. If that is too long, the recorder uses a
// random UUID. Here the UUID is a hash of the event, so that the name is deterministic.
func eventName(event *report.Series) string {
	name := fmt.Sprintf("%s.%x", event.Subject.Name, event.First.UnixNano())
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return uuid.NewSHA1(uuid.Nil, fmt.Appendf(nil, "%s %s", event.Subject.UID, event.First.UTC().Format(time.RFC3339Nano))).String()
	}
	return name
}
