package app

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-scheduler/berth/internal/answers/hints"
	"github.com/berth-scheduler/berth/internal/answers/history"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/serve/metrics"
	"github.com/berth-scheduler/berth/internal/serve/server"
)

// recorder is the history with metrics of its size.
type recorder struct {
	*history.History
	metrics *metrics.Explain
}

// Standing updates the metrics of the history's size.
func (r recorder) Standing(*loop.Standing) {
	c := r.Counts()
	r.metrics.Keeps(c.Bytes, c.Details)
}

// hinted is an observer that measures hints in events.
type hinted struct {
	*hints.Finder
	metrics *metrics.Explain
}

// Round does nothing.
func (hinted) Round(*loop.Round) {}

// Standing updates the number of events with hints, and the cost of the hints.
func (h hinted) Standing(*loop.Standing) {
	c := h.Counts()
	h.metrics.Hinted(c.Given, c.Nothing, c.Unknown, c.Spent)
}

// newHistory returns the history of decisions, or nil if its size is 0.
func newHistory(mib int, plain bool, steady func() time.Time) (*history.History, error) {
	if mib == 0 {
		return nil, nil
	}
	kept, err := history.New(history.Config{Bytes: mib << 20, Plain: plain, Now: steady, Wall: time.Now})
	if err != nil {
		return nil, fmt.Errorf("build the history: %w", err)
	}
	return kept, nil
}

// explain returns the handler of questions about pods; nil without a history.
func (s *scheduler) explain() *server.Explain {
	if s.history == nil {
		return nil
	}
	return &server.Explain{Answer: s.answer, Answered: func(code int, took time.Duration) { s.observers.metrics.Explain.Answered(code, took) }}
}

// answer returns the history of a pod, or an error with the reason why it has none.
func (s *scheduler) answer(ctx context.Context, namespace, name string) (any, error) {
	if err := s.leads(); err != nil {
		return nil, err
	}
	key := model.PodKey{Namespace: namespace, Name: name}
	var found *history.Answer
	if err := s.loop.Ask(ctx, func() {
		found = s.history.Of(key, s.loop.State(), s.loop.Queue(), s.asksExternal)
	}); err != nil {
		return nil, fmt.Errorf("look up the history of pod %s: %w", key, err)
	}
	ours := s.config.SchedulerNames()
	if found != nil {
		if !slices.Contains(ours, found.Profile) {
			return nil, notOurs(key, found.Profile, ours)
		}
		return found, nil
	}
	pod := s.watch.Pod(namespace, name)
	switch {
	case pod == nil:
		return nil, noAnswer(key, "pod not found, or finished")
	case !slices.Contains(ours, pod.Spec.SchedulerName):
		return nil, notOurs(key, pod.Spec.SchedulerName, ours)
	case pod.DeletionTimestamp != nil:
		return nil, noAnswer(key, "the pod is being deleted and has no node")
	}
	return nil, noAnswer(key, "the scheduler has not processed the pod yet")
}

func notOurs(key model.PodKey, asksFor string, ours []string) error {
	return noAnswer(key, fmt.Sprintf("the pod's schedulerName is %q; the profiles of this scheduler are %q", asksFor, ours))
}

// noAnswer is the error for a pod without a history.
func noAnswer(key model.PodKey, why string) error {
	err := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{Resource: "pods"}, key.Name, "", 0, false)
	err.ErrStatus.Message = fmt.Sprintf("no history of pod %s: %s", key, why)
	return err
}

// asksExternal reports whether a profile has out-of-tree plugins or extenders.
func (s *scheduler) asksExternal(profile string) bool {
	p := s.loop.Engine().Profile(profile)
	return p != nil && (p.External != nil || len(p.Extenders) > 0)
}
