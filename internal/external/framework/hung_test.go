package framework

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

func podNamed(name string) *model.Pod {
	pod := build.Pod(build.Named(name))
	pod.UID = types.UID("uid-" + name)
	return model.NewPod(pod)
}

// hangs is a plugin that hangs for some pods.
type hangs struct {
	*testing.T
	lane    *Lane
	release chan struct{}
	called  atomic.Int32
}

func newHangs(t *testing.T) *hangs {
	return &hangs{T: t, lane: newTestLane(t, time.Second), release: make(chan struct{})}
}

// turn runs a turn of a pod: PreFilter returns, and Filter may hang.
func (h *hangs) turn(pod *model.Pod, hang bool) error {
	h.lane.beginTurn(pod)
	defer h.lane.endTurn()
	if _, err := call(h.lane, PreFilter, "Hung", func(context.Context) int { return 0 }); err != nil {
		return err
	}
	_, err := call(h.lane, Filter, "Hung", func(context.Context) int {
		h.called.Add(1)
		if hang {
			<-h.release
		}
		return 0
	})
	return err
}

// TestPodThatHangsIsSetAside makes a plugin hang for one pod at each call. The time
// between the calls doubles, other pods are scheduled, and the plugin stays in use.
func TestPodThatHangsIsSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHangs(t)
		bad, good := podNamed("bad"), podNamed("good")
		began := time.Now()
		var at []time.Duration
		for time.Since(began) < 4*time.Hour {
			before := h.called.Load()
			if err := h.turn(bad, true); err == nil {
				t.Fatal("a call that hangs has returned")
			}
			if h.called.Load() > before {
				at = append(at, time.Since(began).Round(time.Minute))
			}
			if err := h.turn(good, false); err != nil {
				t.Fatalf("another pod's turn fails: %v", err)
			}
			time.Sleep(10 * time.Second)
		}
		if got := fmt.Sprint(at); got != "[0s 1m0s 3m0s 7m0s 15m0s 31m0s 1h3m0s 2h3m0s 3h3m0s]" {
			t.Errorf("the plugin was called at %v", got)
		}
		if out := h.lane.Out(); len(out) > 0 {
			t.Errorf("%v are out", out)
		}
		close(h.release)
		time.Sleep(time.Hour)
		if err := h.turn(bad, false); err != nil || len(h.lane.aside) != 0 {
			t.Errorf("when it returns again the error is %v, and %d pods are set aside", err, len(h.lane.aside))
		}
	})
}

// TestPluginThatHangsIsOut makes a plugin hang for several pods. It is then not called
// for any pod, and reported, until a call returns.
func TestPluginThatHangsIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHangs(t)
		for i := range maxHung {
			if out := h.lane.Out(); len(out) > 0 {
				t.Errorf("after %d pods %v are out", i, out)
			}
			_ = h.turn(podNamed(fmt.Sprint("bad-", i)), true)
		}
		if out := h.lane.Out(); !slices.Equal(out, []string{"Hung"}) {
			t.Errorf("%v are out", out)
		}
		if err := h.turn(podNamed("good"), false); err == nil || !strings.Contains(err.Error(), "has not returned for 3 pods") {
			t.Errorf("the error is %v", err)
		}
		close(h.release)
		synctest.Wait()
		if out := h.lane.Out(); len(out) > 0 {
			t.Errorf("when the calls have returned %v are out", out)
		}
		if err := h.turn(podNamed("good"), false); err != nil {
			t.Error(err)
		}
	})
}

// TestPodsSetAsideAreBounded adds more pods than are remembered.
func TestPodsSetAsideAreBounded(t *testing.T) {
	a, now := aside{}, time.Now()
	first := podNamed("first")
	a.add(now, Filter, "Hung", first)
	for i := range maxAsidePods + 10 {
		a.add(now.Add(time.Second), Filter, "Hung", podNamed(fmt.Sprint("pod-", i)))
	}
	if len(a) != maxAsidePods {
		t.Errorf("%d pods are remembered, want %d", len(a), maxAsidePods)
	}
	if a.refusal(now, Filter, "Hung", first) != nil {
		t.Error("the pod whose time is over first is remembered")
	}
}
