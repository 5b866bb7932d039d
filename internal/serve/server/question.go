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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
)

const (
	// maxQuestions is how many questions of a kind are answered concurrently; more are
	// refused.
	maxQuestions = 8
	// questionTimeout is how long a question may wait for the scheduler, and writeTimeout
	// how long the client may take to read the answer.
	questionTimeout = 10 * time.Second
	writeTimeout    = 30 * time.Second
)

// resolver returns the resource of a request. A question about a pod is authorized as a
// get of the pod, and a question about waiting pods as a list of pods: users who may read
// the pods may ask about them, and no others.
type resolver struct{ request.RequestInfoResolver }

// NewRequestInfo returns the request's attributes for the authorizer.
func (r resolver) NewRequestInfo(req *http.Request) (*request.RequestInfo, error) {
	info := &request.RequestInfo{IsResourceRequest: true, Path: req.URL.Path, APIPrefix: "api", APIVersion: "v1",
		Resource: "pods"}
	if namespace, name, ok := explained(req.URL.Path); ok {
		info.Verb, info.Namespace, info.Name, info.Parts = "get", namespace, name, []string{"pods", name}
		return info, nil
	}
	if namespace, ok := queued(req.URL.Path); ok {
		info.Verb, info.Namespace, info.Parts = "list", namespace, []string{"pods"}
		return info, nil
	}
	return r.RequestInfoResolver.NewRequestInfo(req)
}

// question returns the function that answers a request, or an error for a wrong request.
type question func(*http.Request) (answer func(context.Context) (any, error), err error)

// answering serves questions, a bounded number at a time. answered may be nil.
func answering(timeout time.Duration, answered func(code int, took time.Duration), q question) http.Handler {
	places := make(chan struct{}, maxQuestions)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, code := time.Now(), 0
		defer func() {
			if answered != nil {
				answered(code, time.Since(began))
			}
		}()
		answer, err := q(r)
		if err == nil && r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			err = apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "pods"}, strings.ToLower(r.Method))
		}
		if err != nil {
			code = writeStatus(w, err)
			return
		}
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		default:
			busy := fmt.Sprintf("%d questions are being answered", maxQuestions)
			code = writeStatus(w, apierrors.NewTooManyRequests(busy, 1))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		value, err := answer(ctx)
		// A client that does not read must not keep its place. Writers without deadlines
		// are those of tests.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
		if errors.Is(err, context.DeadlineExceeded) {
			err = apierrors.NewTimeoutError("the scheduler had no time for the question", 1)
		}
		if err != nil {
			code = writeStatus(w, err)
			return
		}
		code = writeJSON(w, http.StatusOK, value)
	})
}

// noSuchPath is the error for a path that is not of this form.
func noSuchPath(r *http.Request, form string) error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "",
		fmt.Sprintf("%s is not %s", r.URL.Path, form), 0, true)
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
