package commit_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/model/report"
)

// terminating is a decision about a terminating pod: an event is written, and no status.
func terminating(pod *model.Pod) plan.Decision {
	return plan.Decision{Member: plan.Alone(pod), Outcome: plan.Terminating}
}

// inVersion is the pod p in another version.
func inVersion(version string) *model.Pod {
	object := podNamed("p").Object.DeepCopy()
	object.ResourceVersion = version
	return model.NewPod(object)
}

var (
	errThere       = apierrors.NewAlreadyExists(v1.Resource("events"), "p.1")
	errNoEvent     = apierrors.NewNotFound(v1.Resource("events"), "p.1")
	errInternal    = apierrors.NewInternalError(errBroken)
	errTerminating = func() error {
		err := apierrors.NewForbidden(v1.Resource("events"), "p.1", errors.New("the namespace is being terminated"))
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: v1.NamespaceTerminatingCause})
		return err
	}()
)

// TestSeries plays events of the pod p, and expects exactly these writes. A word is an
// event ("7": of version 7 of the pod), a duration ("5m"), or a request with its count
// and its result ("record1", "repeat2:404").
func TestSeries(t *testing.T) {
	for _, test := range []struct{ name, play string }{
		{"the second is written, later ones are not", "7 record1 7 repeat2 7 7 7"},
		{"repeated while it waits", "7 7 7 record3 7"},
		{"repeated while it is written", "7 7 record2"},
		{"six minutes after the last the series ends", "7 record1 7 repeat2 7 7 6m repeat4 7 record1"},
		{"what is written already is not written again", "7 record1 7 repeat2 6m 7 record1"},
		{"one that never repeated ends silently", "7 record1 6m 7 record1"},
		{"every thirty minutes the count is written", "7 record1 7 repeat2 5m 7 5m 7 5m 7 5m 7 5m 7 5m 7 repeat8 5m 7 6m repeat9"},
		{"another version of the pod is another series", "7 record1 8 record1 8 repeat2 8 9 record1 repeat3"},
		{"both versions wait", "7 7 8 record2 record1 8 repeat2"},
		{"the event has expired", "7 record1 7 repeat2:404 record2 7 6m repeat3:404 record3"},
		{"it expires again and again", "7 record1 7" + strings.Repeat(" repeat2:404 record2:409", 8) + " repeat2:404"},
		{"stored without an answer", "7 record1:lost 1s record1:409 7 repeat2"},
		{"stored without an answer, and repeated", "7 record1:lost 7 1s record2:409 repeat2 7"},
		{"the answer to a repetition is lost", "7 record1 7 repeat2:lost 7 1s repeat3"},
		{"a failure that passes", "7 record1:500 10ms record1:500 40ms record1 7 repeat2:500 7 10ms repeat3"},
		{"a server that has just started", "7 record1:403 10ms record1:403 40ms record1"},
		{"the namespace is being deleted", "7 record1:gone 7 record1"},
		{"ended while it waits for the next try", "7 record1:500 8 record1 10ms record1 8 repeat2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			play(t, test.play, func(b *bench, word string) bool {
				starts := strings.Trim(word, "0123456789") == ""
				if starts {
					b.start(terminating(inVersion(word)))
				}
				return starts
			}, func(r commit.Request) string { return fmt.Sprintf("%s%d", r.Kind, r.Series.Count) })
		})
	}
}

// play plays words one after the other: a duration without requests; an event that start
// recognizes; or the next request in the words of the function tell. The response to a
// request follows a colon, and is otherwise a success.
func play(t *testing.T, words string, start func(*bench, string) bool, tell func(commit.Request) string) {
	t.Helper()
	ends := map[string]error{"": nil, "404": errNoEvent, "409": errThere, "500": errInternal, "403": errNo, "gone": errTerminating, "lost": errBroken}
	b := newBench(t, 10)
	for _, word := range strings.Fields(words) {
		if wait, err := time.ParseDuration(word); err == nil {
			b.nothing()
			b.now = b.now.Add(wait)
			continue
		}
		if !start(b, word) {
			what, end, _ := strings.Cut(word, ":")
			request, ok := b.Next(b.now, false)
			if !ok {
				t.Fatalf("there is no request, want %s", what)
			}
			if got := tell(request); got != what {
				t.Fatalf("the request is %s %q, want %s", got, request.Series.Note, what)
			}
			b.Done(b.now, request, commit.Response{Err: ends[end]})
		}
		if err := b.Audit(); err != nil {
			t.Fatal(err)
		}
	}
	b.nothing()
}

// TestEventNamesDiffer has two events of a pod in the same instant: they are two objects.
func TestEventNamesDiffer(t *testing.T) {
	b := newBench(t, 10)
	b.start(terminating(inVersion("7")))
	b.start(terminating(inVersion("8")))
	one, two := b.take(commit.Record, "p"), b.take(commit.Record, "p")
	if one.Series.First.Equal(two.Series.First) || two.Series.First.Sub(one.Series.First) > time.Microsecond {
		t.Errorf("they happened at %s and at %s", one.Series.First, two.Series.First)
	}
}

// TestKeptSeriesAreBounded rejects more pods than series are kept: the series that has
// been idle longest ends, and its last count is written.
func TestKeptSeriesAreBounded(t *testing.T) {
	b := newBench(t, 1_000) // which keeps 100 series
	happen := func(name string) { b.start(terminating(podNamed(name))) }
	for _, name := range names(100) {
		happen(name)
		b.answer(b.take(commit.Record, name), "", nil)
	}
	for range 3 {
		happen("p1")
	}
	b.answer(b.take(commit.Repeat, "p1"), "", nil) // now the last in order
	for range 3 {
		happen("p2")
	}
	b.answer(b.take(commit.Repeat, "p2"), "", nil)
	happen("p2")
	for i, name := range names(300)[100:] {
		happen(name)
		b.answer(b.take(commit.Record, name), "", nil)
		if i == 99 {
			request := b.take(commit.Repeat, "p2")
			if request.Series.Count != 5 {
				t.Errorf("the last count is %d, want 5", request.Series.Count)
			}
			b.answer(request, "", nil)
		}
		b.nothing()
	}
	if n := b.Remembered(); n != 100 {
		t.Errorf("%d things are remembered, want the 100 series", n)
	}
	happen("p0")
	b.answer(b.take(commit.Record, "p0"), "", nil)
}

// TestStopDoesNotWaitForCounts stops while the count of a series is unwritten: it is
// never written.
func TestStopDoesNotWaitForCounts(t *testing.T) {
	b := newBench(t, 10)
	for range 4 {
		b.start(terminating(inVersion("7")))
		if request, ok := b.Next(b.now, false); ok {
			b.answer(request, "", nil)
		}
	}
	b.Stop(b.now, errBroken)
	b.nothing()
	if !b.Empty() {
		t.Error("something waits")
	}
}

// TestAdviceInSeries plays rejections of one version of a pod: "-" without advice, or a
// letter for the advice at the end of the note. Advice that a series lacks starts another
// event, once. Other advice does so half an hour after the series began. Nothing else
// does, and an unsent event is changed in place.
func TestAdviceInSeries(t *testing.T) {
	for _, test := range []struct{ name, play string }{
		{"known from the beginning", "a record1a a repeat2a a a"},
		{"known later", "- record1- - repeat2- - a record1a repeat3- a repeat2a a"},
		{"not known any more", "a record1a - repeat2a - a"},
		{"other advice is not said at once", "a record1a b repeat2a b a b"},
		{"other advice is said after half an hour", "a record1a b repeat2a 5m b 5m b 5m b 5m b 5m b 5m b record1b repeat7a b repeat2b"},
		{"that there is none is said after half an hour", "a record1a - repeat2a 5m - 5m - 5m - 5m - 5m - 5m - record1- repeat7a - repeat2-"},
		{"what waits is changed", "- a record2a a"},
		{"what waits and has advice is not", "a b record2a b"},
		{"what may be stored is not changed", "- record1-:lost a 1s record1- record1a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			play(t, test.play, func(b *bench, word string) bool {
				starts := len(word) == 1
				if starts {
					b.start(advised(strings.Trim(word, "-")))
				}
				return starts
			}, func(r commit.Request) string {
				return fmt.Sprintf("%s%d%s", r.Kind, r.Series.Count, adviceOf(r.Series.Note))
			})
		})
	}
}

// advised is a rejection with advice that the pod's condition shows already.
func advised(advice string) plan.Decision {
	d := plan.Decision{Outcome: plan.Unschedulable, Rejection: &plan.Rejection{Counts: []reason.Count{{Nodes: 1, Reason: "no"}}}, Nodes: 1, Advice: advice}
	object := podNamed("p").Object.DeepCopy()
	object.ResourceVersion = "7"
	object.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: report.Message(&d)}}
	d.Member = plan.Alone(model.NewPod(object))
	return d
}

// adviceOf is the last letter of a note with advice, "-" without.
func adviceOf(note string) string {
	if strings.HasSuffix(note, ".") {
		return "-"
	}
	return note[len(note)-1:]
}
