package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
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

const (
	explainPrefix = "/explain/v1/"
	// maxExplain is how many questions are answered concurrently; more are refused.
	maxExplain = 8
	// explainTimeout is how long a question may wait for the scheduler.
	explainTimeout = 10 * time.Second
)

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

// resolver returns the resource of a request. A question about a pod is authorized as a
// get of the pod: users who may get the pod may ask about it, and no others.
type resolver struct{ request.RequestInfoResolver }

// NewRequestInfo returns the request's attributes for the authorizer.
func (r resolver) NewRequestInfo(req *http.Request) (*request.RequestInfo, error) {
	namespace, name, ok := explained(req.URL.Path)
	if !ok {
		return r.RequestInfoResolver.NewRequestInfo(req)
	}
	return &request.RequestInfo{
		IsResourceRequest: true, Path: req.URL.Path, Verb: "get", APIPrefix: "api", APIVersion: "v1", Namespace: namespace, Resource: "pods", Name: name, Parts: []string{"pods", name},
	}, nil
}

// handler serves the questions, a bounded number at a time.
func (x *Explain) handler() http.Handler {
	places := make(chan struct{}, maxExplain)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, code := time.Now(), 0
		defer func() {
			if x.Answered != nil {
				x.Answered(code, time.Since(began))
			}
		}()
		namespace, name, ok := explained(r.URL.Path)
		switch {
		case !ok: // the request was not authorized for a pod
			code = writeStatus(w, apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "", fmt.Sprintf("%s is not %s", r.URL.Path, ExplainPath("NAMESPACE", "NAME")), 0, true))
			return
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			code = writeStatus(w, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "pods"}, strings.ToLower(r.Method)))
			return
		}
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		default:
			code = writeStatus(w, apierrors.NewTooManyRequests(fmt.Sprintf("%d questions are being answered", maxExplain), 1))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), explainTimeout)
		defer cancel()
		answer, err := x.Answer(ctx, namespace, name)
		if errors.Is(err, context.DeadlineExceeded) {
			err = apierrors.NewTimeoutError("the scheduler had no time for the question", 1)
		}
		if err != nil {
			code = writeStatus(w, err)
			return
		}
		code = writeJSON(w, http.StatusOK, answer)
	})
}

// writeStatus sends an error as a Status of Kubernetes, and returns the code.
func writeStatus(w http.ResponseWriter, err error) int {
	status := responsewriters.ErrorToAPIStatus(err)
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	return writeJSON(w, int(status.Code), status)
}

func writeJSON(w http.ResponseWriter, code int, value any) int {
	data, err := json.Marshal(value)
	if err != nil {
		return writeStatus(w, fmt.Errorf("write the answer: %w", err))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(data, '\n')) // the client may be gone
	return code
}
