package app

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/kube"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/offline/recording"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/inmemory"
)

// bubble runs a test in a synctest bubble. Package os/signal starts goroutines that stay
// for the life of the process, so they are started outside.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	unused := make(chan os.Signal, 1)
	signal.Notify(unused, syscall.SIGUSR2)
	signal.Stop(unused)
	synctest.Test(t, test)
}

// newBubble returns a script in memory, in the bubble of a test. Its replica is called
// "one".
func newBubble(t *testing.T, objects ...runtime.Object) (s *script, access *rest.Config) {
	t.Helper()
	s = &script{t: t, version: 100, objects: map[string][]runtime.Object{}, held: map[string]bool{}, refused: map[string]bool{}}
	s.news = sync.NewCond(&s.mu)
	dial := inmemory.Serve(t, s, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.closed = true
		s.news.Broadcast()
	})
	s.add(objects...)
	access, err := kube.Access(kube.ClientConfig{Master: "http://script", ContentType: "application/json"})
	if err != nil {
		t.Fatal(err)
	}
	access.BearerToken, access.Dial = "one", dial
	return s, access
}

// runInBubble runs a replica that reaches the script through this configuration, and
// serves nothing.
func (s *script) runInBubble(access *rest.Config, args ...string) *replica {
	s.t.Helper()
	o := parsed(s.t, append(args, "--secure-port=0")...)
	o.added = s.options
	if err := o.addExternal(); err != nil {
		s.t.Fatal(err)
	}
	c, err := o.configuration()
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(s.t.Context())
	log := s.log
	if log.GetSink() == nil {
		log = klog.Background()
	}
	seen, err := newObservers(ctx, o, log)
	if err != nil {
		s.t.Fatal(err)
	}
	scheduler, err := assemble(ctx, o, c, access, seen, log)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.runs(ctx, "one", scheduler, "", func() { cancel(errSignal) })
}

// A write that never ends does not block a stopping scheduler. After the time for
// unfinished writes it is cancelled, and the lease is released. This holds for every
// request that a pod causes.
func TestDrainHasAnEnd(t *testing.T) {
	for _, held := range []string{"one: bind web-0 to a", "one: event Scheduled web-0", "one: status web-9", "one: event FailedScheduling web-9"} {
		for _, elects := range []bool{true, false} {
			t.Run(fmt.Sprint(held[len("one: "):], " ", elects), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					impossible := web("web-9")
					impossible.Spec.NodeName, impossible.Spec.NodeSelector = "", map[string]string{"no": "node"}
					s, access := newBubble(t, small("a"), web("web-0"), impossible)
					s.hold(held)
					r := s.runInBubble(access, fmt.Sprint("--leader-elect=", elects))
					s.await(held, 1)
					synctest.Wait()
					began := time.Now()
					r.stop()
					if err := r.wait(); err != nil {
						t.Errorf("it ended with %v", err)
					}
					if took := time.Since(began); took != commit.DefaultDrain {
						t.Errorf("it took %v to end, want %v", took, commit.DefaultDrain)
					}
					synctest.Wait() // the script must see the cancelled request
					notes := s.noted()
					// After a binding without an answer, the lease is left to expire.
					gives := elects && !strings.Contains(held, "bind")
					if broken, given := index(notes, held+" broken off"), index(notes, "one: give lease"); broken < 0 || gives != (given >= 0) {
						t.Errorf("its end is wrong:\n%s", strings.Join(notes, "\n"))
					}
				})
			})
		}
	}
}

// A replica ends soon after a signal, although the API server refuses connections: it
// does not wait for the next tries of its watches, which are up to a minute apart.
func TestEndsWithoutAPIServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, access := newBubble(t)
		access.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
		r := s.runInBubble(access, "--leader-elect=false")
		time.Sleep(5 * time.Minute)
		began := time.Now()
		r.stop()
		if err := r.wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v to end", took)
		}
		time.Sleep(2 * time.Minute) // the watches end too
	})
}

// A leader that cannot renew its lease, and has not ended after its expiry, is unhealthy,
// so that a kubelet ends it. As in kube-scheduler, it counts as healthy until 20 s after
// the end of the lease. Its leadership is lost as soon as the renewal fails.
func TestHealthOfALeaderThatCannotRenew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, access := newBubble(t, small("a"), web("web-0"))
		r := s.runInBubble(access)
		health, _ := checks(t.Context(), r.s.leadership, r.s.synced)
		mux := http.NewServeMux()
		healthz.InstallHandler(mux, health...)
		healthy := func() bool {
			t.Helper()
			answer := httptest.NewRecorder()
			mux.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", nil))
			if code, text := answer.Code, answer.Body.String(); code != http.StatusOK && (code != http.StatusInternalServerError || !strings.Contains(text, "[-]leaderElection failed")) {
				t.Errorf("/healthz answers %d:\n%s", code, text)
			}
			return answer.Code == http.StatusOK
		}
		s.await("one: renew lease", 20)
		if !healthy() {
			t.Error("a leader that renews its lease is not healthy")
		}
		s.mu.Lock()
		renewed := s.lease.Spec.RenewTime.Time
		s.mu.Unlock()
		s.refuse("one: ") // all requests, so the lease can neither be read nor released
		for _, test := range []struct {
			after          time.Duration
			healthy, leads bool
		}{
			{renewDeadline - time.Second/10, true, true}, {renewDeadline + time.Second/10, true, false},
			{leaseDuration + 20*time.Second - time.Second/10, true, false}, {leaseDuration + 20*time.Second + time.Second/10, false, false}, {time.Hour, false, false},
		} {
			time.Sleep(time.Until(renewed.Add(test.after)))
			synctest.Wait()
			if got := healthy(); got != test.healthy {
				t.Errorf("%v after its last renewal it is healthy: %t, want %t", test.after, got, test.healthy)
			}
			if leads := r.s.leadership.lost.Err() == nil; leads != test.leads || leads == (count(s.noted(), "one: exit") == 1) {
				t.Errorf("%v after its last renewal it leads: %t, want %t:\n%s", test.after, leads, test.leads, strings.Join(s.noted(), "\n"))
			}
		}
		r.stop()
		if err := r.wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}

// The audit covers the loop and the outbox.
func TestAuditOfAll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, access := newBubble(t, small("a"), web("web-0"))
		r := s.runInBubble(access, "--leader-elect=false", "--berth-audit")
		s.await("one: event Scheduled web-0", 1)
		synctest.Wait() // the loop must apply the binding
		r.stop()
		_ = r.wait()
		if err := r.s.audit(); err != nil {
			t.Errorf("a scheduler that is fine has %v", err)
		}
		other := model.NewPod(web("web-9"))
		r.s.loop.State().Assume(plan.Placement{Pod: other, NodeName: "a"})
		if err := r.s.audit(); err == nil || !strings.Contains(err.Error(), "0 pods are binding in the queue, 1 are assumed in the state") {
			t.Errorf("with an assumed pod that the queue does not know: %v", err)
		}
		r.s.commit = &commit.Commit{}
		defer func() {
			if recover() == nil {
				t.Error("the audit has not looked for the outbox, of which there is none now")
			}
		}()
		_ = r.s.audit()
	})
}

// The flags limit the writes in flight, and the events per second.
func TestLimitsOfWrites(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, access := newBubble(t, small("a"), web("web-0"), web("web-1"), web("web-2"), web("web-3"), web("web-4"), web("web-5"))
		s.hold("one: bind")
		r := s.runInBubble(access, "--leader-elect=false", "--berth-writes-in-flight=3", "--berth-reports-per-second=1")
		s.await("one: bind", 1)
		synctest.Wait()
		if n := count(s.noted(), "one: bind"); n != 3 {
			t.Errorf("%d writes are in flight, want 3", n)
		}
		began := time.Now()
		s.letGo("one: bind")
		s.await("one: event Scheduled", 6)
		if took := time.Since(began); took < 4*time.Second || took > 7*time.Second {
			t.Errorf("six events at one per second were written in %v", took)
		}
		r.stop()
		_ = r.wait()
	})
}

// The seed decides among equal nodes, deterministically.
func TestSeed(t *testing.T) {
	placed := func(seed string) (all []string) {
		bubble(t, func(t *testing.T) {
			s, access := newBubble(t, small("a"), small("b"), small("c"), small("d"), small("e"), small("f"), web("web-0"), web("web-1"), web("web-2"), web("web-3"))
			r := s.runInBubble(access, "--leader-elect=false", "--berth-seed="+seed)
			s.await("one: event Scheduled", 4)
			r.stop()
			_ = r.wait()
			for _, note := range s.noted() {
				if strings.HasPrefix(note, "one: bind") {
					all = append(all, note)
				}
			}
			slices.Sort(all)
		})
		return all
	}
	seven := placed("7")
	if again := placed("7"); !slices.Equal(again, seven) || len(seven) != 4 {
		t.Errorf("with the same seed, pods are placed as %q and as %q", seven, again)
	}
	if one := placed("1"); slices.Equal(one, seven) {
		t.Errorf("with another seed, pods are placed in the same way: %q", one)
	}
}

// A recording of a replica contains its decisions, and a replay makes them again.
func TestRecord(t *testing.T) {
	directory := t.TempDir()
	bubble(t, func(t *testing.T) {
		s, access := newBubble(t, small("a"), small("b"), web("web-0"), web("web-1"), web("web-2"))
		r := s.runInBubble(access, "--leader-elect=false", "--berth-seed=7", "--berth-record="+directory)
		s.await("one: event Scheduled", 3)
		r.stop()
		if err := r.wait(); err != nil {
			t.Error(err)
		}
	})
	files, err := filepath.Glob(filepath.Join(directory, "berth-*"+recording.Suffix))
	if err != nil || len(files) != 1 {
		t.Fatal(err, files)
	}
	from, err := recording.Open(files[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	scheduler, err := from.Header.Scheduler()
	if err != nil {
		t.Fatal(err)
	}
	replay, err := recording.Replay(from, scheduler)
	if err != nil {
		t.Fatal(err)
	}
	if err := replay.Run(time.Time{}, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if got := replay.Result; got.Placed != 3 || got.Difference != nil || got.Incomplete != "" || from.Header.Seed != 7 {
		t.Errorf("%+v", got)
	}
}

// An unschedulable pod is retried at the interval of the flag without any event, and each
// decision is logged.
func TestParkedPodsAreTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, access := newBubble(t, build.Node("full", build.Allocatable("cpu=0 memory=1Gi pods=1")), web("web-0"))
		var said bytes.Buffer
		s.log = textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&said), textlogger.Verbosity(2)))
		r := s.runInBubble(access, "--leader-elect=false", "--pod-max-in-unschedulable-pods-duration=20m")
		s.await("one: event FailedScheduling web-0", 1)
		time.Sleep(2 * time.Hour)
		r.stop()
		_ = r.wait()
		if n := r.s.loop.Engine().Counters().Decisions; n < 6 || n > 7 {
			t.Errorf("in two hours it was decided %d times, want each 20 minutes", n)
		}
		if n := strings.Count(said.String(), `"Unable to schedule pod; no fit; waiting" pod="default/web-0"`); int64(n) != int64(r.s.loop.Engine().Counters().Decisions) {
			t.Errorf("%d decisions are logged, there were %d", n, r.s.loop.Engine().Counters().Decisions)
		}
	})
}

// knowing is a plugin that has registered for an event that scheduling reads anyway.
type knowing struct{ testFilter }

func (knowing) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}}}, nil
}

// A scheduler is ready, and makes decisions, only after the informers of plugins hold
// their first lists, however long these take.
func TestReadyWhenPluginsAre(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, access := newBubble(t, small("a"), web("web-0"))
		s.options = []Option{WithPlugin("Mine", func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			h.SharedInformerFactory().Core().V1().ConfigMaps().Informer()
			return knowing{}, nil
		})}
		s.hold("one: list configmaps")
		r := s.runInBubble(access, "--config", file(t, "scheduler.yaml", header+"leaderElection: {leaderElect: false}\nprofiles: [{plugins: {multiPoint: {enabled: [{name: Mine}]}}}]\n"))
		s.await("one: watch pods", 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		select {
		case <-r.s.synced:
			t.Error("it is ready before the plugin's informers are")
		default:
		}
		if n := count(s.noted(), "one: bind"); n != 0 {
			t.Error("it binds before the plugin's informers are ready")
		}
		s.letGo("one: list configmaps")
		s.await("one: bind web-0 to a", 1)
		<-r.s.synced
		r.stop()
		_ = r.wait()
	})
}
