package defaultbinder

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-scheduler/berth/internal/model"
)

func TestBinding(t *testing.T) {
	pod := model.NewPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "p", UID: "u", ResourceVersion: "7", Labels: map[string]string{"a": "b"},
	}})
	want := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"},
		Target:     v1.ObjectReference{Kind: "Node", Name: "n"},
	}
	if diff := cmp.Diff(want, Plugin{}.Binding(pod, "n")); diff != "" {
		t.Error(diff)
	}
}

func TestRetry(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	unavailable := apierrors.NewServiceUnavailable("overloaded")
	internal := apierrors.NewInternalError(errors.New("etcd"))
	for _, row := range []struct {
		name string
		err  error
		try  int
		wait time.Duration
	}{
		{"503", unavailable, 1, 10 * time.Millisecond},
		{"500", internal, 1, 10 * time.Millisecond},
		{"500 twice", internal, 2, 50 * time.Millisecond},
		{"500 three times", internal, 3, 250 * time.Millisecond},
		{"500 four times", internal, 4, 0},
		{"500, wrapped", fmt.Errorf("bind ns/p to n: %w", internal), 1, 10 * time.Millisecond},
		{"connection refused", fmt.Errorf("dial: %w", syscall.ECONNREFUSED), 1, 10 * time.Millisecond},
		{"connection reset", fmt.Errorf("dial: %w", syscall.ECONNRESET), 1, 0},
		{"409", apierrors.NewConflict(pods, "p", errors.New("already assigned")), 1, 0},
		{"404", apierrors.NewNotFound(pods, "p"), 1, 0},
		{"429", apierrors.NewTooManyRequests("slow down", 1), 1, 0},
		{"504", apierrors.NewTimeoutError("too slow", 1), 1, 0},
		{"504 of a gateway", apierrors.NewGenericServerResponse(http.StatusGatewayTimeout, "post", pods, "p", "", 0, false), 1, 0},
		{"deadline", context.DeadlineExceeded, 1, 0},
		{"500, then 409", apierrors.NewConflict(pods, "p", errors.New("already assigned")), 2, 0},
	} {
		wait, again := Plugin{}.Retry(row.err, row.try)
		if wait != row.wait || again != (row.wait > 0) {
			t.Errorf("%s: got %v, %t, want %v", row.name, wait, again, row.wait)
		}
	}
}
