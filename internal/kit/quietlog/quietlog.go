// Package quietlog keeps a log readable when one error occurs many times.
//
// It takes logged errors, passes on the first few of each kind, and counts the others. So
// an unreachable API server, or a webhook that rejects everything, causes a few lines and
// not one for each pod. It owns the counts of the recent kinds of error. It never
// suppresses information lines, and never loses an error: a later line reports how many
// were suppressed.
package quietlog

import (
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// lines is how many errors of a kind are passed on within one window.
	lines = 3
	// window is how long errors are counted together.
	window = 10 * time.Second
	// maxKinds limits the number of kinds; beyond it, all errors are passed on.
	maxKinds = 1_000
)

// Logger returns a logger that passes at most a few errors of one kind to the given
// logger. The number of suppressed errors is logged at the end of the window, and by
// flush, which must be called after the last use of the logger.
func Logger(log logr.Logger) (quiet logr.Logger, flush func()) {
	s := &shared{kinds: map[kind]*count{}}
	return log.WithSink(newSink(log.GetSink(), s)), func() { s.report(time.Time{}) }
}

// kind is the key under which errors are counted together: the message, and for errors of
// the API server the reason and the resource. Names, nodes and other values do not count.
type kind struct {
	message         string
	reason          metav1.StatusReason
	group, resource string
}

func kindOf(message string, err error) kind {
	k := kind{message: message, reason: apierrors.ReasonForError(err)}
	if answer := apierrors.APIStatus(nil); errors.As(err, &answer) && answer.Status().Details != nil {
		k.group, k.resource = answer.Status().Details.Group, answer.Status().Details.Kind
	}
	return k
}

// count is how often a kind of error occurred in the current window.
type count struct {
	kind  kind
	began time.Time
	seen  int
	last  error
	sink  logr.LogSink
}

// shared holds the counts of a logger and all loggers derived from it.
type shared struct {
	mu    sync.Mutex
	kinds map[kind]*count
	order []*count // by the start of their windows
	// alarm ends windows with suppressed errors; nil if none has any.
	alarm *time.Timer
}

// sink is a logr.LogSink.
type sink struct {
	logr.LogSink
	// errors is the same sink with a call depth greater by one.
	errors logr.LogSink
	shared *shared
}

func newSink(to logr.LogSink, s *shared) sink { return sink{to, deeper(to, 1), s} }

func deeper(to logr.LogSink, depth int) logr.LogSink {
	if deep, ok := to.(logr.CallDepthLogSink); ok {
		return deep.WithCallDepth(depth)
	}
	return to
}

// WithCallDepth returns a sink with a greater call depth.
func (s sink) WithCallDepth(depth int) logr.LogSink {
	return newSink(deeper(s.LogSink, depth), s.shared)
}

// Error passes an error on, or counts it.
func (s sink) Error(err error, message string, values ...any) {
	if s.shared.admit(s.LogSink, err, message) {
		s.errors.Error(err, message, values...)
	}
}

// WithValues returns a sink that adds values to each line.
func (s sink) WithValues(values ...any) logr.LogSink {
	return newSink(s.LogSink.WithValues(values...), s.shared)
}

// WithName returns a sink with the name added.
func (s sink) WithName(name string) logr.LogSink { return newSink(s.LogSink.WithName(name), s.shared) }

// admit reports whether an error must be passed on.
func (s *shared) admit(to logr.LogSink, err error, message string) bool {
	now := time.Now()
	s.report(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	k := kindOf(message, err)
	c := s.kinds[k]
	if c == nil {
		if len(s.kinds) >= maxKinds {
			return true
		}
		c = &count{kind: k, began: now}
		s.kinds[k], s.order = c, append(s.order, c)
	}
	c.seen, c.last, c.sink = c.seen+1, err, to
	if c.seen > lines {
		s.setAlarm(now)
	}
	return c.seen <= lines
}

// setAlarm sets the timer to the end of the next window with suppressed errors. The
// caller holds mu.
func (s *shared) setAlarm(now time.Time) {
	if s.alarm != nil {
		return
	}
	for _, c := range s.order {
		if c.seen > lines {
			s.alarm = time.AfterFunc(c.began.Add(window).Sub(now), func() { s.report(time.Now()) })
			return
		}
	}
}

// report ends the expired windows, or all if now is zero, and logs how many errors were
// suppressed.
func (s *shared) report(now time.Time) {
	s.mu.Lock()
	var over []*count
	for len(s.order) > 0 && (now.IsZero() || now.Sub(s.order[0].began) >= window) {
		over = append(over, s.order[0])
		delete(s.kinds, s.order[0].kind)
		s.order = s.order[1:]
	}
	if len(over) > 0 && s.alarm != nil {
		s.alarm.Stop()
		s.alarm = nil
		s.setAlarm(now)
	}
	s.mu.Unlock()
	for _, c := range over {
		if more := c.seen - lines; more > 0 {
			c.sink.Error(c.last, c.kind.message, "more", more, "since", c.began.Format(time.TimeOnly))
		}
	}
}
