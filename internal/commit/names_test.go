package commit

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/report"
)

// TestNames lists the words for kinds in metrics, traces and messages.
func TestNames(t *testing.T) {
	var names []string
	for k := Bind; k <= Repeat; k++ {
		names = append(names, k.String())
	}
	for k := range WriteKinds {
		names = append(names, k.String())
	}
	for p := range phases {
		names = append(names, p.String())
	}
	for p := range places {
		names = append(names, p.String())
	}
	for p := range evictionPhases {
		names = append(names, p.String())
	}
	want := "[bind ask write undo call undo call mark delete patch record repeat binding status event step eviction call" +
		" starts reserves permits pre-binds binds post-binds undoes over nowhere held ready sending waiting calling pausing kept" +
		" begins cancels asks marks deletes evicted]"
	if got := fmt.Sprint(names); got != want {
		t.Errorf("the names are %s\nwant %s", got, want)
	}
	jobs := []job{{binding: bindingOf("p")}, {eviction: &eviction{victim: podOf("v")}}}
	if got := jobs[0].String() + ", " + jobs[1].String(); got != "binding of ns/p, eviction of ns/v" {
		t.Errorf("jobs are called %s", got)
	}
}

func podOf(name string) *model.Pod {
	pod := &v1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "ns", name, types.UID(name)
	return model.NewPod(pod)
}

func bindingOf(name string) *binding {
	b := &binding{}
	b.placement.Pod = podOf(name)
	return b
}

// TestMovesThatAreBugs makes moves that the tables lack.
func TestMovesThatAreBugs(t *testing.T) {
	for _, row := range []struct {
		move func()
		want string
	}{
		{func() { bindingOf("p").move(postBinds) }, "commit: binding of pod ns/p cannot go from starts to post-binds"},
		{func() { (&eviction{victim: podOf("v"), phase: cancels}).move(marks) }, "commit: eviction of pod ns/v cannot go from cancels to marks"},
		{func() {
			e := &event{Series: report.Series{Event: report.Event{Reason: "Scheduled"}, Subject: report.SubjectOf(podOf("p"))}}
			e.move(kept)
		}, "commit: event Scheduled of ns/p cannot go from nowhere to kept"},
	} {
		func() {
			defer func() {
				if got := recover(); got != row.want {
					t.Errorf("%v, want %s", got, row.want)
				}
			}()
			row.move()
		}()
	}
}

// TestAnythingEnds has one result of each kind, and none.
func TestAnythingEnds(t *testing.T) {
	if !(&Ended{}).nothing() {
		t.Error("nothing has ended, and that is something")
	}
	fields := reflect.TypeFor[Ended]()
	for i := range fields.NumField() {
		var ended Ended
		switch field := reflect.ValueOf(&ended).Elem().Field(i); field.Kind() {
		case reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		default:
			ended.Dropped[EventWrite] = 1
		}
		if ended.nothing() {
			t.Errorf("%s has one, and that is nothing", fields.Field(i).Name)
		}
	}
}

// TestWhatWasTakenIsNotKept takes items out of each queue: its memory must not hold them
// any longer, because they hold pods.
func TestWhatWasTakenIsNotKept(t *testing.T) {
	var l lane[*int]
	var backlog backlog
	var later timeline
	for range 10 {
		l.push(new(int))
		backlog.push(bindingOf("p"))
		later.plan(entry{binding: bindingOf("p")})
	}
	for range 9 {
		l.pop()
	}
	for range 6 {
		backlog.pop()
	}
	for range 3 {
		later.next(time.Time{})
	}
	later.drop(later.entries[2].binding)
	backlog.drop(1)
	check := func(what string, held, want int) {
		if held != want {
			t.Errorf("%s holds %d, want %d", what, held, want)
		}
	}
	holds := func() (n int) {
		for _, item := range l.items[:cap(l.items)] {
			if item != nil {
				n++
			}
		}
		return n
	}
	check("the lane", holds(), 1)
	for len(l.items) < cap(l.items) { // the next has no place behind the others
		l.push(new(int))
	}
	before, room := l.len(), cap(l.items)
	l.push(new(int))
	check("the lane, after its items were moved to the front,", holds(), before+1)
	check("the space of the lane", cap(l.items), room)
	n := 0
	for _, j := range backlog.jobs[:cap(backlog.jobs)] {
		if j.binding != nil {
			n++
		}
	}
	check("the backlog", n, 3)
	n = 0
	for _, e := range later.entries[:cap(later.entries)] {
		if e.binding != nil {
			n++
		}
	}
	check("the timeline", n, 6)
}

// TestLaneGoesRound pushes and pops at many lengths: the order stays, and space is used
// again.
func TestLaneGoesRound(t *testing.T) {
	var l lane[int]
	pushed, popped := 0, 0
	for _, n := range []int{1, 5, 0, 3, 17, 2, 40, 0, 1} {
		for range 300 {
			for l.len() <= n {
				l.push(pushed)
				pushed++
			}
			if first := l.first(); first != popped || l.pop() != popped {
				t.Fatalf("the first is %d, want %d", first, popped)
			}
			popped++
		}
		for l.len() > n {
			l.pop()
			popped++
		}
	}
	if cap(l.items) > 128 {
		t.Errorf("the lane has taken space for %d items, of which there were never more than 41", cap(l.items))
	}
}

// TestRemembered counts the entries of an outbox that has something in every place.
func TestRemembered(t *testing.T) {
	a := newAudited(t)
	parts := []int{
		len(a.bindings), len(a.calls), a.permits.Len(), len(a.evictions), a.backlog.len(), len(a.later.entries), a.reports.statuses.len(), a.reports.normal.len(),
		a.reports.warnings.len(), a.reports.repeats.len(), len(a.pods), len(a.series), len(a.written), a.writes.len(), a.opened,
		len(a.ended.Settled), len(a.ended.Evicted), len(a.ended.Preempted), len(a.ended.Stages), len(a.ended.GivenUp), len(a.ended.Calls), len(a.ended.Canceled),
	}
	if got, want := a.Stats().Looked, a.stats.Looked+a.backlog.compared+a.later.compared; got != want || a.backlog.compared == 0 || a.later.compared == 0 {
		t.Errorf("%d were looked at, want %d", got, want)
	}
	sum := 0
	for _, n := range parts {
		sum += n
	}
	if got := a.Remembered(); got != sum || slices.Max(parts) == sum {
		t.Errorf("%d things are remembered, want %v", got, parts)
	}
	for _, part := range []func(){
		func() { a.calls[1_000] = bindingOf("c") }, func() { a.permits.PushBack(nil) }, func() { a.ended.Settled = append(a.ended.Settled, Settled{}) },
		func() { a.ended.Evicted = append(a.ended.Evicted, Evicted{}) }, func() { a.ended.Preempted = append(a.ended.Preempted, Preempted{}) },
		func() { a.ended.Stages = append(a.ended.Stages, StageEnd{}) }, func() { a.ended.GivenUp = append(a.ended.GivenUp, GivenUp{}) },
		func() { a.ended.Calls = append(a.ended.Calls, Request{}) }, func() { a.ended.Canceled = append(a.ended.Canceled, Canceled{}) },
	} {
		before := a.Remembered()
		part()
		if got := a.Remembered(); got != before+1 {
			t.Errorf("%d things are remembered, after one was added to %d", got, before)
		}
	}
}
