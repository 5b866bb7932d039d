package framework_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/model"
)

// lateReserve is a plugin whose Reserve returns when it is released.
type lateReserve struct {
	named
	release, undone chan struct{}
	reserved        atomic.Bool
}

func (p *lateReserve) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	<-p.release
	pod.Annotations = map[string]string{"written": "late"}
	p.reserved.Store(true)
	return nil
}

func (p *lateReserve) Unreserve(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	if p.reserved.Swap(false) && ctx.Err() == nil && pod.Spec.NodeName == node {
		close(p.undone)
	}
}

// TestLateReserve has a Reserve that returns after it was abandoned. It is undone, once,
// after it has returned. The other plugins' Unreserve runs at once.
func TestLateReserve(t *testing.T) {
	// In virtual time a call is late only if it hangs, however busy the machine is.
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		late := &lateReserve{named: "P", release: make(chan struct{}), undone: make(chan struct{})}
		w := newWorldWithin(t, 50*time.Millisecond, 1, &binds{named: "A", calls: &calls}, late, &binds{named: "B", calls: &calls})
		d := w.decide(w.pod("p", "1"))
		if got, want := describe(&d), "failed: running Reserve plugin \"P\": plugin \"P\" at Reserve: has not returned within 50ms"; got != want {
			t.Errorf("%s; want %s", got, want)
		}
		if got, want := strings.Join(calls, ","), "A Reserve,B Unreserve,A Unreserve"; got != want {
			t.Errorf("calls: %s; want %s", got, want)
		}
		close(late.release)
		select {
		case <-late.undone:
		case <-time.After(2 * time.Minute):
			t.Error("reserved for ever")
		}
	})
}

// TestNoReserveBesideALateOne retries pods while an abandoned Reserve, or the Unreserve
// of a failed turn, still runs. The plugin's Reserve is not called until that has
// returned, because the late call would undo the later reservation. Other pods are placed
// meanwhile.
func TestNoReserveBesideALateOne(t *testing.T) {
	// In virtual time a call is late only if it hangs, however busy the machine is.
	synctest.Test(t, func(t *testing.T) {
		const late = `failed: running Reserve plugin "P": plugin "P" at Reserve: has not returned within 500ms`
		const rejected = "0/1 nodes are available: 1 no. B"
		const busy = `failed: running Reserve plugin "P": plugin "P" at Reserve: not called: it has not returned from an earlier attempt to place the pod`
		for point, first := range map[string]string{"Reserve": late, "Unreserve": rejected} {
			p := &reserves{named: "P", hangs: map[string]bool{point: true}, release: make(chan struct{}), undone: make(chan struct{}), held: map[types.UID]bool{}}
			var calls []string
			after := &binds{named: "B", calls: &calls, does: map[string]*fwk.Status{}}
			if point == "Unreserve" {
				after.does["Reserve"] = status(fwk.Unschedulable, "no")
			}
			w := newWorldWithin(t, 500*time.Millisecond, 1, p, after)
			pod := w.pod("p", "1")
			try := func(pod *model.Pod, want string) {
				t.Helper()
				d := w.decide(pod)
				if got := describe(&d); got != want {
					t.Errorf("%s: %s; want %s", point, got, want)
				}
			}
			try(pod, first)
			delete(after.does, "Reserve")
			p.mu.Lock()
			clear(p.hangs)
			p.mu.Unlock()
			try(pod, busy)
			try(w.pod("other", "1"), "on n0")
			if p.holds(pod.UID) != (point == "Unreserve") || !p.holds("uid-other") {
				t.Errorf("%s: reserved for %v", point, p.held)
			}
			close(p.release)
			<-p.undone
			// After a minute the plugin is called for the pod again.
			time.Sleep(time.Minute)
			// The call has returned, but the plugin's lane may not have received that.
			deadline := time.Now().Add(2 * time.Minute)
			d := w.decide(pod)
			for describe(&d) == busy && time.Now().Before(deadline) {
				runtime.Gosched()
				d = w.decide(pod)
			}
			if describe(&d) != "on n0" || !p.holds(pod.UID) {
				t.Errorf("%s: %s, reserved for %v; want the pod on n0, and reserved", point, describe(&d), p.held)
			}
		}
	})
}

// reserves is a Reserve plugin that records its pods. For the pod p, calls at the
// extension points in hangs block until release is closed. undone is closed when such a
// call has been undone.
type reserves struct {
	named
	release, undone chan struct{}

	mu    sync.Mutex
	hangs map[string]bool
	held  map[types.UID]bool
}

func (p *reserves) holds(pod types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held[pod]
}

// set changes the reservation of a pod, late if the point hangs. It reports whether it
// was late.
func (p *reserves) set(point string, pod *v1.Pod, held bool) (late bool) {
	p.mu.Lock()
	late = p.hangs[point]
	p.mu.Unlock()
	if late {
		<-p.release
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if delete(p.held, pod.UID); held {
		p.held[pod.UID] = true
	}
	return late
}

func (p *reserves) Reserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	if p.set("Reserve", pod, true) {
		state.Write("late", nil)
	}
	return nil
}

func (p *reserves) Unreserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ string) {
	late := p.set("Unreserve", pod, false)
	if _, err := state.Read("late"); late || err == nil {
		close(p.undone)
	}
}
