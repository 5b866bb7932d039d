package kube

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"strings"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/report"
	"github.com/berth-scheduler/berth/internal/terse"
)

// recorder writes events in the terms of events.k8s.io/v1, in one of two ways.
//
// Warnings repeat, as a pod is tried again and again, and go through client-go's broadcaster, which counts repetitions in one
// event. It drops events that come while a thousand wait in its queue, and does not report when it has taken one out. So the recorder
// passes events to it in batches, and waits between two batches until the queue is empty (settle).
//
// A normal event is about something that happens to a pod once. There is nothing to count, and the broadcaster would remember each for six
// minutes; so it is written at once. Its name is derived from its content, so that it is stored once even if it is sent again because the
// response of the API server was lost.
type recorder struct {
	client  kubernetes.Interface
	host    string
	repeats map[string]events.EventRecorder // by scheduler name
	markers events.EventRecorder
	seen    chan struct{} // one token for each warning that the broadcaster has handed to its queues
	sink    *sink
	stop    context.CancelFunc
	flush   func() // logs how much was held back

	turn    chan struct{} // holds a token while a goroutine uses the fields below
	entered int           // warnings passed to the broadcaster whose tokens have not been taken
	marked  bool          // a marker is on its way to the sink
	marks   int           // markers made
}

const (
	// batch is far below the 1,000 events that fit a queue of the broadcaster.
	batch = 256
	// marker is the reporting controller of events that are never written: they only mark a position in the broadcaster's queue.
	marker = "marker"
	// writing is how many events of the broadcaster are written at the same time.
	writing = 128
)

// newRecorder starts recording for the given scheduler names, until close.
func newRecorder(client kubernetes.Interface, schedulers []string) (*recorder, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find the name of this host, which events bear: %w", err)
	}
	log, flush := terse.Logger(klog.Background()) // the broadcaster logs each event that it cannot write
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), log))
	r := &recorder{
		client:  client,
		stop:    stop,
		flush:   flush,
		host:    host,
		repeats: map[string]events.EventRecorder{},
		seen:    make(chan struct{}, batch),
		turn:    make(chan struct{}, 1),
		sink: &sink{
			EventSink: &events.EventSinkImpl{Interface: client.EventsV1()},
			slots:     make(chan struct{}, writing),
			marked:    make(chan struct{}, 1),
		},
	}
	broadcaster := events.NewBroadcaster(r.sink)
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		stop()
		return nil, err
	}
	stopWatcher, err := broadcaster.StartEventWatcher(func(object runtime.Object) {
		if event, ok := object.(*eventsv1.Event); ok && event.ReportingController != marker {
			r.seen <- struct{}{}
		}
	})
	if err != nil {
		stop()
		return nil, err
	}
	r.markers = broadcaster.NewRecorder(scheme.Scheme, marker)
	for _, name := range schedulers {
		r.repeats[name] = broadcaster.NewRecorder(scheme.Scheme, name)
	}
	context.AfterFunc(ctx, func() {
		stopWatcher()
		broadcaster.Shutdown()
	})
	return r, nil
}

// close waits until all recorded events are written, or the context ends, and stops recording. Nothing may be recorded afterwards.
func (r *recorder) close(ctx context.Context) {
	defer r.flush()
	defer r.stop()
	if err := r.settle(ctx); err != nil {
		return
	}
	for range cap(r.sink.slots) {
		select {
		case r.sink.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
}

func (r *recorder) record(ctx context.Context, pod *model.Pod, event report.Event) error {
	if event.Type == v1.EventTypeNormal {
		return r.write(ctx, pod, event)
	}
	repeats, ok := r.repeats[pod.SchedulerName]
	if !ok {
		return fmt.Errorf("record %s of %s: scheduler name %q is not one of ours", event.Reason, pod, pod.SchedulerName)
	}
	if err := r.sink.admit(ctx); err != nil {
		return fmt.Errorf("record %s of %s: %w", event.Reason, pod, err)
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return fmt.Errorf("record %s of %s: %w", event.Reason, pod, context.Cause(ctx))
	}
	if r.entered == batch || r.marked {
		if err := r.settle(ctx); err != nil {
			return fmt.Errorf("record %s of %s: %w", event.Reason, pod, err)
		}
	}
	r.entered++
	repeats.Eventf(pod.Object, nil, event.Type, event.Reason, event.Action, "%s", event.Note)
	return nil
}

// settle waits until the broadcaster has taken every event out of the queue that it writes from. First it waits until a watcher of ours has
// seen them all; by then all are at least in that queue, which is first in, first out. Then it sends a marker after them and waits until
// the sink gets it. If the context ends first, the next call continues. The caller has the turn.
func (r *recorder) settle(ctx context.Context) error {
	for ; r.entered > 0; r.entered-- {
		select {
		case <-r.seen:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if !r.marked {
		r.marks++ // each is different: the broadcaster would count equal ones in one event
		object := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(marker, r.marks)}}
		r.markers.Eventf(object, nil, v1.EventTypeNormal, marker, marker, marker)
		r.marked = true
	}
	select {
	case <-r.sink.marked:
		r.marked = false
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// write sends an event that will not be repeated. It succeeds if the event exists already.
func (r *recorder) write(ctx context.Context, pod *model.Pod, event report.Event) error {
	object := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: onceName(pod, event), Namespace: pod.Namespace},
		EventTime:           metav1.MicroTime{Time: time.Now()},
		ReportingController: pod.SchedulerName,
		ReportingInstance:   pod.SchedulerName + "-" + r.host,
		Action:              event.Action,
		Reason:              event.Reason,
		Regarding: v1.ObjectReference{
			Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			ResourceVersion: pod.Object.ResourceVersion,
		},
		Note: event.Note,
		Type: event.Type,
	}
	// Not Events().Create: it would decode the response, which is not needed.
	err := r.client.EventsV1().RESTClient().Post().Namespace(pod.Namespace).Resource("events").Body(object).MaxRetries(once).Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// onceName makes the name of an event from the pod's name, as is usual, and the event's content.
func onceName(pod *model.Pod, event report.Event) string {
	hash := fnv.New64a()
	for _, part := range []string{string(pod.UID), event.Type, event.Reason, event.Action, event.Note} {
		_, _ = fmt.Fprintf(hash, "%d %s", len(part), part)
	}
	suffix := fmt.Sprintf(".%016x", hash.Sum64())
	room := validation.DNS1123SubdomainMaxLength - len(suffix)
	return strings.TrimRight(pod.Name[:min(len(pod.Name), room)], "-.") + suffix
}

// sink writes for the broadcaster, which starts a goroutine for each event and lets it sleep while the API server cannot be reached. To
// bound memory, a sink writes a bounded number of events at a time and makes the recorder wait (admit).
type sink struct {
	events.EventSink
	slots  chan struct{} // one token for each event that is being written
	marked chan struct{} // receives a value for each marker that has come
	// Until this time, in nanoseconds since 1970, no other event is passed to the broadcaster.
	pause atomic.Int64
}

// pauseAfterFailure is how long no event is passed to the broadcaster after one could not be delivered.
const pauseAfterFailure = time.Second

// Create writes a new event, unless it is a marker.
func (s *sink) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	if event.ReportingController == marker {
		s.marked <- struct{}{}
		return event, nil
	}
	return s.write(ctx, func() (*eventsv1.Event, error) { return s.EventSink.Create(ctx, event) })
}

// Patch updates the count of a repeated event.
func (s *sink) Patch(ctx context.Context, event *eventsv1.Event, data []byte) (*eventsv1.Event, error) {
	return s.write(ctx, func() (*eventsv1.Event, error) { return s.EventSink.Patch(ctx, event, data) })
}

func (s *sink) write(ctx context.Context, send func() (*eventsv1.Event, error)) (*eventsv1.Event, error) {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-s.slots }()
	written, err := send()
	if answered := apierrors.APIStatus(nil); err != nil && !errors.As(err, &answered) {
		s.pause.Store(time.Now().Add(pauseAfterFailure).UnixNano())
	}
	return written, err
}

// admit waits until another event may be passed to the broadcaster.
func (s *sink) admit(ctx context.Context) error {
	if wait := time.Until(time.Unix(0, s.pause.Load())); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	select {
	case s.slots <- struct{}{}:
		<-s.slots // fewer than its size are being written
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
