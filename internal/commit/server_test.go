package commit_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/decide/plugins/defaultbinder"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// request is one request to the server: its kind ("bind", "get", "status", "delete",
// "event", "series", or "patch" of anything else) and its pod.
type request struct {
	what, pod string
	body      string
}

func (r request) String() string { return r.what + " " + r.pod }

// server implements the part of the API that commit needs, with the faults that a test
// sets. It runs in the bubble of its test, whose clock stands while it answers.
type server struct {
	// before is called for each request before it is carried out, after afterwards, each
	// with the number of the request among the requests of its kind and pod, from 1.
	// Returning true means that the response has been sent.
	before, after func(w http.ResponseWriter, r request, number int) bool
	// answer, if set, is called first, with the original request.
	answer func(w http.ResponseWriter, h *http.Request, r request) bool

	mu       sync.Mutex
	changed  *sync.Cond
	requests []request
	bound    map[string]string
}

// ServeHTTP answers a request.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	req := request{body: string(body)}
	if req.what, req.pod = kindOf(r.Method, r.URL.Path); req.what == "event" {
		req.pod = eventOf(req).Regarding.Name
	}
	s.mu.Lock()
	s.requests = append(s.requests, req)
	number := 0
	for _, have := range s.requests {
		if have.what == req.what && have.pod == req.pod {
			number++
		}
	}
	s.changed.Broadcast()
	s.mu.Unlock()
	if s.answer != nil && s.answer(w, r, req) {
		return
	}
	if s.before != nil && s.before(w, req, number) {
		return
	}
	answer := s.carryOut(req)
	if s.after != nil && s.after(w, req, number) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		panic(err)
	}
}

// kindOf returns the kind of a request and the pod in its path. For the patch of an event
// it returns the event. The path of a new event has no name.
func kindOf(method, path string) (what, name string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch last := parts[len(parts)-1]; {
	case last == "binding" || last == "status":
		return strings.Replace(last, "binding", "bind", 1), parts[len(parts)-2]
	case last == "events":
		return "event", ""
	case parts[len(parts)-2] == "events":
		return "series", last
	case method == http.MethodDelete:
		return "delete", last
	case method == http.MethodPatch:
		return "patch", last
	default:
		return "get", last
	}
}

func (s *server) carryOut(req request) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch req.what {
	case "bind":
		var binding v1.Binding
		if err := json.Unmarshal([]byte(req.body), &binding); err != nil {
			panic(err)
		}
		s.bound[req.pod] = binding.Target.Name
	case "get":
		return &v1.Pod{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Name: req.pod, Namespace: "ns", UID: types.UID("uid-" + req.pod)},
			Spec:       v1.PodSpec{NodeName: s.bound[req.pod]},
		}
	}
	return &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}
}

// writtenEvent has the fields of an event that the tests read.
type writtenEvent struct {
	Reason, Note        string
	ReportingController string
	Regarding           v1.ObjectReference
}

func eventOf(r request) writtenEvent {
	var e writtenEvent
	if err := json.Unmarshal([]byte(r.body), &e); err != nil {
		panic(err)
	}
	return e
}

// wait waits until the requests meet the condition, and returns them.
func (s *server) wait(t *testing.T, what string, met func([]request) bool) []request {
	t.Helper()
	timeout := time.AfterFunc(time.Hour, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests = append(s.requests, request{what: "timeout"})
		s.changed.Broadcast()
	})
	defer timeout.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !met(s.requests) {
		if n := len(s.requests); n > 0 && s.requests[n-1].what == "timeout" {
			t.Fatalf("waited in vain for %s; requests: %v", what, s.requests)
		}
		s.changed.Wait()
	}
	return s.requests
}

// got returns the requests so far of one kind.
func (s *server) got(what string) []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return of(what, s.requests)
}

func of(what string, requests []request) []request {
	var found []request
	for _, r := range requests {
		if r.what == what {
			found = append(found, r)
		}
	}
	return found
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, code int, why metav1.StatusReason, message string) bool {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(&metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: why, Message: message,
	})
	return true
}

// refuseLater is refuse with the seconds to wait, as the API server sends them.
func refuseLater(w http.ResponseWriter, code int, why metav1.StatusReason, seconds int) bool {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", fmt.Sprint(seconds))
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(&metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: why, Message: "come back later",
		Details: &metav1.StatusDetails{RetryAfterSeconds: int32(seconds)},
	})
	return true
}

// throttle makes the client retry after the given seconds.
func throttle(w http.ResponseWriter, seconds int) bool {
	w.Header().Set("Retry-After", fmt.Sprint(seconds))
	return refuse(w, 429, metav1.StatusReasonTooManyRequests, "come back later")
}

// hangUp closes the connection without an answer.
func hangUp(w http.ResponseWriter) bool {
	connection, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	_ = connection.Close()
	return true
}

// outcomes keeps the results that the loop would get.
type outcomes chan model.BindingResult

func (o outcomes) Bound(outcome model.BindingResult) { o <- outcome }

func (o outcomes) Learned(kinds.Object) {}

func (o outcomes) Written(model.WriteResult) {}

func (o outcomes) Preempted(result model.PreemptionResult) {
	o <- model.BindingResult{Pod: result.Preemptor, Err: result.Err}
}

func (o outcomes) next(t *testing.T) model.BindingResult {
	t.Helper()
	select {
	case outcome := <-o:
		return outcome
	case <-time.After(time.Hour):
		t.Fatal("no outcome came")
		return model.BindingResult{}
	}
}

func binder(string) *plugin.Bind { return defaultbinder.New().Parts().Bind }

func podNamed(name string) *model.Pod {
	return model.NewPod(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID("uid-" + name), ResourceVersion: "7", Generation: 3},
		Spec:       v1.PodSpec{SchedulerName: "default-scheduler"},
	})
}

func placed(pod *model.Pod) plan.Decision {
	queued := plan.QueuedPod{Pod: pod, Attempt: 1}
	return plan.Decision{
		Member: plan.Member{QueuedPod: queued}, Outcome: plan.Placed, Nodes: 3, Feasible: 2,
		Placement: plan.Placement{Pod: queued.Pod, NodeName: "node-of-" + pod.Name, Nodes: 3, Feasible: 2},
	}
}

func rejected(pod *model.Pod, nodes int) plan.Decision {
	return plan.Decision{
		Member: plan.Alone(pod), Outcome: plan.Unschedulable, Nodes: nodes, Rejection: &plan.Rejection{
			Counts: []reason.Count{{Nodes: nodes, Reason: "Insufficient cpu"}}, Plugins: []string{"NodeResourcesFit"},
		},
	}
}

// nominated is a decision about another pod that nominates this pod to a node: a status
// is written, and no event.
func nominated(pod *model.Pod, nodeName string) plan.Decision {
	return plan.Decision{Nominations: []plan.Nomination{{Pod: pod, Mode: plan.Set, NodeName: nodeName}}}
}

func names(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("p%d", i)
	}
	return all
}
