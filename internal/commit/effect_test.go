package commit_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// writes is a rejection of the pod p, of a priority, with writes of these names.
func writes(priority int32, names ...string) plan.Decision {
	pod := podNamed("p")
	pod.Priority = priority
	d := rejected(pod, 1)
	for _, name := range names {
		write := learning(name)
		write.Data = []byte(name)
		d.Writes = append(d.Writes, *write)
	}
	return d
}

// TestWritesOfDecisions sends the writes of decisions by priority among bindings, and
// before conditions.
func TestWritesOfDecisions(t *testing.T) {
	b := newBench(t, 10)
	b.start(withPriority("middle", 5))
	b.start(writes(1, "low"))
	b.start(writes(9, "high", "next"))
	b.done(b.takeWrite(commit.WriteStep, "high"), nil)
	b.done(b.takeWrite(commit.WriteStep, "next"), nil)
	b.answer(b.take(commit.Bind, "middle"), "", nil)
	b.done(b.takeWrite(commit.WriteStep, "low"), nil)
	if ended := b.Take(); len(ended.GivenUp) > 0 || len(ended.Preempted) > 0 {
		t.Errorf("ended: %+v", ended)
	}
	b.take(commit.Patch, "p")
}

// TestEndOfWritesOfDecisions ends writes in every way: the loop gets no result, and a
// failed write is reported once.
func TestEndOfWritesOfDecisions(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		name string
		with []exchange
		want string
	}{
		{"stored", []exchange{{commit.WriteStep, nil, true, 0}}, ""},
		{"refused", []exchange{{commit.WriteStep, errNo, false, 0}}, "write persistentvolumeclaims a for ns/p: " + errNo.Error()},
		{"stored before", []exchange{{commit.WriteStep, errBroken, false, 50 * ms}, {commit.WriteStep, errTest, false, 0}, {commit.Read, nil, true, 0}}, ""},
		{"another's by now", []exchange{{commit.WriteStep, errModified, false, 0}, {commit.Read, nil, false, 0}}, "write persistentvolumeclaims a for ns/p: " + errModified.Error()},
		{"nobody listens", append(repeated(commit.WriteStep, refused, 10, 50, 250), exchange{commit.WriteStep, refused, false, 0}), "write persistentvolumeclaims a for ns/p: " + refused.Error()},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newBench(t, 10)
			d := writes(1, "a")
			d.Outcome = plan.Undecided // so that nothing else is to be written
			b.start(d)
			b.exchanges(row.with)
			var given []string
			for _, g := range b.Take().GivenUp {
				given = append(given, g.Err.Error())
			}
			if got := strings.Join(given, "; "); got != row.want {
				t.Errorf("given up: %q, want %q", got, row.want)
			}
			b.nothing()
			if n := b.Remembered(); n != 0 {
				t.Errorf("%d things are remembered", n)
			}
		})
	}
}

// TestWriteIfAbsent reads the object that must not exist before the write and before each
// repetition. If the object exists, or may exist, nothing is written.
func TestWriteIfAbsent(t *testing.T) {
	const ms = time.Millisecond
	missing := apierrors.NewNotFound(v1.Resource("nodes"), "n1")
	page := apierrors.NewGenericServerResponse(404, "GET", v1.Resource("nodes"), "n1", "<html>", 0, true)
	asks, sends := commit.Read, commit.WriteStep
	for _, row := range []struct {
		name string
		with []exchange
		want string
	}{
		{"absent", []exchange{{asks, missing, false, 0}, {sends, nil, true, 0}}, ""},
		{"exists", []exchange{{asks, nil, false, 0}}, ""},
		{"reading is forbidden", []exchange{{asks, errNo, false, 0}}, "write persistentvolumeclaims a for ns/p: " + errNo.Error()},
		{"nobody answers", append(repeated(asks, refused, 10, 50, 250), exchange{asks, refused, false, 0}), "write persistentvolumeclaims a for ns/p: " + refused.Error()},
		{"the page of a proxy", []exchange{{asks, page, false, 0}}, "write persistentvolumeclaims a for ns/p: " + page.Error()},
		{"it comes back", []exchange{{asks, missing, false, 0}, {sends, refused, false, 10 * ms}, {asks, nil, false, 0}}, ""},
		{"the claim has changed", []exchange{{asks, missing, false, 0}, {sends, errModified, false, 0}}, "write persistentvolumeclaims a for ns/p: " + errModified.Error()},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newBench(t, 10)
			d := writes(1, "a")
			d.Outcome = plan.Undecided // so that nothing else is to be written
			d.Writes[0].Learn, d.Writes[0].Stored = false, nil
			d.Writes[0].IfAbsent = &plan.Write{Resource: v1.SchemeGroupVersion.WithResource("nodes"), Name: "n1"}
			b.start(d)
			b.exchanges(row.with)
			var given []string
			for _, g := range b.Take().GivenUp {
				given = append(given, g.Err.Error())
			}
			if got := strings.Join(given, "; "); got != row.want {
				t.Errorf("given up: %q, want %q", got, row.want)
			}
			if b.nothing(); b.Remembered() != 0 {
				t.Errorf("%d things are remembered", b.Remembered())
			}
		})
	}
}

// TestSameWriteOfDecisions repeats a decision while its write is unanswered: the write is
// sent once. After its end, it is sent again.
func TestSameWriteOfDecisions(t *testing.T) {
	b := newBench(t, 10)
	d := writes(1, "a")
	d.Outcome = plan.Undecided
	b.start(d)
	b.start(d)
	request := b.takeWrite(commit.WriteStep, "a")
	b.start(d)
	b.nothing()
	b.done(request, errBroken)
	b.start(d)
	b.nothing()
	b.later(50 * time.Millisecond)
	b.done(b.takeWrite(commit.WriteStep, "a"), nil)
	b.nothing()
	b.start(d)
	b.done(b.takeWrite(commit.WriteStep, "a"), nil)
}

// TestStopAmidWritesOfDecisions stops while writes are queued, paused and in flight: no
// more are sent, and none is reported as given up.
func TestStopAmidWritesOfDecisions(t *testing.T) {
	b := newBench(t, 10)
	d := writes(1, "pauses", "flies", "waits")
	d.Outcome = plan.Undecided
	b.start(d)
	b.done(b.takeWrite(commit.WriteStep, "pauses"), errBroken)
	request := b.takeWrite(commit.WriteStep, "flies")
	b.Stop(b.now, errors.New("the end"))
	b.start(d)
	b.done(request, errBroken)
	b.now = b.now.Add(time.Hour)
	b.nothing()
	if ended := b.Take(); len(ended.GivenUp) > 0 || b.Remembered() != 0 || !b.Empty() {
		t.Errorf("ended: %+v; %d things are remembered", ended, b.Remembered())
	}
}

// TestLatestWriteOfAnObject makes decisions with different writes of an object while a
// write of it is unanswered. The last write sent is the latest decision's, and two are
// never in flight together.
func TestLatestWriteOfAnObject(t *testing.T) {
	condition := func(texts ...string) (decisions []plan.Decision) {
		for _, text := range texts {
			d := writes(1, "group")
			d.Outcome, d.Writes[0].Data, d.Writes[0].Latest = plan.Undecided, []byte(text), true
			decisions = append(decisions, d)
		}
		return decisions
	}
	for _, row := range []struct {
		name      string
		meanwhile []string
		err       error
		want      []string // the writes sent, one after another
	}{
		{"nothing else", nil, nil, []string{"one"}},
		{"another", []string{"two"}, nil, []string{"one", "two"}},
		{"more", []string{"two", "three"}, nil, []string{"one", "three"}},
		{"the same again", []string{"two", "one"}, nil, []string{"one"}},
		{"the first is refused", []string{"two"}, errNo, []string{"one", "two"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newBench(t, 10)
			b.start(condition("one")[0])
			for i, want := range row.want {
				request := b.takeWrite(commit.WriteStep, "group")
				if got := string(request.Write.Data); got != want {
					t.Fatalf("sent: %s, want %s", got, want)
				}
				if i == 0 {
					for _, d := range condition(row.meanwhile...) {
						b.start(d)
						b.nothing()
					}
				}
				b.done(request, row.err)
			}
			b.nothing()
			b.Take()
			if n := b.Remembered(); n != 0 {
				t.Errorf("%d things are remembered", n)
			}
		})
	}
}

// TestStopAmidLatestWrites stops while a write waits for another write of the same
// object: it is not sent.
func TestStopAmidLatestWrites(t *testing.T) {
	b := newBench(t, 10)
	for _, text := range []string{"one", "two"} {
		d := writes(1, "group")
		d.Outcome, d.Writes[0].Data, d.Writes[0].Latest = plan.Undecided, []byte(text), true
		b.start(d)
	}
	request := b.takeWrite(commit.WriteStep, "group")
	b.Stop(b.now, errors.New("the end"))
	b.done(request, nil)
	b.nothing()
	if b.Remembered() != 0 || !b.Empty() {
		t.Errorf("%d things are remembered", b.Remembered())
	}
}

// TestGivingBackIsAnswered ends releasing writes in every way: each has a result once,
// with the number of decisions that made it.
func TestGivingBackIsAnswered(t *testing.T) {
	object := model.NewResourceClaim(&resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}})
	decision := func(deletes bool) plan.Decision {
		d := writes(1, "a")
		d.Outcome, d.Writes[0].GivesBack, d.Writes[0].Delete = plan.Undecided, object, deletes
		return d
	}
	for _, row := range []struct {
		name    string
		deletes bool
		end     func(b *bench)
		want    model.WriteResult
	}{
		{"stored", false, func(b *bench) { b.done(b.takeWrite(commit.WriteStep, "a"), nil) }, model.WriteResult{Object: object, Decisions: 1}},
		{"deleted", true, func(b *bench) { b.done(b.takeWrite(commit.WriteStep, "a"), nil) }, model.WriteResult{Object: object, Decisions: 1, Deleted: true}},
		{"refused", false, func(b *bench) { b.done(b.takeWrite(commit.WriteStep, "a"), errNo) }, model.WriteResult{Object: object, Decisions: 1}},
		{"not deleted", true, func(b *bench) { b.done(b.takeWrite(commit.WriteStep, "a"), errNo) }, model.WriteResult{Object: object, Decisions: 1}},
		{"made twice", false, func(b *bench) {
			b.start(decision(false))
			b.done(b.takeWrite(commit.WriteStep, "a"), nil)
		}, model.WriteResult{Object: object, Decisions: 2}},
		{"stopped before it is sent", false, func(b *bench) { b.Stop(b.now, errors.New("the end")) }, model.WriteResult{Object: object, Decisions: 1}},
		{"stopped while it is sent", true, func(b *bench) {
			request := b.takeWrite(commit.WriteStep, "a")
			b.Stop(b.now, errors.New("the end"))
			b.done(request, errBroken)
		}, model.WriteResult{Object: object, Decisions: 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newBench(t, 10)
			b.start(decision(row.deletes))
			if ended := b.Take(); len(ended.Written) > 0 {
				t.Fatalf("answered before it has ended: %+v", ended.Written)
			}
			row.end(b)
			if got := b.Take().Written; len(got) != 1 || got[0] != row.want {
				t.Errorf("answered: %+v, want %+v", got, row.want)
			}
			b.nothing()
		})
	}
	t.Run("after the stop", func(t *testing.T) {
		b := newBench(t, 10)
		b.Stop(b.now, errors.New("the end"))
		b.start(decision(false))
		if got := b.Take().Written; len(got) != 1 {
			t.Errorf("answered: %+v", got)
		}
	})
	t.Run("while it is unknown whether it is stored", func(t *testing.T) {
		b := newBench(t, 10)
		b.start(decision(false))
		b.done(b.takeWrite(commit.WriteStep, "a"), errBroken)
		if got := b.Take().Written; len(got) != 0 {
			t.Errorf("answered: %+v", got)
		}
	})
}

// TestWritesOfOneObject has a decision with two writes of one object: the second is sent
// once the first is stored, and never if the first fails or the process stops.
func TestWritesOfOneObject(t *testing.T) {
	object := model.NewResourceClaim(&resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}})
	decision := func() plan.Decision {
		d := writes(1, "a", "a", "b")
		d.Outcome = plan.Undecided
		for i := range d.Writes[:2] {
			d.Writes[i].GivesBack = object
		}
		d.Writes[1].Data, d.Writes[1].Delete = []byte("second"), true
		return d
	}
	kept, deleted := model.WriteResult{Object: object, Decisions: 1}, model.WriteResult{Object: object, Decisions: 1, Deleted: true}
	for _, row := range []struct {
		name string
		end  func(b *bench, first commit.Request)
		want []model.WriteResult
	}{
		{"both stored", func(b *bench, first commit.Request) {
			b.done(first, nil)
			b.done(b.takeWrite(commit.WriteStep, "a"), nil)
		}, []model.WriteResult{kept, deleted}},
		{"the first refused", func(b *bench, first commit.Request) { b.done(first, errNo) }, []model.WriteResult{kept, kept}},
		{"the second refused", func(b *bench, first commit.Request) {
			b.done(first, nil)
			b.done(b.takeWrite(commit.WriteStep, "a"), errNo)
		}, []model.WriteResult{kept, kept}},
		{"decided twice", func(b *bench, first commit.Request) {
			b.start(decision())
			b.done(first, nil)
			second := b.takeWrite(commit.WriteStep, "a")
			b.done(b.takeWrite(commit.WriteStep, "b"), nil)
			b.done(second, nil)
		}, []model.WriteResult{{Object: object, Decisions: 2}, {Object: object, Decisions: 2, Deleted: true}}},
		{"decided again after the first", func(b *bench, first commit.Request) {
			b.done(first, nil)
			second := b.takeWrite(commit.WriteStep, "a")
			b.start(decision())
			b.done(b.takeWrite(commit.WriteStep, "a"), nil) // the first again
			b.done(b.takeWrite(commit.WriteStep, "b"), nil)
			b.done(second, nil)
		}, []model.WriteResult{kept, kept, {Object: object, Decisions: 2, Deleted: true}}},
		{"stopped", func(b *bench, first commit.Request) {
			b.Stop(b.now, errors.New("the end"))
			b.done(first, nil)
		}, []model.WriteResult{kept, kept}},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newBench(t, 10)
			b.start(decision())
			first := b.takeWrite(commit.WriteStep, "a")
			b.done(b.takeWrite(commit.WriteStep, "b"), nil)
			b.nothing()
			row.end(b, first)
			if got := b.Take().Written; !slices.Equal(got, row.want) {
				t.Errorf("answered: %+v, want %+v", got, row.want)
			}
			b.nothing()
			if b.Remembered() != 0 {
				t.Errorf("%d things are remembered", b.Remembered())
			}
		})
	}
}
