package server

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
)

// Queue answers questions about waiting pods.
type Queue struct {
	// Answer returns the waiting pods, which are sent as JSON, or an error, which is sent
	// as a Status.
	Answer func(context.Context, QueueQuestion) (any, error)
	// Answered, unless nil, is called after each question with the code of the response.
	Answered func(code int, took time.Duration)
}

// QueueQuestion selects waiting pods.
type QueueQuestion struct {
	// Namespace is empty for all namespaces.
	Namespace string
	// LabelSelector selects pods by their labels; empty selects all.
	LabelSelector string
	// Pods also lists each pod, not only groups of pods.
	Pods bool
}

// The parameters of a question about waiting pods.
const (
	selectorParameter = "labelSelector"
	podsParameter     = "pods"
)

const queuePrefix = "/queue/v1"

// QueueTimeout is how long a question about waiting pods may wait for the scheduler.
// Questions have a hundredth of the loop's time, so a queue of 100,000 pods is read in
// about 15 seconds.
const QueueTimeout = time.Minute

// Path returns the path of the question.
func (q *QueueQuestion) Path() string {
	if q.Namespace == "" {
		return queuePrefix
	}
	return queuePrefix + "/namespaces/" + q.Namespace
}

// Query returns the parameters of the question.
func (q *QueueQuestion) Query() url.Values {
	v := url.Values{}
	if q.LabelSelector != "" {
		v.Set(selectorParameter, q.LabelSelector)
	}
	if q.Pods {
		v.Set(podsParameter, "true")
	}
	return v
}

// queued returns the namespace in a path; empty for all namespaces.
func queued(urlPath string) (namespace string, ok bool) {
	if urlPath == queuePrefix {
		return "", true
	}
	namespace, ok = strings.CutPrefix(urlPath, queuePrefix+"/namespaces/")
	if !ok || namespace == "" || len(namespace) > longestName || len(content.IsPathSegmentName(namespace)) > 0 {
		return "", false
	}
	return namespace, true
}

// handler serves the questions, a bounded number at a time.
func (x *Queue) handler() http.Handler {
	return answering(QueueTimeout, x.Answered, func(r *http.Request) (func(context.Context) (any, error), error) {
		namespace, ok := queued(r.URL.Path)
		if !ok { // the request was not authorized for pods
			form := QueueQuestion{Namespace: "NAMESPACE"}
			return nil, noSuchPath(r, form.Path())
		}
		q, err := queueQuestion(namespace, r.URL.Query())
		return func(ctx context.Context) (any, error) { return x.Answer(ctx, q) }, err
	})
}

// queueQuestion reads the parameters of a question. Unknown parameters are an error,
// because a user would take the answer for a narrower one.
func queueQuestion(namespace string, v url.Values) (q QueueQuestion, err error) {
	for name := range v {
		if !slices.Contains([]string{selectorParameter, podsParameter}, name) {
			return q, apierrors.NewBadRequest(fmt.Sprintf("parameter %q: must be %s or %s", name, selectorParameter,
				podsParameter))
		}
	}
	q = QueueQuestion{Namespace: namespace, LabelSelector: v.Get(selectorParameter)}
	if text := v.Get(podsParameter); text != "" {
		if q.Pods, err = strconv.ParseBool(text); err != nil {
			return q, apierrors.NewBadRequest(fmt.Sprintf("parameter %s=%q: must be true or false", podsParameter,
				text))
		}
	}
	return q, nil
}
