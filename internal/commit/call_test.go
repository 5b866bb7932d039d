package commit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// calling is a named call that runs a function.
type calling struct {
	name string
	run  func(ctx context.Context) commit.CallResult
}

// notRun is a call that nothing can run.
type notRun struct{}

func (notRun) IsCall() {}

func (*calling) IsCall() {}

func (c *calling) Run(ctx context.Context) commit.CallResult { return c.run(ctx) }

// withCalls is a placement with steps in the notation of stepped. Steps that do nothing
// there call, and undo by a call if they end in "!".
func withCalls(steps ...string) plan.Decision {
	d := stepped("p")
	for _, text := range steps {
		text, undo := strings.CutSuffix(text, "!")
		step := stepped("p", text).Placement.Steps[0]
		if step.Write == nil && step.Wait == nil {
			step.Call = &calling{name: step.Plugin}
		}
		if undo {
			step.UndoCall = &calling{name: "undo " + step.Plugin}
		}
		d.Placement.Steps = append(d.Placement.Steps, step)
	}
	return d
}

// caller is a bench that keeps the results of the outbox.
type caller struct {
	*bench
	running  []commit.Request
	canceled []string
	all      []commit.Settled
}

func newCaller(t *testing.T) *caller {
	t.Helper()
	return &caller{bench: newBenchOf(t, commit.OutboxConfig{
		Binder: binder, MaxReports: 10, MaxSeries: 100, Budget: commit.Budget{InFlight: 4, EachInFlight: 4, PerSecond: 1_000_000}, Pause: time.Second, Jitter: unchanged,
		Announce: true,
	})}
}

func (c *caller) look() {
	c.Helper()
	ended := c.Take()
	c.running = append(c.running, ended.Calls...)
	for _, e := range ended.Canceled {
		c.canceled = append(c.canceled, e.Err.Error())
	}
	c.all = append(c.all, ended.Settled...)
	if err := c.Audit(); err != nil {
		c.Fatal(err)
	}
}

// returns ends the call with that name, which must be the only running call.
func (c *caller) returns(name string, result commit.CallResult) {
	c.Helper()
	c.look()
	if len(c.running) != 1 || c.running[0].Call.(*calling).name != name {
		c.Fatalf("the calls that run are %+v, want %s", c.running, name)
	}
	request := c.running[0]
	c.running = nil
	c.Done(c.now, request, commit.Response{Call: result})
	c.look()
	c.Done(c.now, request, commit.Response{Call: result}) // a second result is ignored
	c.look()
}

// ended checks the result of the binding, and that no call runs.
func (c *caller) ended(err string, rejected bool, rejectors ...string) {
	c.Helper()
	c.look()
	if len(c.all) != 1 || len(c.running) > 0 {
		c.Fatalf("%d bindings have ended, %+v runs", len(c.all), c.running)
	}
	s := c.all[0]
	if fmt.Sprint(s.Err) != err || s.Rejected != rejected || fmt.Sprint(s.Rejectors) != fmt.Sprint(rejectors) {
		c.Errorf("it has ended with %v, rejected: %t by %v\nwant %s, %t by %v", s.Err, s.Rejected, s.Rejectors, err, rejected, rejectors)
	}
}

// forgotten completes the remaining writes, and checks that the outbox keeps nothing.
func (c *caller) forgotten() {
	c.Helper()
	for {
		request, ok := c.Next(c.now, false)
		if !ok {
			break
		}
		c.Done(c.now, request, commit.Response{})
	}
	c.look()
	c.now = c.now.Add(time.Hour)
	c.nothing()
	if n := c.Remembered(); n != 0 {
		c.Errorf("%d things are remembered", n)
	}
}

var (
	done    = commit.CallResult{}
	skipped = commit.CallResult{Skipped: true}
	errCall = commit.CallResult{Err: errors.New(`running X plugin "x": broken`)}
)

// TestCallsInOrder takes a binding through calls at all stages. Each call runs once,
// after the previous call has returned, and takes no turn of a worker.
func TestCallsInOrder(t *testing.T) {
	c := newCaller(t)
	c.start(withCalls("Reserve/preflight!", "Permit/gang 5s", "PreBind/a", "PreBind/b w", "PreBind/c", "PostBind/d", "PostBind/e"))
	c.nothing()
	c.returns("preflight", done)
	if request := c.take(commit.Patch, "p"); request.Nomination.Mode != plan.Set || request.Nomination.NodeName != "node-of-p" || request.Condition != nil {
		t.Errorf("before the wait, %+v is written, want the nomination", request)
	} else {
		c.Done(c.now, request, commit.Response{Err: errNo}) // which changes nothing
	}
	c.nothing()
	c.Allow(c.now, uid, "gang")
	c.announced(nil) // once more
	c.returns("a", done)
	c.done(c.takeWrite(commit.WriteStep, "b"), nil)
	c.returns("c", done)
	c.done(c.take(commit.Bind, "p"), nil)
	c.returns("d", errCall) // changes nothing for the pod
	c.returns("e", done)
	c.ended("<nil>", false)
	c.forgotten()
	if fmt.Sprint(c.canceled) != "[the binding is over]" {
		t.Errorf("the context ended because %v", c.canceled)
	}
}

// TestFailedCallIsUndone fails a binding at each of its calls: the steps that began are
// undone by calls in reverse order, once each, and then the loop gets the result.
func TestFailedCallIsUndone(t *testing.T) {
	broken, no := errCall.Err.Error(), commit.CallResult{Err: errors.New("not now"), Rejected: true}
	for _, row := range []struct {
		name     string
		fails    func(c *caller)
		undo     string
		err      string
		rejected bool
	}{
		{"at Reserve", func(c *caller) { c.returns("r", errCall) }, "r", broken, false},
		{"rejected at Reserve, where it means nothing", func(c *caller) { c.returns("r", no) }, "r", "not now", false},
		{"at the first PreBind", func(c *caller) {
			c.returns("r", done)
			c.returns("a", errCall)
		}, "a r", broken, false},
		{"rejected at PreBind", func(c *caller) {
			c.returns("r", done)
			c.returns("a", no)
		}, "a r", "not now", true},
		{"cancelled at Reserve", func(c *caller) {
			c.Cancel(c.now, uid, errGone)
			c.returns("r", done)
		}, "r", `running PreBindPreFlight plugin "r": ` + errGone.Error(), false},
		{"cancelled, and the call says no more", func(c *caller) {
			c.returns("r", done)
			c.Cancel(c.now, uid, errGone)
			c.Cancel(c.now, uid, errNo)
			c.returns("a", commit.CallResult{Err: fmt.Errorf("wait: %w", context.Canceled)})
		}, "a r", `running PreBind plugin "a": ` + errGone.Error(), false},
		{"cancelled, and the call says why", func(c *caller) {
			c.returns("r", done)
			c.Cancel(c.now, uid, errGone)
			c.returns("a", errCall)
		}, "a r", broken, false},
		{"at the second PreBind", func(c *caller) {
			c.returns("r", done)
			c.returns("a", done)
			c.returns("b", errCall)
		}, "b a r", broken, false},
		{"the binding is refused", func(c *caller) {
			c.returns("r", done)
			c.returns("a", done)
			c.returns("b", done)
			c.done(c.take(commit.Bind, "p"), errNo)
		}, "b a r", `running Bind plugin "DefaultBinder": ` + errNo.Error(), false},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := newCaller(t)
			c.start(withCalls("Reserve/r!", "PreBind/a!", "PreBind/b!", "PostBind/c!"))
			row.fails(c)
			for _, name := range strings.Fields(row.undo) {
				if len(c.all) > 0 {
					t.Fatal("it is answered before it is undone")
				}
				c.returns("undo "+name, errCall) // ignored
			}
			c.ended(row.err, row.rejected)
			why := v1.PodReasonSchedulerError
			if row.rejected {
				why = v1.PodReasonUnschedulable
			}
			if request := c.take(commit.Patch, "p"); request.Condition.Reason != why {
				t.Errorf("the condition is %+v, want the reason %s", request.Condition, why)
			} else {
				c.Done(c.now, request, commit.Response{})
			}
			c.forgotten()
		})
	}
}

// TestPermitWaitsFromTheDecision has a plugin wait at Permit for five seconds, after a
// call at Reserve of three seconds. As in kube-scheduler, the timeout counts from the
// decision.
func TestPermitWaitsFromTheDecision(t *testing.T) {
	c := newCaller(t)
	c.start(withCalls("Reserve/r!", "Permit/gang 5s"))
	c.now = c.now.Add(3 * time.Second)
	c.returns("r", done)
	c.Done(c.now, c.take(commit.Patch, "p"), commit.Response{}) // the announcement
	c.later(2 * time.Second)
	c.nothing()
	c.returns("undo r", done)
	c.ended("0/1 nodes are available: 1 rejected due to timeout after waiting 5s at plugin gang.", true, "gang")
}

// TestBindCalls has calls bind the pod, or try to.
func TestBindCalls(t *testing.T) {
	unclear := commit.CallResult{Err: fmt.Errorf(`running Bind plugin "a": %w`, io.ErrUnexpectedEOF)}
	ask := func(c *caller, node string, err error) {
		c.later(0)
		c.Done(c.now, c.take(commit.Ask, "p"), commit.Response{NodeName: node, Err: err})
	}
	for _, row := range []struct {
		name     string
		goes     func(c *caller)
		undone   bool
		err      string
		rejected bool
	}{
		{"the first binds it", func(c *caller) { c.returns("a", done) }, false, "<nil>", false},
		{"the second binds it", func(c *caller) {
			c.returns("a", skipped)
			c.returns("b", done)
		}, false, "<nil>", false},
		{"all skip it, and DefaultBinder binds it", func(c *caller) {
			c.returns("a", skipped)
			c.returns("b", skipped)
			c.done(c.take(commit.Bind, "p"), nil)
		}, false, "<nil>", false},
		{"it fails, and the pod is bound all the same", func(c *caller) {
			c.returns("a", errCall)
			ask(c, "", errBroken)
			c.later(50 * time.Millisecond)
			c.Done(c.now, c.take(commit.Ask, "p"), commit.Response{NodeName: "node-of-p"})
		}, false, "<nil>", false},
		{"it fails, and the pod is not bound", func(c *caller) {
			c.returns("a", errCall)
			if c.Cancel(c.now, uid, errNo) {
				c.Error("a binding was cancelled that may be stored")
			}
			ask(c, "", nil)
		}, true, errCall.Err.Error(), false},
		{"it rejects the pod", func(c *caller) {
			c.returns("a", commit.CallResult{Err: errors.New("no"), Rejected: true})
			ask(c, "", nil)
		}, true, "no", true},
		{"it fails, and the pod is bound elsewhere", func(c *caller) {
			c.returns("a", errCall)
			ask(c, "elsewhere", nil)
		}, true, errCall.Err.Error() + " (the pod is bound to elsewhere)", false},
		{"its request may still arrive", func(c *caller) {
			c.returns("a", unclear)
			ask(c, "", nil)
			c.look()
			if len(c.all) > 0 {
				c.Error("the room is released while the binding may be stored")
			}
			c.later(5 * time.Second)
			c.Done(c.now, c.take(commit.Ask, "p"), commit.Response{})
		}, true, unclear.Err.Error(), false},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := newCaller(t)
			c.start(withCalls("Reserve/r!", "Bind/a", "Bind/b", "PostBind/c"))
			c.returns("r", done)
			if c.look(); c.Cancel(c.now, uid, errGone) {
				t.Error("a binding was cancelled that a plugin makes")
			}
			row.goes(c)
			if row.undone {
				c.returns("undo r", done)
			} else {
				c.returns("c", done)
			}
			c.ended(row.err, row.rejected)
			c.forgotten()
			if want := "[" + errGone.Error() + " the binding is over]"; fmt.Sprint(c.canceled) != want {
				t.Errorf("the context ended because %v, want %s", c.canceled, want)
			}
		})
	}
}

// TestNobodyBinds has all Bind plugins of a profile without DefaultBinder skip a pod.
func TestNobodyBinds(t *testing.T) {
	c := &caller{bench: newBenchOf(t, commit.OutboxConfig{
		Binder: func(string) *plugin.Bind { return nil }, MaxReports: 10, MaxSeries: 100, Budget: commit.Budget{InFlight: 4, EachInFlight: 4, PerSecond: 1_000_000},
		Pause: time.Second, Jitter: unchanged,
	})}
	c.start(withCalls("Reserve/r!", "Bind/a"))
	c.returns("r", done)
	c.returns("a", skipped)
	c.returns("undo r", done)
	c.ended(`no Bind plugin of the profile "default-scheduler" binds the pod: all of them skipped it`, false)
	c.forgotten()
}

// TestPermitHandles ends waits through the plugins' handles.
func TestPermitHandles(t *testing.T) {
	for _, row := range []struct {
		name      string
		ends      func(c *caller, a *commit.AtPermit)
		err       string
		rejected  bool
		rejectors []string
	}{
		{"rejected", func(c *caller, a *commit.AtPermit) {
			if !c.RejectAt(c.now, a, "one", "too few") || c.RejectAt(c.now, a, "two", "no") || c.PreemptAt(c.now, a, "no") {
				c.Error("it is rejected twice, or not at all")
			}
		}, "0/1 nodes are available: 1 too few.", true, []string{"one"}},
		{"rejected by a plugin that does not wait", func(c *caller, a *commit.AtPermit) { c.RejectAt(c.now, a, "other", "no") },
			"0/1 nodes are available: 1 no.", true, []string{"other"}},
		{"rejected by nobody", func(c *caller, a *commit.AtPermit) { c.RejectAt(c.now, a, "", "removed") }, "0/1 nodes are available: 1 removed.", true, nil},
		{"preempted", func(c *caller, a *commit.AtPermit) { c.PreemptAt(c.now, a, "room is needed") }, "waiting on permit for pod: room is needed", false, nil},
		{"allowed, and rejected too late", func(c *caller, a *commit.AtPermit) {
			c.AllowAt(c.now, a, "one")
			c.AllowAt(c.now, a, "one")
			if got := fmt.Sprint(c.PendingAt(a)); got != "[two]" {
				c.Errorf("%s are pending", got)
			}
			c.AllowAt(c.now, a, "two")
			if c.RejectAt(c.now, a, "two", "no") {
				c.Error("it is rejected after it was allowed")
			}
			c.AllowAt(c.now, a, "two")
			c.done(c.take(commit.Bind, "p"), nil)
		}, "<nil>", false, nil},
	} {
		for _, amid := range []bool{false, true} { // while the preflight runs
			t.Run(fmt.Sprint(row.name, " ", amid), func(t *testing.T) {
				c := newCaller(t)
				c.start(withCalls("Reserve/r!", "Permit/one 5s", "Permit/two 5s"))
				if !amid {
					c.returns("r", done)
					c.done(c.take(commit.Patch, "p"), nil)
				}
				a := c.AtPermitOf(uid)
				if all := c.AtPermit(); len(all) != 1 || all[0] != a || fmt.Sprint(c.PendingAt(a)) != "[one two]" {
					t.Fatalf("%d pods wait", len(all))
				}
				if p := a.Pod(); p.Spec.NodeName != "node-of-p" || p.UID != uid || a.Pod() != p || podNamed("p").Object.Spec.NodeName != "" {
					t.Errorf("the pod is %+v", p)
				}
				bound := row.err == "<nil>"
				if amid && bound {
					c.AllowAt(c.now, a, "one")
					c.AllowAt(c.now, a, "two")
					c.returns("r", done)
					c.done(c.take(commit.Bind, "p"), nil)
				} else {
					row.ends(c, a)
					if amid {
						c.returns("r", done)
					}
				}
				if c.AtPermitOf(uid) != nil || len(c.AtPermit()) > 0 {
					t.Error("it is still waiting")
				}
				if !bound {
					c.returns("undo r", done)
				}
				c.ended(row.err, row.rejected, row.rejectors...)
				c.AllowAt(c.now, a, "one")
				if c.RejectAt(c.now, a, "one", "no") {
					t.Error("it is rejected when it is over")
				}
				c.forgotten()
			})
		}
	}
}

// TestHandleIsOfOneAttempt keeps the handle of a rejected attempt: it does not affect the
// next attempt.
func TestHandleIsOfOneAttempt(t *testing.T) {
	c := newCaller(t)
	c.start(withCalls("Permit/one 5s"))
	old := c.AtPermitOf(uid)
	c.RejectAt(c.now, old, "one", "no")
	c.start(withCalls("Permit/one 5s"))
	c.AllowAt(c.now, old, "one")
	if now := c.AtPermitOf(uid); now == nil || now == old || len(c.PendingAt(now)) != 1 || c.RejectAt(c.now, old, "one", "no") {
		t.Error("the old handle has ended the new wait")
	}
}

// TestPreBindHandles cancels bindings at PreBind, or makes them impossible to cancel.
func TestPreBindHandles(t *testing.T) {
	c := newCaller(t)
	c.start(withCalls("Reserve/r!", "PreBind/a"))
	if c.AtPreBindOf(uid) != nil {
		t.Error("it is at PreBind before it is")
	}
	c.returns("r", done)
	a := c.AtPreBindOf(uid)
	if !c.CancelAt(c.now, a, "room is needed") || !c.CancelAt(c.now, a, "again") || c.MarkPrebound(a) {
		t.Error("it is not cancelled, or is marked although it was")
	}
	c.returns("a", done)
	if c.AtPreBindOf(uid) != nil || !c.CancelAt(c.now, a, "again") {
		t.Error("it is at PreBind after it failed")
	}
	c.returns("undo r", done)
	c.ended(`running PreBind plugin "a": room is needed`, false)

	c = newCaller(t)
	c.start(withCalls("Reserve/r!", "PreBind/a"))
	c.returns("r", done)
	a = c.AtPreBindOf(uid)
	if once, twice := c.MarkPrebound(a), c.MarkPrebound(a); !once || !twice || c.CancelAt(c.now, a, "room is needed") || c.Cancel(c.now, uid, errNo) {
		t.Error("it is cancelled after it was marked")
	}
	c.returns("a", done)
	c.done(c.take(commit.Bind, "p"), nil)
	c.ended("<nil>", false)
	c.forgotten()
}

// TestHandlesAreTooLate uses the handles of a pod when nothing is left to decide: they
// report that, and change nothing.
func TestHandlesAreTooLate(t *testing.T) {
	for _, row := range []struct {
		name string
		goes func(c *caller)
		err  string
	}{
		{"all have allowed it, and it is not at Permit yet", func(c *caller) {
			a := c.AtPermitOf(uid)
			c.AllowAt(c.now, a, "gang")
			if c.RejectAt(c.now, a, "gang", "no") || c.RejectAt(c.now, a, "", "no") || c.PreemptAt(c.now, a, "no") {
				c.Error("it is rejected")
			}
			c.returns("r", done)
			c.announced(nil)
			c.returns("a", done)
			c.done(c.take(commit.Bind, "p"), nil)
		}, "<nil>"},
		{"PreBind is over", func(c *caller) {
			c.Allow(c.now, uid, "gang")
			c.returns("r", done)
			c.announced(nil)
			a := c.AtPreBindOf(uid)
			c.returns("a", done)
			request := c.take(commit.Bind, "p")
			if c.CancelAt(c.now, a, "room is needed") {
				c.Error("it is cancelled")
			}
			c.done(request, nil)
		}, "<nil>"},
		{"its place is needed, and its call runs still", func(c *caller) {
			c.Allow(c.now, uid, "gang")
			c.returns("r", done)
			c.announced(nil)
			a := c.AtPreBindOf(uid)
			if !c.Cancel(c.now, uid, errGone) || c.MarkPrebound(a) {
				c.Error("it is not cancelled, or marked")
			}
			c.returns("a", done)
			c.returns("undo r", done)
		}, `running PreBind plugin "a": ` + errGone.Error()},
		{"it has failed, and is being undone", func(c *caller) {
			c.Allow(c.now, uid, "gang")
			c.returns("r", done)
			c.announced(nil)
			a := c.AtPreBindOf(uid)
			c.returns("a", errCall)
			if c.MarkPrebound(a) {
				c.Error("it is marked")
			}
			c.returns("undo r", done)
		}, errCall.Err.Error()},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := newCaller(t)
			c.start(withCalls("Reserve/r!", "Permit/gang 5s", "PreBind/a"))
			c.look()
			row.goes(c)
			c.ended(row.err, false)
		})
	}
}

// TestVictimInACall evicts a pod during a plugin's call: its binding is cancelled, and
// the preemption continues when the call has returned.
func TestVictimInACall(t *testing.T) {
	c := newCaller(t)
	c.start(withCalls("Reserve/r!", "PreBind/a"))
	c.returns("r", done)
	c.start(preempting("q", 10, podNamed("p")))
	c.look()
	if len(c.canceled) != 1 || !strings.Contains(c.canceled[0], "preempted by DefaultPreemption") {
		t.Errorf("the context ended because %v", c.canceled)
	}
	c.returns("a", commit.CallResult{Err: context.Canceled})
	c.returns("undo r", done)
	c.ended(`running PreBind plugin "a": preempted by DefaultPreemption`, false)
}

// TestStopAmidCalls stops bindings while calls run. Their contexts end, and each is
// settled when its call returns. Nothing is undone, and calls that do not return are
// settled in the end.
func TestStopAmidCalls(t *testing.T) {
	c := newCaller(t)
	var requests []commit.Request
	for _, name := range []string{"reserves", "binds", "bound", "undoes"} {
		d := withCalls("Reserve/r!", "Bind/b", "PostBind/c")
		pod := podNamed(name)
		d.Pod, d.Placement.Pod = pod, pod
		c.start(d)
		for range map[string]int{"binds": 1, "bound": 2}[name] {
			c.returns(map[bool]string{true: "b", false: "r"}[len(c.running) == 1 && c.running[0].Stage == plan.Bind], done)
			c.look()
		}
		if name == "undoes" {
			c.returns("r", errCall)
		}
		c.look()
		requests, c.running = append(requests, c.running...), nil
	}
	c.all = nil // bound
	c.Stop(c.now, errors.New("the end"))
	c.look()
	if len(c.all) > 0 || len(c.canceled) != 4 || c.Empty() {
		t.Errorf("%d are answered, %d contexts have ended, empty: %t", len(c.all), len(c.canceled), c.Empty())
	}
	for _, request := range requests {
		c.Done(c.now, request, commit.Response{Call: done})
	}
	c.look()
	var got []string
	for _, s := range c.all {
		got = append(got, fmt.Sprint(s.Placement.Pod.Name, ": ", s.Err))
	}
	if want := `[reserves: running PreBindPreFlight plugin "r": the end binds: <nil> undoes: ` + errCall.Err.Error() + "]"; fmt.Sprint(got) != want {
		t.Errorf("they have ended as %s, want %s", got, want)
	}
	if len(c.running) > 0 {
		t.Errorf("%+v run after the stop", c.running)
	}
}

// TestImpossibleCalls has plugins make invalid calls: the pod fails with the plugin's
// name, and the plugins' reservations are undone.
func TestImpossibleCalls(t *testing.T) {
	for _, row := range []struct {
		change func(s *plan.Step)
		want   string
	}{
		{func(s *plan.Step) { s.Call = notRun{} }, `plugin "a" makes a step at PreBind with calls of the types commit_test.notRun and <nil>: must be a commit.Call`},
		{func(s *plan.Step) { s.Write = &plan.Write{} }, `plugin "a" makes a step at PreBind with a call and a write: must have one of them`},
		{func(s *plan.Step) { s.Undo, s.UndoCall = &plan.Write{}, s.Call }, `plugin "a" makes a step at PreBind with a call and a write: must have one of them`},
		{func(s *plan.Step) { s.Stage, s.Wait = plan.Bind, &plan.Wait{Timeout: 1} }, `plugin "a" waits at Bind: must do so in its call`},
		{func(s *plan.Step) { s.Stage, s.Wait = plan.Reserve, &plan.Wait{Timeout: 1} }, `plugin "a" writes or waits at Reserve, where only calls are run`},
	} {
		c := newCaller(t)
		d := withCalls("Reserve/r!", "PreBind/a")
		row.change(&d.Placement.Steps[1])
		c.start(d)
		c.returns("undo r", done)
		c.ended(row.want, false)
		c.forgotten()
	}
}
