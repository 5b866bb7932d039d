package commit_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// runs is a placement of a pod with a step that calls run, and that undo undoes if not
// nil.
func runs(name string, stage plan.Stage, run, undo func(ctx context.Context) commit.CallResult) plan.Decision {
	d := placed(podNamed(name))
	step := plan.Step{Stage: stage, Plugin: "x", Call: &calling{run: run}}
	if undo != nil {
		step.UndoCall = &calling{run: undo}
	}
	d.Placement.Steps = []plan.Step{step}
	return d
}

func untilDone(ctx context.Context) commit.CallResult {
	<-ctx.Done()
	return commit.CallResult{Err: context.Cause(ctx)}
}

// TestCallsHoldNoWorker lets many more calls run than workers exist: a binding is still
// sent.
func TestCallsHoldNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.run(t)
		release := make(chan struct{})
		for _, name := range names(200) {
			f.Start(runs(name, plan.PreBind, func(context.Context) commit.CallResult { <-release; return commit.CallResult{} }, nil))
		}
		f.Start(placed(podNamed("other")))
		if outcome := f.outcomes.next(t); outcome.Pod.Name != "other" || outcome.Err != nil {
			t.Fatalf("first %+v has ended", outcome)
		}
		close(release)
		for range 200 {
			if outcome := f.outcomes.next(t); outcome.Err != nil {
				t.Fatal(outcome.Err)
			}
		}
		if err := f.Audit(); err != nil {
			t.Error(err)
		}
	})
}

// TestReturnedCallWakesAWorker lets a call return while all workers sleep: the binding is
// sent.
func TestReturnedCallWakesAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.run(t)
		f.Start(runs("p", plan.PreBind, func(context.Context) commit.CallResult {
			time.Sleep(100 * time.Millisecond)
			return commit.CallResult{}
		}, nil))
		if outcome := f.outcomes.next(t); outcome.Err != nil {
			t.Error(outcome.Err)
		}
	})
}

// TestCallsThatBreak has calls panic, end their goroutine, and wait until they are
// cancelled: the binding fails with the plugin's name, and is undone once.
func TestCallsThatBreak(t *testing.T) {
	for _, row := range []struct {
		name string
		run  func(ctx context.Context) commit.CallResult
		want string
	}{
		{"panic", func(context.Context) commit.CallResult { panic("oh") }, `running PreBind plugin "x": the plugin panicked: oh`},
		{"exit", func(context.Context) commit.CallResult { runtime.Goexit(); return commit.CallResult{} },
			`running PreBind plugin "x": the plugin ended the goroutine that it was called on`},
		{"cancelled", func(ctx context.Context) commit.CallResult {
			result := untilDone(ctx) // the bare cause; the call adds the plugin's name
			return commit.CallResult{Err: &plan.PluginError{Point: "PreBind", Plugin: "x", Err: result.Err}}
		}, `running PreBind plugin "x": its place is needed`},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, nil)
				f.run(t)
				undone := make(chan error, 2)
				f.Start(runs("p", plan.PreBind, row.run, func(ctx context.Context) commit.CallResult {
					undone <- ctx.Err()
					panic("again")
				}))
				if row.name == "cancelled" && !f.Cancel(uid, errors.New("its place is needed")) {
					t.Error("it cannot be cancelled")
				}
				outcome := f.outcomes.next(t)
				if outcome.Err == nil || outcome.Err.Error() != row.want {
					t.Errorf("it has ended with %v, want %s", outcome.Err, row.want)
				}
				if len(undone) != 1 {
					t.Fatalf("it was undone %d times", len(undone))
				}
				if err := <-undone; err != nil {
					t.Errorf("it was undone with a context that has ended: %v", err)
				}
			})
		})
	}
}

// TestStopDoesNotWaitForCalls stops while calls run. Calls that return when their context
// ends are awaited. A call that never returns is awaited no longer than Drain.
func TestStopDoesNotWaitForCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(c *commit.Config) { c.Drain = 300 * time.Millisecond })
		stop := f.run(t)
		release := make(chan struct{})
		defer close(release)
		f.Start(runs("p", plan.PreBind, untilDone, func(context.Context) commit.CallResult { t.Error("it is undone"); return commit.CallResult{} }))
		f.Start(runs("q", plan.PreBind, func(context.Context) commit.CallResult { <-release; return commit.CallResult{} }, nil))
		f.Start(runs("r", plan.Bind, func(context.Context) commit.CallResult { <-release; return commit.CallResult{} }, nil))
		why := errors.New("the end")
		began := time.Now()
		stop(why)
		if took := time.Since(began); took != 300*time.Millisecond {
			t.Errorf("it took %v, want the time to finish writes", took)
		}
		for range 3 {
			outcome := f.outcomes.next(t)
			point := map[string]string{"p": "PreBind", "q": "PreBind", "r": "Bind"}[outcome.Pod.Name]
			if want := "running " + point + ` plugin "x": the end`; !errors.Is(outcome.Err, why) || outcome.Err.Error() != want {
				t.Errorf("%s has ended with %v, want %s", outcome.Pod, outcome.Err, want)
			}
		}
	})
}

// TestStopHearsCalls stops while a call runs that returns when its context ends. Its
// result counts, and it is delivered by the time Run returns, long before Drain.
func TestStopHearsCalls(t *testing.T) {
	why, no := errors.New("the end"), errors.New("no")
	for _, row := range []struct {
		name   string
		stage  plan.Stage
		result commit.CallResult
		want   error
	}{
		{"at PreBind", plan.PreBind, commit.CallResult{}, why},
		{"it has bound the pod", plan.Bind, commit.CallResult{}, nil},
		{"it skips the pod", plan.Bind, commit.CallResult{Skipped: true}, why},
		{"it fails", plan.Bind, commit.CallResult{Err: no}, no},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, func(c *commit.Config) { c.Drain, c.Results = 10*time.Second, slowly{c.Results} })
				stop := f.run(t)
				f.Start(runs("p", row.stage, func(ctx context.Context) commit.CallResult {
					<-ctx.Done()
					if err := context.Cause(ctx); !errors.Is(err, why) {
						t.Errorf("its context has ended because %v", err)
					}
					return row.result
				}, nil))
				began := time.Now()
				stop(why)
				if took := time.Since(began); took != 100*time.Millisecond {
					t.Errorf("it took %v, want what the loop takes to hear of it", took)
				}
				if len(f.outcomes) != 1 {
					t.Fatalf("%d bindings are answered", len(f.outcomes))
				}
				if outcome := f.outcomes.next(t); !errors.Is(outcome.Err, row.want) {
					t.Errorf("it has ended with %v, want %v", outcome.Err, row.want)
				}
			})
		})
	}
}

// slowly is a loop that receives results slowly.
type slowly struct{ commit.Results }

func (s slowly) Bound(outcome model.BindingResult) {
	time.Sleep(100 * time.Millisecond)
	s.Results.Bound(outcome)
}

// TestUndoIsGivenUp fails a binding whose undo never returns: the binding is settled
// nevertheless.
func TestUndoIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.run(t)
		no, release := errors.New("no"), make(chan struct{})
		defer close(release)
		never := func(context.Context) commit.CallResult { <-release; return commit.CallResult{} }
		began := time.Now()
		f.Start(runs("p", plan.PreBind, func(context.Context) commit.CallResult { return commit.CallResult{Err: no} }, never))
		if outcome := f.outcomes.next(t); !errors.Is(outcome.Err, no) {
			t.Errorf("it has ended with %v", outcome.Err)
		}
		if took := time.Since(began); took != 20*time.Second {
			t.Errorf("it was given up after %v, want twice the timeout of a write", took)
		}
		if logged := strings.Join(f.errorsLogged(), "; "); logged != "Plugin call timed out and was abandoned; Could not bind pod" {
			t.Errorf("logged %q", logged)
		}
	})
}

// TestUndoHasATime fails a binding whose undo waits for the end of its context: the
// context ends, and the binding is settled.
func TestUndoHasATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.run(t)
		no := errors.New("no")
		began := time.Now()
		f.Start(runs("p", plan.PreBind, func(context.Context) commit.CallResult { return commit.CallResult{Err: no} }, untilDone))
		if outcome := f.outcomes.next(t); !errors.Is(outcome.Err, no) {
			t.Errorf("it has ended with %v", outcome.Err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("its context ended after %v, want the timeout of a write", took)
		}
	})
}

// TestHandlesFromAnywhere ends waits from calls, from the goroutine that starts
// decisions, and during iterations: nothing blocks.
func TestHandlesFromAnywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.run(t)
		const pods = 60
		var all sync.WaitGroup
		for i, name := range names(pods) {
			d := runs(name, plan.Reserve, func(context.Context) commit.CallResult {
				// This is a gang plugin: the latest member allows or rejects all.
				for _, w := range f.WaitingPods() {
					switch n := w.Pod().Name; {
					case n[len(n)-1] == '3':
						w.Reject("x", "no")
					default:
						w.Allow("gang")
					}
				}
				return commit.CallResult{}
			}, func(context.Context) commit.CallResult {
				f.WaitingPod(podNamed(name).UID)
				return commit.CallResult{}
			})
			d.Placement.Steps = append(d.Placement.Steps, plan.Step{Stage: plan.Permit, Plugin: "gang", Wait: &plan.Wait{Timeout: time.Minute}})
			f.Start(d)
			if w := f.WaitingPod(podNamed(name).UID); w != nil && i%2 == 0 {
				w.PendingPlugins()
			}
			all.Go(func() {
				for _, w := range f.WaitingPods() {
					w.PendingPlugins()
					f.PodInPreBind(w.Pod().UID)
				}
			})
		}
		all.Wait()
		for ended := 0; ended < pods; ended++ {
			outcome := f.outcomes.next(t)
			if refused := strings.HasSuffix(outcome.Pod.Name, "3"); refused != (fmt.Sprint(outcome.Rejectors) == "[x]") || refused != (outcome.Err != nil) {
				t.Errorf("%s has ended with %v, rejected by %v", outcome.Pod, outcome.Err, outcome.Rejectors)
			}
		}
	})
}
