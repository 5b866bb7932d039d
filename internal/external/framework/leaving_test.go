package framework

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestTurnWaitsForThoseThatLeave begins a turn while rejected pods are still to be
// unreserved. It waits for all of them with a limit, and not for a pod that was not
// rejected.
func TestTurnWaitsForThoseThatLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLeaving()
		took := func() time.Duration {
			began := time.Now()
			l.wait()
			return time.Since(began)
		}
		yes, no := func() bool { return true }, func() bool { return false }
		if l.reject("p", "unreserved", yes); took() != 0 {
			t.Error("a turn waits for a pod without Reserve plugins")
		}
		l.reserve("p")
		if l.reject("p", "refuses", no); took() != 0 {
			t.Error("a turn waits for a pod that was not rejected")
		}
		for i, pod := range []types.UID{"first", "second"} {
			l.reject("p", pod, yes)
			l.reject("p", pod, no) // by another plugin, too late
			time.AfterFunc(time.Duration(i+1)*time.Millisecond, func() { l.left(pod) })
		}
		if d := took(); d != 2*time.Millisecond {
			t.Errorf("a turn waits for %v, want until both have left", d)
		}
		l.reject("p", "slow", yes)
		if d := took(); d != maxLeaving {
			t.Errorf("a turn waits for %v, want %v", d, maxLeaving)
		}
		if d := took(); d != 0 {
			t.Errorf("the next turn waits for %v", d)
		}
		l.left("slow")
	})
}
