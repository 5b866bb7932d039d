package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/kube"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// hangs is an out-of-tree plugin that does not return for pods named web-hangs.
type hangs struct{}

func (hangs) Name() string { return "Hangs" }
func (hangs) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	if strings.HasPrefix(pod.Name, "web-hangs") {
		select {}
	}
	return nil
}

// important returns a pod with a priority.
func important(name string, priority int32) *v1.Pod {
	pod, never := web(name), v1.PreemptNever
	pod.Spec.Priority, pod.Spec.PreemptionPolicy = &priority, &never
	return pod
}

// undecided returns the pods in the lease's annotation.
func (s *script) undecided() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil {
		return ""
	}
	return s.lease.Annotations[kube.UndecidedAnnotation]
}

func (s *script) awaitUndecided(want string) {
	s.t.Helper()
	s.awaitUntil("the note "+want, func() bool { return s.lease != nil && s.lease.Annotations[kube.UndecidedAnnotation] == want })
}

// hanging returns the flags of a replica whose plugin hangs, with a lease that others
// acquire soon.
func (s *script) hanging(more ...string) []string {
	config := file(s.t, "scheduler.yaml", header+"clientConnection: {contentType: application/json, kubeconfig: "+s.kubeconfig("one")+"}\n"+
		"profiles: [{plugins: {multiPoint: {enabled: [{name: Hangs}]}}}]\n")
	return append([]string{
		"--config", config, "--berth-plugin-deadline=1h", "--leader-elect-lease-duration=20s", "--leader-elect-renew-deadline=15s",
		"--leader-elect-retry-period=50ms",
	}, more...)
}

// TestStuckLoopEndsTheLeader makes a plugin hang. The process logs the pod, records it in
// the lease, releases the lease and ends. The next leader decides about that pod after
// all others.
func TestStuckLoopEndsTheLeader(t *testing.T) {
	t.Setenv(plugged, "hangs")
	s := newScript(t, forTwo(), important("web-hangs", 1000), important("web-0", 10), web("web-1"))
	one := s.start("one", "kube-scheduler", s.hanging("--berth-loop-deadline=2s")...)
	code, _, log := one.wait()
	if code != exitFailure {
		t.Errorf("it exits with %d", code)
	}
	for _, want := range []string{
		"Scheduling loop is stuck", `"podUID":"uid-web-hangs"`, `"step":"deciding"`, `"phase":"`, `"pod":"default/web-hangs"`, "loop.(*Loop).Run(",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %s:\n%s", want, log)
		}
	}
	if s.holder() != "" || s.undecided() != "uid-web-hangs" {
		t.Errorf("the lease is held by %q and notes %q", s.holder(), s.undecided())
	}
	s.expectLast("web-hangs")
}

// forTwo returns a node with room for two of three pods: the first two that are decided.
func forTwo() *v1.Node { return build.Node("a", build.Allocatable("cpu=1000 memory=100Gi pods=2")) }

// expectLast starts a new leader without the plugin, and expects the pod to find no room.
func (s *script) expectLast(pod string) {
	s.t.Helper()
	s.t.Setenv(plugged, "")
	two := s.start("two", "kube-scheduler", "--leader-elect-retry-period=50ms", "--leader-elect-lease-duration=20s", "--leader-elect-renew-deadline=15s")
	s.await("two: bind", 2)
	s.await("FailedScheduling "+pod, 1)
	two.awaitLog("An earlier leader stopped during the attempts of these pods")
	s.awaitUndecided("") // after its decision it is an ordinary pod again
}

// TestKilledInADecision kills a process in a decision, as when it runs out of memory. The
// pod was recorded before, and the next leader decides about it last.
func TestKilledInADecision(t *testing.T) {
	t.Setenv(plugged, "hangs")
	s := newScript(t, forTwo(), important("web-hangs", 1000), important("web-0", 10), web("web-1"))
	one := s.start("one", "kube-scheduler", s.hanging()...)
	s.awaitUndecided("uid-web-hangs")
	if err := one.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	one.wait()
	s.mu.Lock()
	*s.lease.Spec.HolderIdentity = "" // instead of waiting for its end
	s.lease.ResourceVersion = "0"
	s.mu.Unlock()
	s.expectLast("web-hangs")
}

// TestStuckLoopFailsHealth checks the endpoints of a standby, of a leader that waits for
// events, and of a leader whose plugin hangs.
func TestStuckLoopFailsHealth(t *testing.T) {
	s := newScript(t, small("a"), web("web-0"))
	open := make(chan struct{})
	s.options = []Option{WithPlugin("Hangs", newHanging(open))}
	s.handOver("another")
	r := s.prepare("one", s.hanging("--berth-loop-deadline=1s")...)
	s.await("one: read lease", 50) // longer than the deadline
	r.expect("/livez", 200, "ok")
	r.expect("/healthz", 200, "ok")
	s.handOver("")
	s.await("one: bind web-0", 1)
	s.await("one: renew lease", 30+count(s.noted(), "one: renew lease"))
	r.expect("/livez?verbose", 200, "[+]ping ok\n[+]scheduling-loop ok")
	r.expect("/livez/ping", 200, "ok")
	s.add(web("web-hangs"))
	s.await("one: exit", 1)
	r.expect("/livez", 500, "[-]scheduling-loop failed")
	r.expect("/healthz", 500, "[-]scheduling-loop failed")
	if count(s.noted(), "one: give lease") == 0 || s.holder() != "" {
		t.Errorf("the lease is %q's", s.holder())
	}
	close(open)
	r.stop()
	if err := r.wait(); err != nil {
		t.Error(err)
	}
}

// looking runs a watchdog with a limit of a minute in a bubble. It returns the time after
// which it barks, or 0 if it does not within an hour.
func looking(t *testing.T, beat func(at time.Duration) loop.Beat) (barked time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		w := &watchdog{log: klog.Background(), limit: defaultLoopDeadline}
		w.beat = func() loop.Beat { return beat(time.Since(began)) }
		w.giveUp = func() {
			barked = time.Since(began)
			cancel()
		}
		w.run(ctx)
		if failed := w.Check(nil) != nil; failed != (barked > 0) {
			t.Errorf("barked after %v, and the check fails: %t", barked, failed)
		}
	})
	return barked
}

// TestWatchdog barks after a minute of the same work, and never at a loop that makes
// progress or waits, nor after the process was suspended.
func TestWatchdog(t *testing.T) {
	pod := &model.Pod{UID: "u"}
	deciding := func(turn uint64) loop.Beat { return loop.Beat{Turn: turn, Step: loop.Deciding, Pod: pod} }
	suspended := false
	for name, test := range map[string]struct {
		beat func(at time.Duration) loop.Beat
		want time.Duration
	}{
		"hangs":       {func(time.Duration) loop.Beat { return deciding(7) }, time.Minute + watchEvery},
		"hangs later": {func(at time.Duration) loop.Beat { return deciding(uint64(min(at, 10*time.Minute) / time.Second)) }, 11 * time.Minute},
		"waits":       {func(time.Duration) loop.Beat { return loop.Beat{Turn: 7} }, 0},
		"long rounds": {func(at time.Duration) loop.Beat { return deciding(uint64(at / (59 * time.Second))) }, 0},
		"suspended": {func(at time.Duration) loop.Beat {
			if at > 10*time.Second && !suspended {
				suspended = true
				time.Sleep(10 * time.Minute)
			}
			return deciding(uint64(at / (50 * time.Second)))
		}, 0},
		"hangs in hints": {func(time.Duration) loop.Beat { return loop.Beat{Turn: 7, Step: loop.Updating} }, time.Minute + watchEvery},
	} {
		if got := looking(t, test.beat); got != test.want {
			t.Errorf("%s: barks after %v, want %v", name, got, test.want)
		}
	}
}

// notes keeps the recorded pods.
type notes struct {
	mu   sync.Mutex
	made []string
}

func (n *notes) note(_ context.Context, uids []types.UID) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	texts := make([]string, len(uids))
	for i, uid := range uids {
		texts[i] = string(uid)
	}
	n.made = append(n.made, strings.Join(texts, ","))
	return nil
}

// TestNotesUndecided records pods whose decisions take a second, after the inherited
// pods, and removes each after its decision. Quick decisions are not recorded.
func TestNotesUndecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var n notes
		var mu sync.Mutex
		beat := loop.Beat{}
		set := func(turn uint64, uid types.UID) {
			mu.Lock()
			defer mu.Unlock()
			beat = loop.Beat{Turn: turn, Step: loop.Deciding, Pod: &model.Pod{UID: uid}}
		}
		w := &watchdog{log: klog.Background(), note: n.note, beat: func() loop.Beat {
			mu.Lock()
			defer mu.Unlock()
			return beat
		}}
		w.inherit([]types.UID{"x", "y"})
		go w.run(ctx)
		set(1, "quick")
		time.Sleep(900 * time.Millisecond)
		set(2, "slow")
		time.Sleep(2 * time.Second)
		set(3, "x")
		time.Sleep(2 * time.Second)
		w.Round(&loop.Round{Attempt: plan.ForPod(plan.QueuedPod{Pod: &model.Pod{UID: "x"}})})
		set(4, "quick")
		time.Sleep(900 * time.Millisecond)
		set(5, "quick")
		w.Standing(&loop.Standing{}) // does not lead yet
		time.Sleep(time.Second / 2)
		if n.mu.Lock(); len(n.made) != 4 {
			t.Errorf("before the loop decides it notes %q", n.made)
		}
		n.mu.Unlock()
		set(6, "quick")
		w.around(func() { w.Standing(&loop.Standing{}) })
		time.Sleep(time.Second / 2)
		cancel()
		synctest.Wait()
		want := []string{"x,y,slow", "x,y", "y,x", "y", ""}
		if !slices.Equal(n.made, want) {
			t.Errorf("noted %q, want %q", n.made, want)
		}
	})
}

// TestPanicNotesThePod makes the loop panic in a decision. The pod is recorded, and the
// panic continues.
func TestPanicNotesThePod(t *testing.T) {
	var n notes
	w := &watchdog{log: klog.Background(), note: n.note, beat: func() loop.Beat {
		return loop.Beat{Turn: 1, Step: loop.Deciding, Pod: &model.Pod{UID: "bad"}}
	}}
	w.inherit([]types.UID{"old"})
	func() {
		defer func() {
			if recover() != "broken" {
				t.Error("the panic does not go on")
			}
		}()
		w.around(func() { panic("broken") })
	}()
	if !slices.Equal(n.made, []string{"old,bad"}) {
		t.Errorf("noted %q", n.made)
	}
}

// opening hangs until it is opened.
type opening struct {
	hangs
	open chan struct{}
}

func (o opening) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	if pod.Name == "web-hangs" {
		<-o.open
	}
	return nil
}

func newHanging(open chan struct{}) PluginFactory {
	return func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return opening{open: open}, nil }
}

// TestCarefulAfterATakeover starts a leader whose predecessor did not release the lease.
// For five minutes it records a pod at once, because the process may die before a second
// has passed.
func TestCarefulAfterATakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var n notes
		began := time.Now()
		w := &watchdog{log: klog.Background(), note: n.note, careful: carefulFor, limit: defaultLoopDeadline}
		w.giveUp = func() { t.Errorf("it barks after %v", time.Since(began)) }
		w.beat = func() loop.Beat { // a decision of 200 ms each second
			at := time.Since(began)
			if at%time.Second < 200*time.Millisecond {
				return loop.Beat{Turn: uint64(at/time.Second)*2 + 1, Step: loop.Deciding, Pod: &model.Pod{UID: "u"}}
			}
			return loop.Beat{Turn: uint64(at/time.Second)*2 + 2}
		}
		go w.run(ctx)
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if want := []string{"u", "", "u"}; !slices.Equal(n.made, want) {
			t.Errorf("noted %q, want %q", n.made, want)
		}
		time.Sleep(carefulFor)
		synctest.Wait()
		made := len(n.made)
		time.Sleep(time.Hour)
		if len(n.made) != made {
			t.Errorf("it goes on: %q", n.made[made:])
		}
		cancel()
		synctest.Wait()
	})
}

// TestNotesAreFew makes each of many decisions long enough to be recorded. Notes stay
// few, so that renewals of the lease do not collide with one each time.
func TestNotesAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var n notes
		began := time.Now()
		w := &watchdog{log: klog.Background(), note: n.note, careful: carefulFor}
		w.beat = func() loop.Beat {
			turn := uint64(time.Since(began) / (60 * time.Millisecond))
			return loop.Beat{Turn: turn, Step: loop.Deciding, Pod: &model.Pod{UID: types.UID(fmt.Sprint(turn))}}
		}
		go w.run(ctx)
		time.Sleep(10 * time.Second)
		cancel()
		synctest.Wait()
		if len(n.made) < 10 || len(n.made) > 50 {
			t.Errorf("%d notes in 10 s", len(n.made))
		}
	})
}
