package commit_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// stepped is a placement with the given steps. A step is written as stage/plugin and its
// actions: w writes, u has something to undo, and a number is the seconds that it waits.
func stepped(name string, steps ...string) plan.Decision {
	d := placed(podNamed(name))
	for _, text := range steps {
		words := strings.Fields(text)
		stage, plugin, _ := strings.Cut(words[0], "/")
		step := plan.Step{Plugin: plugin}
		for step.Stage.String() != stage {
			step.Stage++
		}
		for _, word := range words[1:] {
			switch {
			case word == "w":
				step.Write = &plan.Write{Name: plugin}
			case word == "u":
				step.Undo = &plan.Write{Name: "undo " + plugin}
			default:
				wait, err := time.ParseDuration(word)
				if err != nil {
					panic(err)
				}
				step.Wait = &plan.Wait{Timeout: wait}
			}
		}
		d.Placement.Steps = append(d.Placement.Steps, step)
	}
	return d
}

// takeWrite takes the next request, which must be this write of the pod p.
func (b *bench) takeWrite(kind commit.RequestKind, name string) commit.Request {
	b.Helper()
	request := b.take(kind, "p")
	if request.Write.Name != name {
		b.Fatalf("the next write is %q, want %q", request.Write.Name, name)
	}
	return request
}

// done ends a request, and leaves the results for checks.
func (b *bench) done(request commit.Request, err error) {
	response := commit.Response{Err: err}
	if err == nil && request.Write != nil && request.Write.Learn {
		response.Object = claimObject(true)
	}
	b.Done(b.now, request, response)
}

// wantFailed checks that the binding has ended with this error, and that nothing of it is
// kept.
func (b *bench) wantFailed(s *commit.Settled, text string) {
	b.Helper()
	if s == nil || s.Err == nil || s.Err.Error() != text {
		b.Fatalf("the binding ended as %+v, want %q", s, text)
	}
	if b.Open() != 0 {
		b.Errorf("%d bindings are open", b.Open())
	}
}

var uid = podNamed("p").UID

// TestStepsInOrder takes a binding through all its stages.
func TestStepsInOrder(t *testing.T) {
	b := newBench(t, 10)
	b.start(stepped("p", "Permit/gang 5s", "PreBind/a w u", "PreBind/b w 10s", "PostBind/c w", "PostBind/d w"))
	b.nothing()
	if b.Waiting() != 0 {
		t.Error("a binding that waits is in the backlog")
	}
	b.Allow(b.now, uid, "gang")
	b.answer(b.takeWrite(commit.WriteStep, "a"), "", nil)
	b.answer(b.takeWrite(commit.WriteStep, "b"), "", nil)
	b.nothing()
	b.Allow(b.now, uid, "b")
	if s := b.answer(b.take(commit.Bind, "p"), "", nil); s == nil || s.Err != nil {
		t.Fatalf("the binding ended as %+v", s)
	}
	b.answer(b.takeWrite(commit.WriteStep, "c"), "", errNo) // changes nothing for the pod
	b.answer(b.takeWrite(commit.WriteStep, "d"), "", nil)
	b.take(commit.Record, "p")
	b.nothing()
	if n := b.Remembered(); n != 0 {
		t.Errorf("%d things are remembered", n)
	}
}

// TestStagesAreObserved checks the record of each extension point that was passed.
func TestStagesAreObserved(t *testing.T) {
	b := newBench(t, 10)
	var passed []string
	note := func() {
		for _, s := range b.Take().Stages {
			passed = append(passed, fmt.Sprint(s.Stage, " ", s.Took, " ", s.Err, " ", s.Rejected))
		}
	}
	b.start(stepped("p", "Permit/gang 5s", "PreBind/a w", "PostBind/c w"))
	b.now = b.now.Add(2 * time.Second)
	b.Allow(b.now, uid, "gang")
	request := b.take(commit.WriteStep, "p")
	b.now = b.now.Add(3 * time.Second)
	b.Done(b.now, request, commit.Response{})
	b.Done(b.now, b.take(commit.Bind, "p"), commit.Response{})
	b.Done(b.now, b.take(commit.WriteStep, "p"), commit.Response{})
	note()
	b.take(commit.Record, "p")
	b.start(stepped("p", "Permit/gang 5s"))
	b.Reject(b.now, uid, "gang", errors.New("too few"))
	note()
	want := "[Permit 2s <nil> false PreBind 3s <nil> false PostBind 0s <nil> false Permit 0s 0/1 nodes are available: 1 too few. true]"
	if got := fmt.Sprint(passed); got != want {
		t.Errorf("noted %s\nwant  %s", got, want)
	}
}

// TestEndsOfWaitsAreNoted ends waits at PreBind in each way, and checks their record at
// the end of the extension point.
func TestEndsOfWaitsAreNoted(t *testing.T) {
	for _, row := range []struct {
		name string
		ends func(b *bench)
		want string
	}{
		{"allowed", func(b *bench) {
			b.now = b.now.Add(2 * time.Second)
			b.Allow(b.now, uid, "a")
			b.now = b.now.Add(3 * time.Second)
			b.done(b.takeWrite(commit.WriteStep, "b"), nil)
			b.now = b.now.Add(4 * time.Second)
			b.Allow(b.now, uid, "b")
		}, "10s 2s <nil>, 20s 4s <nil>"},
		{"the second before it begins", func(b *bench) {
			b.Allow(b.now, uid, "b")
			b.now = b.now.Add(2 * time.Second)
			b.Allow(b.now, uid, "a")
			b.done(b.takeWrite(commit.WriteStep, "b"), nil)
		}, "10s 2s <nil>, 20s 0s <nil>"},
		{"timeout", func(b *bench) {
			b.later(10 * time.Second)
			b.Next(b.now, false)
		}, `10s 10s running PreBind plugin "a": timed out after waiting 10s`},
		{"rejected", func(b *bench) {
			b.now = b.now.Add(time.Second)
			b.Reject(b.now, uid, "a", errNo)
		}, `10s 1s running PreBind plugin "a": ` + errNo.Error()},
		{"cancelled", func(b *bench) { b.Cancel(b.now, uid, errNo) }, `10s 0s running PreBind plugin "a": ` + errNo.Error()},
		{"the next step fails", func(b *bench) {
			b.Allow(b.now, uid, "a")
			b.done(b.takeWrite(commit.WriteStep, "b"), errNo)
		}, "10s 0s <nil>"},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newBench(t, 10)
			b.start(stepped("p", "Permit/gang 5s", "PreBind/a 10s", "PreBind/b w 20s"))
			b.now = b.now.Add(time.Second)
			b.Allow(b.now, uid, "gang") // its wait is that of its extension point
			row.ends(b)
			var got []string
			for _, s := range b.Take().Stages {
				for _, w := range s.Waits {
					got = append(got, fmt.Sprint(w.Wait.Timeout, " ", w.Took, " ", w.Err))
					if s.Stage != plan.PreBind || w.Err != nil && !errors.Is(s.Err, w.Err) {
						t.Errorf("a wait at %s, which ended with %v", s.Stage, s.Err)
					}
				}
			}
			if got := strings.Join(got, ", "); got != row.want {
				t.Errorf("noted %s\nwant  %s", got, row.want)
			}
		})
	}
}

// TestPluginsAtPreBind expects the time of each plugin at PreBind, from its first step to
// the next plugin's, with the failure of the last. A plugin with a call measures itself.
func TestPluginsAtPreBind(t *testing.T) {
	for _, row := range []struct {
		name string
		ends func(b *bench)
		want string
	}{
		{"all succeed", func(b *bench) {
			b.now = b.now.Add(2 * time.Second)
			b.done(b.takeWrite(commit.WriteStep, "a"), nil)
			b.now = b.now.Add(time.Second)
			b.Allow(b.now, uid, "a")
			b.now = b.now.Add(4 * time.Second)
			b.done(b.takeWrite(commit.WriteStep, "b"), nil)
		}, "a 3s <nil>, b 4s <nil>"},
		{"the first fails", func(b *bench) {
			b.now = b.now.Add(time.Second)
			b.done(b.takeWrite(commit.WriteStep, "a"), errNo)
		}, `a 1s running PreBind plugin "a": ` + errNo.Error()},
		{"the second fails", func(b *bench) {
			b.done(b.takeWrite(commit.WriteStep, "a"), nil)
			b.Allow(b.now, uid, "a")
			b.now = b.now.Add(time.Second)
			b.done(b.takeWrite(commit.WriteStep, "b"), errNo)
		}, `a 0s <nil>, b 1s running PreBind plugin "b": ` + errNo.Error()},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newBench(t, 10)
			b.start(stepped("p", "Permit/gang 5s", "PreBind/a w", "PreBind/a 10s", "PreBind/b w"))
			b.now = b.now.Add(time.Second)
			b.Allow(b.now, uid, "gang")
			row.ends(b)
			var got []string
			for _, s := range b.Take().Stages {
				for _, p := range s.Plugins {
					if got = append(got, fmt.Sprint(p.Plugin, " ", p.Took, " ", p.Err)); s.Stage != plan.PreBind {
						t.Errorf("plugin %s at %s", p.Plugin, s.Stage)
					}
				}
			}
			if got := strings.Join(got, ", "); got != row.want {
				t.Errorf("timed %s\nwant  %s", got, row.want)
			}
		})
	}
}

// TestFailedStepIsUndoneBackwards fails a binding at each point: steps that may have been
// stored are undone in reverse order, and then the loop gets the result.
func TestFailedStepIsUndoneBackwards(t *testing.T) {
	conflict := apierrors.NewConflict(v1.Resource("claims"), "a", errors.New("modified"))
	steps := []string{"PreBind/a w u", "PreBind/b w u", "PreBind/c w u 10s"}
	for _, row := range []struct {
		name  string
		fails func(b *bench)
		undo  string
		err   string
	}{
		{"the first is refused", func(b *bench) { b.done(b.takeWrite(commit.WriteStep, "a"), conflict) }, "",
			`running PreBind plugin "a": ` + conflict.Error()},
		{"the second is refused", func(b *bench) {
			b.done(b.takeWrite(commit.WriteStep, "a"), nil)
			b.done(b.takeWrite(commit.WriteStep, "b"), errNo)
		}, "a", `running PreBind plugin "b": ` + errNo.Error()},
		{"the second may be stored", func(b *bench) {
			b.done(b.takeWrite(commit.WriteStep, "a"), nil)
			b.done(b.takeWrite(commit.WriteStep, "b"), errBroken)
			b.later(10 * time.Millisecond)
			b.done(b.takeWrite(commit.WriteStep, "b"), conflict)
		}, "b a", `running PreBind plugin "b": ` + conflict.Error()},
		{"the third times out", func(b *bench) {
			for _, name := range []string{"a", "b", "c"} {
				b.done(b.takeWrite(commit.WriteStep, name), nil)
			}
			b.nothing()
			b.later(10 * time.Second)
		}, "c b a", `running PreBind plugin "c": timed out after waiting 10s`},
		{"the wait is rejected", func(b *bench) {
			for _, name := range []string{"a", "b", "c"} {
				b.done(b.takeWrite(commit.WriteStep, name), nil)
			}
			b.Reject(b.now, uid, "c", errors.New("the volume is lost"))
		}, "c b a", `running PreBind plugin "c": the volume is lost`},
		{"it is cancelled in flight", func(b *bench) {
			b.done(b.takeWrite(commit.WriteStep, "a"), nil)
			request := b.takeWrite(commit.WriteStep, "b")
			if !b.Cancel(b.now, uid, errors.New("preempted")) {
				b.Error("it cannot be cancelled")
			}
			b.done(request, nil)
		}, "b a", `running PreBind plugin "b": preempted`},
		{"it is cancelled before it is sent", func(b *bench) {
			b.done(b.takeWrite(commit.WriteStep, "a"), nil)
			b.Cancel(b.now, uid, errors.New("preempted"))
		}, "a", `running PreBind plugin "b": preempted`},
		{"the binding is refused", func(b *bench) {
			b.Allow(b.now, uid, "c") // before it waits
			for _, name := range []string{"a", "b", "c"} {
				b.done(b.takeWrite(commit.WriteStep, name), nil)
			}
			b.done(b.take(commit.Bind, "p"), errNo)
		}, "c b a", `running Bind plugin "DefaultBinder": ` + errNo.Error()},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newBench(t, 10)
			b.start(stepped("p", steps...))
			row.fails(b)
			for _, name := range strings.Fields(row.undo) {
				if s := b.settled(); s != nil {
					t.Fatalf("answered before everything is undone: %v", s.Err)
				}
				request := b.takeWrite(commit.UndoStep, "undo "+name)
				// The pod keeps its resources until the result is known.
				b.Done(b.now, request, commit.Response{Err: errBroken})
				b.later(50 * time.Millisecond)
				b.Done(b.now, b.takeWrite(commit.UndoStep, "undo "+name), commit.Response{})
			}
			b.wantFailed(b.settled(), row.err)
			b.answer(b.take(commit.Patch, "p"), "", nil)
			b.answer(b.take(commit.Record, "p"), "", nil)
			b.now = b.now.Add(time.Hour)
			b.nothing()
			if n := b.Remembered(); n != 0 {
				t.Errorf("%d things are remembered", n)
			}
		})
	}
}

// TestPermit ends waits at Permit in every way, with kube-scheduler's messages.
func TestPermit(t *testing.T) {
	for _, row := range []struct {
		name string
		ends func(b *bench)
		err  string
		by   string
	}{
		{"rejected", func(b *bench) { b.Reject(b.now, uid, "two", errors.New("too few")) }, "0/1 nodes are available: 1 too few.", "[two]"},
		{"timeout of the shorter", func(b *bench) {
			b.later(5 * time.Second)
		}, "0/1 nodes are available: 1 rejected due to timeout after waiting 5s at plugin one.", "[one]"},
		{"timeout of the other, which has waited as long", func(b *bench) {
			b.now = b.now.Add(4 * time.Second)
			b.Allow(b.now, uid, "one")
			b.later(4 * time.Second)
		}, "0/1 nodes are available: 1 rejected due to timeout after waiting 8s at plugin two.", "[two]"},
		{"cancelled", func(b *bench) { b.Cancel(b.now, uid, errors.New("preempted")) }, "waiting on permit for pod: preempted", "[]"},
		{"stopped", func(b *bench) { b.Stop(b.now, errors.New("the end")) }, "waiting on permit for pod: the end", "[]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newBench(t, 10)
			b.start(stepped("p", "Permit/one 5s", "Permit/two 8s", "PreBind/a w"))
			b.nothing()
			row.ends(b)
			why := v1.PodReasonSchedulerError
			if row.by != "[]" {
				why = v1.PodReasonUnschedulable
			}
			if row.name == "stopped" {
				b.nothing()
			} else if request := b.take(commit.Patch, "p"); request.Condition.Reason != why {
				t.Errorf("the condition is %+v, want the reason %s", request.Condition, why)
			}
			s := b.settled()
			b.wantFailed(s, row.err)
			if got := fmt.Sprint(s.Rejectors); got != row.by {
				t.Errorf("rejected by %s, want %s", got, row.by)
			}
		})
	}
}

// TestAllowMeansThePlugin allows other plugins and pods than the waiting ones: nothing
// happens.
func TestAllowMeansThePlugin(t *testing.T) {
	b := newBench(t, 10)
	b.start(stepped("p", "Permit/one 5s"))
	b.Allow(b.now, uid, "two")
	b.Allow(b.now, "nobody", "one")
	b.Reject(b.now, uid, "two", errors.New("no"))
	b.nothing()
	if b.Cancel(b.now, "nobody", errNo) {
		t.Error("a binding that is not there was cancelled")
	}
	b.Allow(b.now, uid, "one")
	request := b.take(commit.Bind, "p")
	if b.Cancel(b.now, uid, errNo) {
		t.Error("a binding in flight was cancelled")
	}
	b.answer(request, "", errBroken)
	if b.Cancel(b.now, uid, errNo) {
		t.Error("a binding was cancelled that may be stored")
	}
}

// TestCancel cancels bindings without steps before they are sent.
func TestCancel(t *testing.T) {
	b := newBench(t, 10)
	b.start(placed(podNamed("p")))
	b.start(placed(podNamed("q")))
	if !b.Cancel(b.now, uid, errNo) {
		t.Fatal("a binding in the backlog cannot be cancelled")
	}
	b.wantFailed(b.settled(), errNo.Error())
	b.answer(b.take(commit.Bind, "q"), "", nil)

	b.start(nominated(podNamed("r"), "a"))
	b.answer(b.take(commit.Patch, "p"), "", nil)
	b.answer(b.take(commit.Record, "q"), "", nil)
	status := b.take(commit.Patch, "r")
	b.start(placed(podNamed("r")))
	if !b.Cancel(b.now, podNamed("r").UID, errNo) {
		t.Fatal("a binding that waits for a status cannot be cancelled")
	}
	b.wantFailed(b.settled(), errNo.Error())
	b.answer(status, "", nil)
	b.answer(b.take(commit.Patch, "r"), "", nil) // it is rejected
	b.answer(b.take(commit.Record, "p"), "", nil)
	b.answer(b.take(commit.Record, "r"), "", nil)
	b.nothing()
}

// TestStopAmidSteps stops bindings at every stage: each is settled, and nothing is
// undone.
func TestStopAmidSteps(t *testing.T) {
	b := newBench(t, 10)
	b.start(stepped("waits", "Permit/a 5s"))
	b.start(stepped("ready", "PreBind/b w u"))
	b.start(stepped("flies", "PreBind/c w u"))
	ready := b.take(commit.WriteStep, "ready")
	flies := b.take(commit.WriteStep, "flies")
	b.Done(b.now, ready, commit.Response{Err: errBroken}) // waits for its next try
	b.Stop(b.now, errors.New("the end"))
	ended := map[string]string{}
	note := func() {
		for _, s := range b.Take().Settled {
			ended[s.Placement.Pod.Name] = s.Err.Error()
		}
	}
	note()
	if len(ended) != 2 {
		t.Errorf("%v have ended, want the two that no request is under way for", ended)
	}
	b.Done(b.now, flies, commit.Response{})
	b.start(stepped("late", "PreBind/d w"))
	note()
	if _, ok := b.Next(b.now.Add(time.Hour), false); len(ended) != 4 || ok {
		t.Errorf("%v have ended; there is more to send: %t", ended, ok)
	}
	if n := b.Remembered(); n != 0 {
		t.Errorf("%d things are remembered", n)
	}
}

// TestNominationEndsWithTheBinding fails a binding whose decision nominated its node: the
// nomination is cleared, although the pod does not show it yet.
func TestNominationEndsWithTheBinding(t *testing.T) {
	b := newBench(t, 10)
	d := stepped("p", "Permit/one 5s")
	d.Nominations = []plan.Nomination{{Pod: d.Pod, Mode: plan.Set, NodeName: "node-of-p"}}
	b.start(d)
	request := b.take(commit.Patch, "p")
	if request.Nomination.Mode != plan.Set || request.Condition != nil {
		t.Errorf("written: %+v", request)
	}
	b.answer(request, "", nil)
	b.Reject(b.now, uid, "one", errors.New("no"))
	if request := b.take(commit.Patch, "p"); request.Nomination.Mode != plan.Clear {
		t.Errorf("written: %+v", request)
	}
}

// TestImpossibleSteps has plugins make invalid steps: the pod fails with the plugin's
// name.
func TestImpossibleSteps(t *testing.T) {
	for steps, want := range map[string]string{
		"Bind/a w":                    `plugin "a" makes a step at Bind that is not a call; writes there belong to the Bind plugin`,
		"PreBind/a w, Permit/b 5s":    `plugin "b" makes a step at Permit after one at PreBind`,
		"PostBind/a 5s":               `plugin "a" waits after the binding`,
		"Permit/a 0s":                 `plugin "a" waits for 0s: must be greater than 0`,
		"Permit/a 5s, PreBind/a w 5s": `plugin "a" waits twice`,
	} {
		b := newBench(t, 10)
		b.start(stepped("p", strings.Split(steps, ", ")...))
		b.wantFailed(b.settled(), want)
	}
}

// TestPriority fills the backlog with pods of all priorities: the highest goes first, and
// among equals the earliest decision.
func TestPriority(t *testing.T) {
	b := newBench(t, 10)
	for i := range 500 {
		b.start(withPriority(fmt.Sprint("batch-", i), int32(i%3)))
	}
	first := b.take(commit.Bind, "batch-2") // in flight
	b.start(withPriority("system", 2_000_000_000))
	b.take(commit.Bind, "system")
	b.answer(first, "", apierrors.NewServiceUnavailable("unwell"))
	b.take(commit.Bind, "batch-5")
	b.later(10 * time.Millisecond)
	b.take(commit.Bind, "batch-2") // it was decided before the others
	b.take(commit.Bind, "batch-8")
	last := ""
	for {
		request, ok := b.Next(b.now, false)
		if !ok {
			break
		}
		last = request.Pod.Name
	}
	if last != "batch-498" {
		t.Errorf("the last is %s, want the last of the lowest priority", last)
	}
}

func withPriority(name string, priority int32) plan.Decision {
	pod := podNamed(name)
	pod.Priority = priority
	return placed(pod)
}

// TestManyWaits lets 5,000 bindings wait, and ends them in another order: each is found
// by its pod, and removed from the timeline without a search.
func TestManyWaits(t *testing.T) {
	b := newBench(t, 10)
	const pods = 5_000
	for i := range pods {
		b.start(stepped(fmt.Sprint("p", i), fmt.Sprintf("Permit/a %dms", 1+(i*7919)%pods)))
	}
	for i := range pods / 2 {
		b.Allow(b.now, types.UID(fmt.Sprint("uid-p", (i*6841)%pods)), "a")
	}
	b.now = b.now.Add(time.Minute)
	bound := 0
	for {
		request, ok := b.Next(b.now, false)
		if !ok {
			break
		}
		if request.Kind == commit.Bind {
			bound++
		}
		b.Done(b.now, request, commit.Response{})
	}
	if ended := len(b.Take().Settled); ended != pods || bound != pods/2 {
		t.Errorf("%d have ended, %d are bound", ended, bound)
	}
	if looked := b.Stats().Looked; looked > 64*pods {
		t.Errorf("to end %d waits, %d were looked at", pods, looked)
	}
}

// TestPermitTimeoutOfALaterStep gives the second of two plugins the shorter timeout: it
// counts from the start, like the first, until the plugin allows.
func TestPermitTimeoutOfALaterStep(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		b := newBench(t, 10)
		b.start(stepped("p", "Permit/one 8s", "Permit/two 5s"))
		b.nothing()
		want, text := 5*time.Second, "0/1 nodes are available: 1 rejected due to timeout after waiting 5s at plugin two."
		if allowed {
			b.Allow(b.now, uid, "two")
			want, text = 8*time.Second, "0/1 nodes are available: 1 rejected due to timeout after waiting 8s at plugin one."
		}
		b.later(want)
		b.take(commit.Patch, "p")
		b.wantFailed(b.settled(), text)
	}
}

// TestUndoOutlastsARestart has the API server down when a step is to be undone, and then
// refuse for a moment: the undo is sent until it is accepted.
func TestUndoOutlastsARestart(t *testing.T) {
	b := newBench(t, 10)
	b.start(stepped("p", "PreBind/a w u", "PreBind/b w"))
	b.done(b.takeWrite(commit.WriteStep, "a"), nil)
	b.done(b.takeWrite(commit.WriteStep, "b"), errNo)
	group := v1.Resource("claims")
	for i, err := range []error{errBroken, errBroken, errBroken, errBroken, errBroken, apierrors.NewServiceUnavailable("starting"), apierrors.NewForbidden(group, "a", errNo), nil} {
		request, ok := b.Next(b.now, false)
		for ok && request.Kind != commit.UndoStep { // the status is written in parallel
			b.done(request, nil)
			request, ok = b.Next(b.now, false)
		}
		if !ok || request.Write.Name != "undo a" {
			t.Fatalf("try %d: the next request is %s (%t), want the undo", i, request.Kind, ok)
		}
		b.done(request, err)
		if at, due := b.Due(); due {
			b.now = at
		}
	}
	b.wantFailed(b.settled(), `running PreBind plugin "b": `+errNo.Error())
}
