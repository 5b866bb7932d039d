package main

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDiffers compares pods with expectations. A binding to a wrong node is final, a
// pending pod is not.
func TestDiffers(t *testing.T) {
	e := &Expectation{
		Bound:   map[string][]string{"web": {"a", "b"}, "any": nil},
		Pending: map[string]string{"huge": "Insufficient cpu"},
		Gone:    []string{"old"},
	}
	for _, test := range []struct {
		name, node, message string
		want                string
		final               bool
	}{
		{"web", "b", "", "", false},
		{"web", "c", "", "`web` is bound to `c`", true},
		{"web", "", "", "`web` waits", false},
		{"any", "c", "", "", false},
		{"any", "", "", "`any` waits", false},
		{"huge", "", "0/1 nodes are available: 1 Insufficient cpu.", "", false},
		{"huge", "", "", "`huge` is not rejected", false},
		{"huge", "", "1 Too many pods", "`huge` is pending: 1 Too many pods", false},
		{"huge", "a", "", "`huge` is bound to `a`", true},
		{"old", "a", "", "`old` is not preempted", false},
		{"other", "a", "", "", false},
	} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: test.name}, Spec: v1.PodSpec{NodeName: test.node}}
		if test.message != "" {
			pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Message: test.message}}
		}
		if got, final := e.differs(pod); got != test.want || final != test.final {
			t.Errorf("%+v: got %q, %v", test, got, final)
		}
	}
}
