// Package terse keeps a log readable when one thing goes wrong many times.
//
// It takes the errors that are logged; it passes the first few of a kind on at once and counts the others, so that an API server that
// is away, or a webhook that refuses, takes a handful of lines and not one for each pod. It owns the counts of the kinds of error seen of
// late. It never holds back what is logged as information, and never loses that something happened: what was held back is told in a line
// of its own.
package terse

import (
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
	// kindsMax bounds what is remembered; beyond it, errors are passed on as they come.
	kindsMax = 1_000
)

// Logger returns a logger that writes to the given one and says the same thing a few times at most. What was held back is told with the
// next error after the window in which it happened, and by Flush.
func Logger(log logr.Logger) (terse logr.Logger, flush func()) {
	s := &shared{kinds: map[kind]*count{}}
	return log.WithSink(newSink(log.GetSink(), s)), func() { s.tell(time.Time{}) }
}

// kind is what makes errors the same: the message, and the reason of the API server's answer if there was one.
type kind struct {
	message string
	reason  metav1.StatusReason
}

// count is how often a kind of error happened in the present window.
type count struct {
	kind  kind
	began time.Time
	seen  int
	last  error
	sink  logr.LogSink
}

// shared is what all loggers made from one another count in.
type shared struct {
	mu    sync.Mutex
	kinds map[kind]*count
	order []*count // by the beginning of their windows
}

// sink is a logr.LogSink.
type sink struct {
	logr.LogSink
	// errors is the same sink, which looks for the line of code that logs one call further up.
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

// WithCallDepth returns a sink that looks for the line of code that logs further up.
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

// WithName returns a sink of another name.
func (s sink) WithName(name string) logr.LogSink { return newSink(s.LogSink.WithName(name), s.shared) }

// admit reports whether an error is to be passed on.
func (s *shared) admit(to logr.LogSink, err error, message string) bool {
	now := time.Now()
	s.tell(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	k := kind{message, apierrors.ReasonForError(err)}
	c := s.kinds[k]
	if c == nil {
		if len(s.kinds) >= kindsMax {
			return true
		}
		c = &count{kind: k, began: now}
		s.kinds[k], s.order = c, append(s.order, c)
	}
	c.seen, c.last, c.sink = c.seen+1, err, to
	return c.seen <= lines
}

// tell ends the windows that are over, all of them if now is zero, and says how much was held back.
func (s *shared) tell(now time.Time) {
	s.mu.Lock()
	var over []*count
	for len(s.order) > 0 && (now.IsZero() || now.Sub(s.order[0].began) >= window) {
		over = append(over, s.order[0])
		delete(s.kinds, s.order[0].kind)
		s.order = s.order[1:]
	}
	s.mu.Unlock()
	for _, c := range over {
		if more := c.seen - lines; more > 0 {
			c.sink.Error(c.last, c.kind.message, "more", more, "since", c.began.Format(time.TimeOnly))
		}
	}
}
