package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"

	"github.com/berth-scheduler/berth/internal/model/report"
)

var warning = report.Event{Type: v1.EventTypeWarning, Reason: "FailedScheduling", Action: "Scheduling", Note: "100% full"}

// seriesAbout is an event of pod i with this count.
func seriesAbout(i, count int) *report.Series {
	first := time.Date(2026, 5, 1, 12, 0, 0, 123456789, time.UTC)
	return &report.Series{
		Event: warning, Subject: report.SubjectOf(numbered(i)), First: first, Last: first.Add(time.Duration(count-1) * time.Second), Count: count,
	}
}

// eventServer is an API server that keeps the requests that write events, and answers
// with the status, if it is not 0.
type eventServer struct {
	mu       sync.Mutex
	requests []string // method and path
	bodies   [][]byte
	agent    string
	answer   *metav1.Status
}

func newEventServer(t *testing.T) (*eventServer, *Writer) {
	s := &eventServer{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	writer, err := NewWriter(connect(t, ClientConfig{Master: server.URL, ContentType: "application/json", Version: "v9"}), false)
	if err != nil {
		t.Fatal(err)
	}
	return s, writer
}

// ServeHTTP keeps a request.
func (s *eventServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type"))
	s.bodies = append(s.bodies, body)
	s.agent = r.UserAgent()
	w.Header().Set("Content-Type", "application/json")
	if s.answer != nil {
		w.WriteHeader(int(s.answer.Code))
		_ = json.NewEncoder(w).Encode(s.answer)
		return
	}
	_, _ = w.Write([]byte(`{"kind":"Event","apiVersion":"events.k8s.io/v1"}`))
}

func TestEventRequests(t *testing.T) {
	server, writer := newEventServer(t)
	once, thrice := seriesAbout(1, 1), seriesAbout(1, 3)
	if twice := writer.compose(seriesAbout(1, 2)).Series; twice == nil || twice.Count != 2 {
		t.Errorf("the series of what has happened twice is %v", twice)
	}
	for _, err := range []error{writer.Record(t.Context(), once), writer.Repeat(t.Context(), thrice), writer.Record(t.Context(), thrice)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	const path = "/apis/events.k8s.io/v1/namespaces/ns/events"
	want := fmt.Sprint([]string{
		"POST " + path + " application/json", "PATCH " + path + "/p1.18ab6f405b054d15 application/strategic-merge-patch+json", "POST " + path + " application/json",
	})
	if got := fmt.Sprint(server.requests); got != want {
		t.Errorf("requests\n%s\nwant\n%s", got, want)
	}
	var first, second eventsv1.Event
	if err := json.Unmarshal(server.bodies[0], &first); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(server.bodies[2], &second); err != nil {
		t.Fatal(err)
	}
	if first.Series != nil || second.Series == nil || second.Series.Count != 3 || !second.Series.LastObservedTime.Equal(&metav1.MicroTime{Time: thrice.Last.Truncate(time.Microsecond)}) {
		t.Errorf("the series are %v and %v", first.Series, second.Series)
	}
	if got := string(server.bodies[1]); got != `{"series":{"count":3,"lastObservedTime":"2026-05-01T12:00:02.123456Z"}}` {
		t.Errorf("the patch is %s", got)
	}
	if second.Series = nil; !reflect.DeepEqual(first, second) {
		t.Errorf("created anew it is %+v, want %+v", second, first)
	}
	if !strings.HasPrefix(server.agent, "berth/v9 (") || !strings.HasSuffix(server.agent, ") kubernetes/scheduler") {
		t.Errorf("user agent %q", server.agent)
	}
	failure := metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	for status, is := range map[*metav1.Status]func(error) bool{
		{TypeMeta: failure, Status: metav1.StatusFailure, Code: 404, Reason: metav1.StatusReasonNotFound}:      apierrors.IsNotFound,
		{TypeMeta: failure, Status: metav1.StatusFailure, Code: 409, Reason: metav1.StatusReasonAlreadyExists}: apierrors.IsAlreadyExists,
	} {
		server.answer = status
		if one, two := writer.Record(t.Context(), once), writer.Repeat(t.Context(), thrice); !is(one) || !is(two) {
			t.Errorf("errors %v and %v, want %s", one, two, status.Reason)
		}
	}
}

// capture is a sink of client-go's broadcaster that keeps the events to write.
type capture struct {
	events.EventSink
	created chan *eventsv1.Event
	patches chan string
}

func (c capture) Create(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	c.created <- event
	return event, nil
}

func (c capture) Patch(_ context.Context, event *eventsv1.Event, data []byte) (*eventsv1.Event, error) {
	c.patches <- string(data)
	return event, nil
}

// TestEventsAreAsClientGoMakesThem makes kube-scheduler's recorder write an event and its
// first repetition. Berth's are equal except for the times, which are part of the name.
func TestEventsAreAsClientGoMakesThem(t *testing.T) {
	sink := capture{created: make(chan *eventsv1.Event, 1), patches: make(chan string, 1)}
	broadcaster := events.NewBroadcaster(sink)
	t.Cleanup(broadcaster.Shutdown)
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	recorder := broadcaster.NewRecorder(scheme.Scheme, "default-scheduler")
	long := numbered(2)
	long.Name = strings.Repeat("a-", 126) + "a" // 253 characters
	long.Object.Name = long.Name
	outside := numbered(3)
	outside.Namespace, outside.Object.Namespace = "", ""
	writer, err := NewWriter(connect(t, ClientConfig{Master: "http://127.0.0.1:1"}), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range []*v1.Pod{numbered(1).Object, long.Object, outside.Object} {
		recorder.Eventf(pod, nil, warning.Type, warning.Reason, warning.Action, "%s", warning.Note)
		theirs := <-sink.created
		recorder.Eventf(pod, nil, warning.Type, warning.Reason, warning.Action, "%s", warning.Note)
		theirPatch := <-sink.patches

		subject := report.Subject{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, SchedulerName: "default-scheduler"}
		mine := report.Series{Event: warning, Subject: subject, First: theirs.EventTime.Time, Last: theirs.EventTime.Time, Count: 1}
		ours := writer.compose(&mine)
		stem, _, _ := strings.Cut(theirs.Name, ".")
		if ourStem, _, _ := strings.Cut(ours.Name, "."); len(ours.Name) != len(theirs.Name) || len(pod.Name) < 200 && ourStem != stem {
			t.Errorf("the name is %q, client-go's %q", ours.Name, theirs.Name)
		}
		ours.Name = theirs.Name
		if !reflect.DeepEqual(ours, theirs) {
			t.Errorf("the event is\n%+v, client-go's\n%+v", ours, theirs)
		}
		mine.Count = 2
		var times struct{ Series eventsv1.EventSeries }
		if err := json.Unmarshal([]byte(theirPatch), &times); err != nil {
			t.Fatal(err)
		}
		mine.Last = times.Series.LastObservedTime.Time
		if ourPatch, err := patchOf(&mine); err != nil || string(ourPatch) != theirPatch {
			t.Errorf("the patch is %s (%v), client-go's %s", ourPatch, err, theirPatch)
		}
	}
}

// A count that exceeds the API's integer is set to the maximum.
func TestManyRepetitions(t *testing.T) {
	for count, want := range map[int]int32{7: 7, math.MaxInt32: math.MaxInt32, math.MaxInt32 + 5: math.MaxInt32} {
		if got := seriesOf(seriesAbout(1, count)).Count; got != want {
			t.Errorf("after %d repetitions the count is %d, want %d", count, got, want)
		}
	}
}

func TestEventNames(t *testing.T) {
	long, dotted, later := seriesAbout(1, 1), seriesAbout(1, 1), seriesAbout(1, 1)
	long.Subject.Name = strings.Repeat("a-", 126) + "a"
	dotted.Subject.Name = strings.Repeat("a", 235) + "." + strings.Repeat("a", 17)
	dotted.Subject.UID = "another"
	later.First = later.First.Add(1)
	names := map[string]bool{}
	for _, event := range []*report.Series{seriesAbout(1, 1), seriesAbout(2, 1), long, dotted, later} {
		name := eventName(event)
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			t.Errorf("%q: %v", name, problems)
		}
		if names[name] {
			t.Errorf("%q is the name of two events", name)
		}
		names[name] = true
		repeated := *event
		repeated.Count, repeated.Last = 7, event.Last.Add(time.Hour)
		if again := eventName(&repeated); again != name {
			t.Errorf("repeated, its name is %q, was %q", again, name)
		}
	}
}
