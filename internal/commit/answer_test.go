package commit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// refusedBySocket returns the error of a request to a port without a listener.
func refusedBySocket(t *testing.T) error {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	response, err := http.Get("http://" + address)
	if err == nil {
		_ = response.Body.Close()
		t.Fatal("something listens")
	}
	return err
}

// answeredWith is a response of the API server, with the seconds to wait.
func answeredWith(code int32, reason metav1.StatusReason, seconds int32) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Details: &metav1.StatusDetails{RetryAfterSeconds: seconds},
	}}
}

// TestWhatAnErrorSays lists, for each kind of error: whether the write may have been
// stored, whether a plugin's write may still be stored, whether the API server answered,
// whether the object is gone, and the wait instead of one second.
func TestWhatAnErrorSays(t *testing.T) {
	type says struct {
		open, mayArrive, unanswered, gone bool
		wait                              time.Duration
	}
	const s = time.Second
	pods := schema.GroupResource{Resource: "pods"}
	for _, row := range []struct {
		name string
		err  error
		want says
	}{
		{"none", nil, says{wait: s}},
		{"nothing listens", refusedBySocket(t), says{unanswered: true, wait: s}},
		{"no route", &net.OpError{Op: "dial", Err: errors.New("no route")}, says{unanswered: true, wait: s}},
		{"no name", fmt.Errorf("post: %w", &net.OpError{Op: "dial", Err: &net.DNSError{}}), says{unanswered: true, wait: s}},
		{"broken off", &net.OpError{Op: "read", Err: errors.New("reset")}, says{true, true, true, false, s}},
		{"broken off while it was sent", fmt.Errorf("post: %w", &net.OpError{Op: "write", Err: errors.New("reset")}), says{true, true, true, false, s}},
		{"ended early", fmt.Errorf("read: %w", io.ErrUnexpectedEOF), says{true, true, true, false, s}},
		{"ended", fmt.Errorf("read: %w", io.EOF), says{true, true, true, false, s}},
		{"too late", fmt.Errorf("post: %w", context.DeadlineExceeded), says{true, true, true, false, s}},
		{"cancelled", fmt.Errorf("post: %w", context.Canceled), says{true, true, true, false, s}},
		{"a plugin's own", errors.New("no such volume"), says{true, false, true, false, s}},
		{"an answer without a code", answeredWith(0, metav1.StatusReasonUnknown, 0), says{true, true, false, false, s}},
		{"bad request", answeredWith(400, metav1.StatusReasonBadRequest, 0), says{wait: s}},
		{"conflict", fmt.Errorf("bind: %w", answeredWith(409, metav1.StatusReasonConflict, 0)), says{wait: s}},
		{"throttled", answeredWith(429, metav1.StatusReasonTooManyRequests, 7), says{wait: 7 * s}},
		{"throttled for no time", answeredWith(429, metav1.StatusReasonTooManyRequests, 0), says{wait: s}},
		{"the last code below", answeredWith(499, metav1.StatusReasonUnknown, 0), says{wait: s}},
		{"failed", answeredWith(500, metav1.StatusReasonInternalError, 0), says{true, true, false, false, s}},
		{"unwell", answeredWith(503, metav1.StatusReasonServiceUnavailable, 3), says{true, true, false, false, 3 * s}},
		{"not found", apierrors.NewNotFound(pods, "p"), says{gone: true, wait: s}},
		{"a page of a proxy", apierrors.NewGenericServerResponse(404, "GET", pods, "p", "<html>", 0, true), says{wait: s}},
	} {
		got := says{leavesOpen(row.err), mayArrive(row.err), unanswered(row.err), isGone(row.err), retryAfter(row.err, time.Second)}
		if got != row.want {
			t.Errorf("%s (%v): %+v, want %+v", row.name, row.err, got, row.want)
		}
	}
}
