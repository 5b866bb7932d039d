package server

import (
	"context"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
)

// Explain answers questions about pods.
type Explain struct {
	// Answer returns the history of a pod, which is sent as JSON, or an error, which is
	// sent as a Status.
	Answer func(ctx context.Context, namespace, name string) (any, error)
	// Answered, unless nil, is called after each question with the code of the response.
	Answered func(code int, took time.Duration)
}

// ExplainPath returns the path of questions about a pod.
func ExplainPath(namespace, name string) string {
	return explainPrefix + "namespaces/" + namespace + "/pods/" + name
}

const explainPrefix = "/explain/v1/"

// explained returns the pod in a path.
func explained(urlPath string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(urlPath, explainPrefix)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 4 || parts[0] != "namespaces" || parts[2] != "pods" {
		return "", "", false
	}
	for _, part := range []string{parts[1], parts[3]} {
		if part == "" || len(part) > longestName || len(content.IsPathSegmentName(part)) > 0 {
			return "", "", false
		}
	}
	return parts[1], parts[3], true
}

// longestName is the maximum length of names of pods and namespaces.
const longestName = 253

// handler serves the questions, a bounded number at a time.
func (x *Explain) handler() http.Handler {
	return answering(questionTimeout, x.Answered, func(r *http.Request) (func(context.Context) (any, error), error) {
		namespace, name, ok := explained(r.URL.Path)
		if !ok { // the request was not authorized for a pod
			return nil, noSuchPath(r, ExplainPath("NAMESPACE", "NAME"))
		}
		return func(ctx context.Context) (any, error) { return x.Answer(ctx, namespace, name) }, nil
	})
}
