package commit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

var (
	errModified = apierrors.NewConflict(v1.Resource("claims"), "a", errors.New("modified"))
	errTest     = apierrors.NewInvalid(v1.SchemeGroupVersion.WithKind("Claim").GroupKind(), "a", field.ErrorList{})
	errUnwell   = apierrors.NewServiceUnavailable("unwell")
	errFailed   = apierrors.NewInternalError(errors.New("etcd"))
	errBusy     = apierrors.NewTooManyRequests("busy", 1)
)

// claimObject is a claim that shows the write of a test, or does not.
func claimObject(shows bool) kinds.Object {
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns", UID: "uid-a", ResourceVersion: "2"}}
	if shows {
		claim.Labels = map[string]string{"written": "yes"}
	}
	return claim
}

// learning is a write of the claim a that is learned.
func learning(name string) *plan.Write {
	return &plan.Write{
		Resource: v1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), Namespace: "ns", Name: name, Type: types.JSONPatchType, Learn: true,
		Stored: func(o metav1.Object) bool { return o.GetLabels()["written"] == "yes" },
	}
}

// learns is a placement with a step that is learned, and can be undone.
func learns() plan.Decision {
	d := stepped("p", "PreBind/a u")
	d.Placement.Steps[0].Write = learning("a")
	return d
}

// exchange is a request, its response, and the time until the next request.
type exchange struct {
	kind commit.RequestKind
	err  error
	// shows is whether the object in the response shows the write.
	shows bool
	then  time.Duration
}

// exchanges answers requests of the pod p. It checks that nothing ends before the last
// exchange.
func (b *bench) exchanges(all []exchange) {
	b.Helper()
	for i, e := range all {
		if s := b.settled(); s != nil {
			b.Fatalf("before exchange %d it is settled: %v", i, s.Err)
		}
		request := b.take(e.kind, "p")
		response := commit.Response{Err: e.err}
		if e.err == nil {
			response.Object = claimObject(e.shows)
		}
		b.Done(b.now, request, response)
		if err := b.Audit(); err != nil {
			b.Fatal(err)
		}
		if e.then > 0 {
			b.nothing()
			b.later(e.then)
		}
	}
}

// repeated are exchanges that differ only in the time until the next, in milliseconds.
func repeated(kind commit.RequestKind, err error, then ...time.Duration) (all []exchange) {
	for _, wait := range then {
		all = append(all, exchange{kind, err, false, wait * time.Millisecond})
	}
	return all
}

// TestLearnedWrite follows learned writes through every way to end. A write that may be
// stored is sent until the API server answers. A write refused because of the state of
// the object has succeeded if the object shows it.
func TestLearnedWrite(t *testing.T) {
	const write, undo, read, ms = commit.WriteStep, commit.UndoStep, commit.Read, time.Millisecond
	failure := func(err error) string { return `running PreBind plugin "a": ` + err.Error() }
	for _, row := range []struct {
		name string
		with []exchange
		// err is the error of the binding; empty if it goes on.
		err  string
		undo bool
	}{
		{"stored", []exchange{{write, nil, true, 0}}, "", false},
		{"stored, and it means something else", []exchange{{write, nil, false, 0}},
			`running PreBind plugin "a": Operation cannot be fulfilled on persistentvolumeclaims "a": the object had changed so that the write meant something else`, true},
		{"the answer is lost, and the write refused as it is stored", []exchange{{write, errBroken, false, 50 * ms}, {write, errTest, false, 0}, {read, nil, true, 0}}, "", false},
		{"the same, with a conflict", []exchange{{write, errFailed, false, 50 * ms}, {write, errModified, false, 0}, {read, nil, true, 0}}, "", false},
		{"refused, and not stored", []exchange{{write, errTest, false, 0}, {read, nil, false, 0}}, failure(errTest), false},
		{"refused for another reason", []exchange{{write, errNo, false, 0}}, failure(errNo), false},
		{"there is no such object", []exchange{{write, errGone, false, 0}}, failure(errGone), false},
		{"refused, and gone by then", []exchange{{write, errModified, false, 0}, {read, errGone, false, 0}}, failure(errModified), false},
		{"refused while it may still arrive", []exchange{
			{write, errBroken, false, 50 * ms}, {write, errModified, false, 0}, {read, nil, false, 4950 * ms}, {read, nil, false, 0},
		}, failure(errModified), true},
		{"refused for another reason while it may still arrive, as it does", []exchange{
			{write, errBroken, false, 50 * ms}, {write, errNo, false, 0}, {read, nil, false, 4950 * ms}, {read, nil, true, 0},
		}, "", false},
		{"an API server that is unwell stores nothing late", []exchange{
			{write, errUnwell, false, 50 * ms}, {write, errModified, false, 0}, {read, nil, false, 0},
		}, failure(errModified), true},
		{"no answer for minutes", append(append(append(repeated(write, errBroken, 50, 100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000, 5000),
			repeated(write, errFailed, 5000, 5000)...), repeated(write, errBusy, 5000, 5000)...), exchange{write, nil, true, 0}), "", false},
		{"nobody listens: nothing is stored", append(repeated(write, refused, 10, 50, 250), exchange{write, refused, false, 0}), failure(refused), false},
		{"nobody listens after a try that may be stored", append([]exchange{{write, errBroken, false, 50 * ms}},
			append(repeated(write, refused, 100, 200, 400, 800, 1600), exchange{write, nil, true, 0})...), "", false},
		{"the question is not answered", append([]exchange{{write, errModified, false, 0}},
			append(repeated(read, errBroken, 50, 100, 200, 400, 800, 1600, 3200, 5000), append(repeated(read, errNo, 5000), exchange{read, nil, true, 0})...)...), "", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newBench(t, 10)
			b.start(learns())
			b.exchanges(row.with)
			if row.undo {
				b.done(b.takeWrite(undo, "undo a"), nil)
			}
			if row.err == "" {
				b.take(commit.Bind, "p")
				return
			}
			b.wantFailed(b.settled(), row.err)
		})
	}
}

// TestRecognisedWrite has a write that can be recognised but need not be learned: it is
// given up like others, and has succeeded if the object shows it.
func TestRecognisedWrite(t *testing.T) {
	for _, shows := range []bool{true, false} {
		b := newBench(t, 10)
		d := learns()
		d.Placement.Steps[0].Write.Learn = false
		b.start(d)
		b.exchanges(append(repeated(commit.WriteStep, errBroken, 10, 50), exchange{commit.WriteStep, errTest, false, 0}))
		request := b.take(commit.Read, "p")
		if shows {
			b.Done(b.now, request, commit.Response{Object: claimObject(true)})
			b.take(commit.Bind, "p")
			continue
		}
		b.Done(b.now, request, commit.Response{Object: claimObject(false)})
		b.later(5*time.Second - 50*time.Millisecond) // the second try may still arrive
		b.Done(b.now, b.take(commit.Read, "p"), commit.Response{Object: claimObject(false)})
		b.done(b.takeWrite(commit.UndoStep, "undo a"), nil)
		b.wantFailed(b.settled(), `running PreBind plugin "a": `+errTest.Error())
	}
	b := newBench(t, 10)
	d := learns()
	d.Placement.Steps[0].Write.Learn = false
	b.start(d)
	b.exchanges(append(repeated(commit.WriteStep, errBroken, 10, 50, 250), exchange{commit.WriteStep, errBroken, false, 0}))
	b.takeWrite(commit.UndoStep, "undo a")
}

// TestLearnedWriteIsKnownBeforeItFails cancels a binding while the result of its write is
// unknown: the binding fails once the result is known, and a stored write is undone.
func TestLearnedWriteIsKnownBeforeItFails(t *testing.T) {
	for _, row := range []struct {
		name    string
		cancels func(b *bench)
	}{
		{"between two tries", func(b *bench) { b.exchanges(repeated(commit.WriteStep, errBroken, 50)); b.cancel() }},
		{"while it pauses", func(b *bench) {
			b.done(b.take(commit.WriteStep, "p"), errBroken)
			b.cancel()
			b.later(50 * time.Millisecond)
		}},
		{"in flight", func(b *bench) {
			request := b.take(commit.WriteStep, "p")
			b.cancel()
			b.done(request, errBroken)
			b.later(50 * time.Millisecond)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newBench(t, 10)
			b.start(learns())
			row.cancels(b)
			b.exchanges([]exchange{{commit.WriteStep, errBroken, false, 100 * time.Millisecond}, {commit.WriteStep, errTest, false, 0}, {commit.Read, nil, true, 0}})
			if s := b.settled(); s != nil {
				t.Fatalf("it has ended before it is undone: %v", s.Err)
			}
			b.done(b.takeWrite(commit.UndoStep, "undo a"), nil)
			b.wantFailed(b.settled(), `running PreBind plugin "a": preempted`)
		})
	}
}

// cancel cancels the binding of the pod p, which must be possible.
func (b *bench) cancel() {
	b.Helper()
	if !b.Cancel(b.now, uid, errors.New("preempted")) {
		b.Fatal("it cannot be cancelled")
	}
}

// TestStopAmidALearnedWrite stops while the result of a write is unknown, and during the
// read for it: the binding is settled.
func TestStopAmidALearnedWrite(t *testing.T) {
	for _, asks := range []bool{false, true} {
		b := newBench(t, 10)
		b.start(learns())
		b.done(b.take(commit.WriteStep, "p"), errBroken)
		if asks {
			b.later(50 * time.Millisecond)
			b.done(b.take(commit.WriteStep, "p"), errTest)
		}
		b.Stop(b.now, errors.New("the end"))
		b.wantFailed(b.settled(), `running PreBind plugin "a": the end`)
		b.nothing()
		if n := b.Remembered(); n != 0 {
			t.Errorf("%d things are remembered", n)
		}
	}
}

// TestUndoIsRecognised has the write that undoes a step refused because an earlier try of
// it was stored, and because the object belongs to another by now.
func TestUndoIsRecognised(t *testing.T) {
	for _, shows := range []bool{true, false} {
		b := newBench(t, 10)
		d := stepped("p", "PreBind/a w", "PreBind/b w")
		d.Placement.Steps[0].Undo = learning("undo a")
		b.start(d)
		b.done(b.takeWrite(commit.WriteStep, "a"), nil)
		b.done(b.takeWrite(commit.WriteStep, "b"), errNo)
		b.exchanges([]exchange{{commit.UndoStep, errBroken, false, 50 * time.Millisecond}, {commit.UndoStep, errTest, false, 0}, {commit.Read, nil, shows, 0}})
		b.nothing()
		b.later(4950 * time.Millisecond)
		if shows {
			b.exchanges([]exchange{{commit.UndoStep, nil, true, 0}})
		} else {
			b.exchanges([]exchange{{commit.Read, nil, false, 0}})
		}
		ended := b.Take()
		if len(ended.Settled) != 1 || len(ended.GivenUp) > 0 == shows {
			t.Errorf("the object shows it: %t; it ended as %+v", shows, ended)
		}
	}
}

// TestUndoIsRepeated undoes a learned write while a try of it, or of its undo, may still
// be stored. Once no such try can remain, it is undone again.
func TestUndoIsRepeated(t *testing.T) {
	for _, row := range []struct {
		name  string
		write []exchange
		undo  []exchange
		wait  time.Duration
	}{
		{"neither is late", []exchange{{commit.WriteStep, nil, true, 0}}, []exchange{{commit.UndoStep, nil, true, 0}}, 0},
		{"the server was unwell", []exchange{{commit.WriteStep, errUnwell, false, 50 * time.Millisecond}, {commit.WriteStep, nil, true, 0}}, []exchange{{commit.UndoStep, nil, true, 0}}, 0},
		{"the write may be late", []exchange{{commit.WriteStep, errBroken, false, 50 * time.Millisecond}, {commit.WriteStep, nil, true, 0}}, []exchange{{commit.UndoStep, nil, true, 0}}, 4950},
		{"its end may be late", []exchange{{commit.WriteStep, nil, true, 0}},
			[]exchange{{commit.UndoStep, errBroken, false, 50 * time.Millisecond}, {commit.UndoStep, nil, true, 0}}, 4950},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newBench(t, 10)
			d := stepped("p", "PreBind/a w", "PreBind/b w")
			d.Placement.Steps[0].Write, d.Placement.Steps[0].Undo = learning("a"), learning("a")
			b.start(d)
			b.exchanges(row.write)
			b.done(b.takeWrite(commit.WriteStep, "b"), errNo)
			b.exchanges(row.undo)
			if row.wait > 0 {
				b.nothing()
				b.later(row.wait * time.Millisecond)
				b.exchanges([]exchange{{commit.UndoStep, nil, true, 0}})
			}
			if ended := b.Take(); len(ended.Settled) != 1 || len(ended.GivenUp) > 0 {
				t.Errorf("it ended as %+v", ended)
			}
		})
	}
}

// TestStepAfterTheBindingIsLearned has a step after the binding whose response is lost.
func TestStepAfterTheBindingIsLearned(t *testing.T) {
	b := newBench(t, 10)
	d := stepped("p", "PostBind/a")
	d.Placement.Steps[0].Write = learning("a")
	b.start(d)
	b.answer(b.take(commit.Bind, "p"), "", nil)
	b.answer(b.takeWrite(commit.WriteStep, "a"), "", errBroken)
	b.answer(b.take(commit.Record, "p"), "", nil)
	for _, wait := range []time.Duration{50, 100, 200, 400, 800} {
		b.later(wait * time.Millisecond)
		b.answer(b.takeWrite(commit.WriteStep, "a"), "", errBroken)
	}
	b.later(1600 * time.Millisecond)
	b.done(b.takeWrite(commit.WriteStep, "a"), errTest)
	b.Done(b.now, b.take(commit.Read, "p"), commit.Response{Object: claimObject(true)})
	if ended := b.Take(); len(ended.GivenUp) > 0 || b.Remembered() != 0 {
		t.Errorf("given up: %v; %d things are remembered", ended.GivenUp, b.Remembered())
	}
}

// refused is the error of a request without a listener.
var refused error = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// writing is a writer with the responses of a test for patches and reads, and a loop that
// records the order of results.
type writing struct {
	commit.Writer
	patch func() (kinds.Object, error)
	shows bool // the object shows the write
	heard chan string
}

func (w *writing) Write(context.Context, *plan.Write) (kinds.Object, error) { return w.patch() }
func (w *writing) Get(context.Context, *plan.Write) (kinds.Object, error) {
	return claimObject(w.shows), nil
}

func (w *writing) Learned(object kinds.Object) { w.heard <- "learned " + object.GetName() }
func (w *writing) Bound(result model.BindingResult) {
	w.heard <- fmt.Sprint("bound ", result.Pod.Name, " ", result.Err)
}
func (w *writing) Preempted(model.PreemptionResult) {}

func (w *writing) Written(model.WriteResult) {}

// TestLearnedBeforeTheResult checks that the loop gets the object of a step before the
// result of the binding. This also holds if the object was read after a refusal, and if
// the binding fails.
func TestLearnedBeforeTheResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, row := range []struct {
			err   error
			shows bool
			want  string
		}{{nil, true, "bound p <nil>"}, {errTest, true, "bound p <nil>"}, {errTest, false, `bound p running PreBind plugin "a": ` + errTest.Error()}} {
			w := &writing{heard: make(chan string, 10), shows: row.shows, patch: func() (kinds.Object, error) {
				if row.err != nil {
					return nil, row.err
				}
				return claimObject(true), nil
			}}
			f := newFixture(t, func(c *commit.Config) {
				w.Writer = c.Writer
				c.Writer, c.Results = w, w
			})
			stop := f.run(t)
			f.Start(learns())
			if first, then := <-w.heard, <-w.heard; first != "learned a" || then != row.want {
				t.Errorf("the loop hears of %q, and then of %q, want %q", first, then, row.want)
			}
			stop(errors.New("the test is over"))
		}
	})
}
