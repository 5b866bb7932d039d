package commit_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// onNode is a pod that the watch has shown on a node.
func onNode(name string) *model.Pod {
	object := podNamed(name).Object.DeepCopy()
	object.Spec.NodeName = "n"
	return model.NewPod(object)
}

// preempting is a decision that evicts the pods for another of that priority.
func preempting(name string, priority int32, victims ...*model.Pod) plan.Decision {
	object := podNamed(name).Object.DeepCopy()
	object.Spec.Priority, object.Spec.SchedulerName = &priority, "important"
	pod := model.NewPod(object)
	d := rejected(pod, 1)
	d.Nominations = []plan.Nomination{{Pod: pod, Mode: plan.Set, NodeName: "n"}}
	for _, victim := range victims {
		d.Evictions = append(d.Evictions, plan.Eviction{Pod: victim, NodeName: "n"})
	}
	return d
}

// evicts answers the two requests that evict a pod.
func (b *bench) evicts(name string) {
	b.Helper()
	b.done(b.take(commit.Mark, name), nil)
	b.done(b.take(commit.Delete, name), nil)
}

// preempted returns the preemptions that have ended: the pod, the number of victims that
// stay, and the error.
func (b *bench) preempted() (all []string) {
	for _, p := range b.Take().Preempted {
		text := fmt.Sprintf("%s %d/%d", p.Preemptor.Name, len(p.Kept), len(p.Victims))
		if p.InMemory {
			text += " in memory"
		}
		if p.Err != nil {
			text += ": " + p.Err.Error()
		}
		all = append(all, text)
	}
	return all
}

func (b *bench) wantPreempted(want ...string) {
	b.Helper()
	if got := b.preempted(); !slices.Equal(got, want) {
		b.Fatalf("preemptions ended as %q, want %q", got, want)
	}
	if err := b.Audit(); err != nil {
		b.Fatal(err)
	}
}

// notes takes all statuses and events, and returns the notes of the events about a
// preemption.
func (b *bench) notes() (notes []string) {
	b.Helper()
	for {
		request, ok := b.Next(b.now, true)
		if !ok {
			return notes
		}
		if request.Kind == commit.Record && request.Series.Reason == "Preempted" {
			notes = append(notes, fmt.Sprintf("%s %s %s %s by %s: %s", request.Series.Type, request.Series.Action, request.Series.Reason,
				request.Series.Subject.Name, request.Series.Subject.SchedulerName, request.Series.Note))
		}
		b.done(request, nil)
	}
}

// TestPreemptionInOrder evicts three pods: two at the same time, the last once these are
// being deleted. A terminating pod is skipped.
func TestPreemptionInOrder(t *testing.T) {
	b := newBench(t, 100)
	object := podNamed("going").Object.DeepCopy()
	object.DeletionTimestamp = &object.CreationTimestamp
	b.start(preempting("p", 10, onNode("v1"), onNode("v2"), model.NewPod(object), onNode("v3")))
	one, two := b.take(commit.Mark, "v1"), b.take(commit.Mark, "v2")
	want := v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler, ObservedGeneration: 3,
		Message: "important: preempting to accommodate a higher priority pod",
	}
	if *one.Condition != want {
		t.Errorf("the condition is %+v, want %+v", *one.Condition, want)
	}
	b.done(two, nil)
	b.done(b.take(commit.Delete, "v2"), nil)
	b.done(one, nil)
	deletion := b.take(commit.Delete, "v1")
	if notes := b.notes(); !slices.Equal(notes, []string{"Normal Preempting Preempted v2 by important: Preempted by pod uid-p on node n"}) {
		t.Errorf("events %q", notes)
	}
	b.nothing()
	b.wantPreempted()
	b.done(deletion, nil)
	b.evicts("v3")
	b.wantPreempted("p 0/3")
	b.notes()
	b.now = b.now.Add(time.Hour)
	b.nothing()
	if n := b.Remembered(); n != 0 {
		t.Errorf("%d things are remembered", n)
	}
}

// TestEvictionAnswers has the requests of an eviction answered in each way.
func TestEvictionAnswers(t *testing.T) {
	conflict := apierrors.NewConflict(v1.Resource("pods"), "v", errors.New("changed"))
	unwell := apierrors.NewServiceUnavailable("starting")
	busy := apierrors.NewTooManyRequests("later", 1)
	type answer struct {
		kind commit.RequestKind
		err  error
	}
	const mark, del, ask = commit.Mark, commit.Delete, commit.Ask
	for _, test := range []struct {
		name    string
		answers []answer
		want    string
		event   bool
	}{
		{"both are stored", []answer{{mark, nil}, {del, nil}}, "p 0/2", true},
		{"gone before its condition", []answer{{mark, errGone}}, "p 0/2", false},
		{"gone before its deletion", []answer{{mark, nil}, {del, errGone}}, "p 0/2", false},
		{"another pod of the name at the deletion", []answer{{mark, nil}, {del, conflict}, {ask, errGone}}, "p 0/2", false},
		{"a webhook denies the deletion with a conflict", []answer{
			{mark, nil}, {del, conflict}, {ask, nil}, {mark, nil}, {del, conflict}, {ask, nil}, {mark, nil}, {del, conflict}, {ask, nil}, {mark, nil}, {del, conflict},
			{ask, nil}, {mark, nil}, {del, conflict},
		}, "p 2/2: evict ns/v: " + conflict.Error(), false},
		{"a deletion that was not answered happened, and the name was used again", []answer{{mark, nil}, {del, errBroken}, {del, conflict}, {ask, errGone}}, "p 0/2", true},
		{"another pod of the name at the condition", []answer{{mark, conflict}, {ask, errGone}}, "p 0/2", false},
		{"changed meanwhile", []answer{{mark, conflict}, {ask, nil}, {mark, nil}, {del, nil}}, "p 0/2", true},
		{"changed again and again", []answer{{mark, conflict}, {ask, nil}, {mark, conflict}, {ask, nil}, {mark, conflict}, {ask, nil}, {mark, conflict}, {ask, nil}, {mark, conflict}},
			"p 2/2: evict ns/v: " + conflict.Error(), false},
		{"unwell twice", []answer{{mark, unwell}, {mark, unwell}, {mark, nil}, {del, unwell}, {del, unwell}, {del, nil}}, "p 0/2", true},
		{"unwell for long", []answer{{mark, unwell}, {mark, unwell}, {mark, unwell}, {mark, unwell}}, "p 2/2: evict ns/v: " + unwell.Error(), false},
		{"throttled", []answer{{mark, busy}, {mark, nil}, {del, busy}, {del, nil}}, "p 0/2", true},
		{"condition forbidden", []answer{{mark, errNo}}, "p 2/2: evict ns/v: " + errNo.Error(), false},
		{"deletion forbidden", []answer{{mark, nil}, {del, errNo}}, "p 2/2: evict ns/v: " + errNo.Error(), false},
		{"a deletion that was not answered happened", []answer{{mark, nil}, {del, errBroken}, {del, errGone}}, "p 0/2", true},
		{"a deletion that was not answered is sent again", []answer{{mark, nil}, {del, errBroken}, {del, nil}}, "p 0/2", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, 100)
			b.start(preempting("p", 10, onNode("v"), onNode("last")))
			for _, a := range test.answers {
				if b.Waiting() == 0 { // it waits for its next try
					at, ok := b.Due()
					if !ok {
						t.Fatalf("nothing is to be done before %s", a.kind)
					}
					b.now = at
				}
				request := b.take(a.kind, "v")
				b.Done(b.now, request, commit.Response{NodeName: "n", Err: a.err})
			}
			if strings.HasPrefix(test.want, "p 0") {
				b.evicts("last")
			}
			b.wantPreempted(test.want)
			if event := slices.ContainsFunc(b.notes(), func(note string) bool { return strings.Contains(note, "Preempted v ") }); event != test.event {
				t.Errorf("an event is written: %t, want %t", event, test.event)
			}
		})
	}
}

// TestPreemptionInMemory evicts pods with unsent bindings, at each stage: the bindings
// are cancelled, and nothing is deleted.
func TestPreemptionInMemory(t *testing.T) {
	for _, test := range []struct {
		name   string
		steps  []string
		before func(b *bench)
		undo   bool
		text   string
	}{
		{"at Permit", []string{"Permit/gang 5s"}, nil, false, "waiting on permit for pod: preempted"},
		{"at PreBind", []string{"PreBind/a 5s"}, nil, false, `running PreBind plugin "a": preempted by DefaultPreemption`},
		{"at PreBind, written", []string{"PreBind/a w u", "PreBind/b 5s"}, func(b *bench) { b.done(b.take(commit.WriteStep, "p"), nil) }, true,
			`running PreBind plugin "b": preempted by DefaultPreemption`},
		{"in the backlog", nil, nil, false, "preempted by DefaultPreemption"},
		{"between two tries that were not stored", nil, func(b *bench) {
			b.done(b.take(commit.Bind, "p"), apierrors.NewTooManyRequests("later", 1))
		}, false, "preempted by DefaultPreemption"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, 100)
			b.start(stepped("p", test.steps...))
			if test.before != nil {
				test.before(b)
			}
			b.Take()
			b.start(preempting("q", 10, podNamed("p")))
			if test.undo {
				b.wantPreempted() // it keeps its resources until its steps are undone
				b.done(b.take(commit.UndoStep, "p"), nil)
			}
			ended := b.Take()
			if len(ended.Settled) != 1 || ended.Settled[0].Err == nil || ended.Settled[0].Err.Error() != test.text {
				t.Errorf("the binding ended as %+v, want %q", ended.Settled, test.text)
			}
			if p := ended.Preempted; len(p) != 1 || !p[0].InMemory || p[0].Err != nil || len(p[0].Kept) != 0 {
				t.Errorf("the preemption ended as %+v", p)
			}
			if notes := b.notes(); !slices.Equal(notes, []string{"Normal Preempting Preempted p by important: Preempted by pod uid-q on node n (in kube-scheduler memory)."}) {
				t.Errorf("events %q", notes)
			}
			b.nothing()
		})
	}
}

// TestPreemptionOfBindings evicts pods whose bindings the API server has, may have, or
// has refused.
func TestPreemptionOfBindings(t *testing.T) {
	t.Run("in flight", func(t *testing.T) {
		b := newBench(t, 100)
		b.start(placed(podNamed("v")))
		bind := b.take(commit.Bind, "v")
		b.start(preempting("p", 10, podNamed("v")))
		b.evicts("v")
		b.wantPreempted("p 0/1")
		b.done(bind, nil)
	})
	t.Run("of which it is open whether it was stored", func(t *testing.T) {
		b := newBench(t, 100)
		b.start(placed(podNamed("v")))
		b.done(b.take(commit.Bind, "v"), errBroken)
		b.start(preempting("p", 10, podNamed("v")))
		b.evicts("v")
		b.wantPreempted("p 0/1")
	})
	for _, test := range []struct {
		name, nodeName string
		want           string
	}{
		{"stored, and not shown yet", "n", "p 0/1"},
		{"refused, and the decision did not know", "", "p 0/1 in memory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, 100)
			b.start(preempting("p", 10, podNamed("v")))
			b.Done(b.now, b.take(commit.Ask, "v"), commit.Response{NodeName: test.nodeName})
			if test.nodeName != "" {
				b.evicts("v")
			}
			b.wantPreempted(test.want)
		})
	}
	t.Run("which is being undone", func(t *testing.T) {
		b := newBench(t, 100)
		b.start(stepped("v", "PreBind/a w u"))
		b.done(b.take(commit.WriteStep, "v"), nil)
		b.done(b.take(commit.Bind, "v"), errNo)
		b.Take()
		b.start(preempting("p", 10, podNamed("v")))
		b.wantPreempted()
		b.done(b.take(commit.UndoStep, "v"), nil)
		b.wantPreempted("p 0/1 in memory")
		if notes := b.notes(); len(notes) > 0 { // it was not evicted, it has failed
			t.Errorf("events %q", notes)
		}
	})
}

// TestSharedVictim has two preemptions evict one pod: it is evicted once, at the higher
// priority, and both get the result.
func TestSharedVictim(t *testing.T) {
	b := newBench(t, 100)
	victim := onNode("v")
	b.start(preempting("p", 10, victim))
	b.start(placed(func() *model.Pod {
		object := podNamed("between").Object.DeepCopy()
		priority := int32(15)
		object.Spec.Priority = &priority
		return model.NewPod(object)
	}()))
	b.start(preempting("q", 20, victim, onNode("w")))
	b.evicts("v")
	b.wantPreempted("p 0/1")
	b.evicts("w")
	b.wantPreempted("q 0/2")
	b.take(commit.Bind, "between")
	if notes := b.notes(); len(notes) != 2 || !strings.Contains(notes[0], "uid-p") || !strings.Contains(notes[1], "uid-q") {
		t.Errorf("events %q", notes)
	}
}

// TestEvictionsByPriority sends evictions among bindings by the priority of the
// preemptor, before statuses.
func TestEvictionsByPriority(t *testing.T) {
	b := newBench(t, 100)
	b.start(nominated(podNamed("s"), "n"))
	b.start(placed(podNamed("zero")))
	b.start(preempting("low", -5, onNode("v")))
	b.start(preempting("high", 5, onNode("w")))
	b.evicts("w")
	b.take(commit.Bind, "zero")
	b.take(commit.Mark, "v")
	b.take(commit.Patch, "s")
}

// TestMarkedPodIsOnlyDeleted evicts a pod that has the condition already, as after the
// process was killed between the two requests.
func TestMarkedPodIsOnlyDeleted(t *testing.T) {
	b := newBench(t, 100)
	object := onNode("v").Object.DeepCopy()
	object.Status.Conditions = []v1.PodCondition{{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler, ObservedGeneration: 3,
		Message: "important: preempting to accommodate a higher priority pod",
	}}
	b.start(preempting("p", 10, model.NewPod(object)))
	b.done(b.take(commit.Delete, "v"), nil)
	b.wantPreempted("p 0/1")
}

// TestStopAmidPreemption stops an outbox with evictions in every place: each preemption
// has a result, and no victim is evicted after that.
func TestStopAmidPreemption(t *testing.T) {
	b := newBench(t, 100)
	stop := errors.New("the process stops")
	b.start(stepped("memory", "PreBind/a w u", "PreBind/b 5s"))
	b.done(b.take(commit.WriteStep, "memory"), nil)
	b.start(preempting("cancels", 9, podNamed("memory"), onNode("m-last")))
	undo := b.take(commit.UndoStep, "memory")
	b.start(preempting("marks", 8, onNode("marking"), onNode("k-last")))
	marking := b.take(commit.Mark, "marking")
	b.start(preempting("deletes", 7, onNode("deleting")))
	b.done(b.take(commit.Mark, "deleting"), nil)
	deleting := b.take(commit.Delete, "deleting")
	b.start(preempting("pauses", 6, onNode("pausing")))
	b.done(b.take(commit.Mark, "pausing"), apierrors.NewServiceUnavailable("starting"))
	b.start(preempting("waits", 5, onNode("waiting"), onNode("w-last")))
	if err := b.Audit(); err != nil {
		t.Fatal(err)
	}
	b.Stop(b.now, stop)
	b.wantPreempted("waits 2/2: evict ns/waiting: the process stops", "pauses 1/1: evict ns/pausing: the process stops")
	b.done(undo, nil)
	b.wantPreempted("cancels 1/2: evict ns/m-last: the process stops")
	b.done(marking, nil)
	b.wantPreempted("marks 2/2: evict ns/marking: the process stops")
	b.done(deleting, nil)
	b.wantPreempted("deletes 0/1")
	b.start(preempting("late", 5, onNode("late-victim")))
	b.wantPreempted("late 1/1: evict ns/late-victim: the process stops")
	if request, ok := b.Next(b.now, false); ok && (request.Kind == commit.Mark || request.Kind == commit.Delete) {
		t.Errorf("%s of %s is sent after the stop", request.Kind, request.Key())
	}
}

// TestPreemptionRequests sends an eviction over HTTP: the patch of the condition, and the
// deletion of this very pod.
func TestPreemptionRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.run(t)
		f.Start(preempting("p", 10, onNode("v")))
		requests := f.server.wait(t, "deletion and event", func(rs []request) bool { return len(of("delete", rs)) > 0 && len(of("event", rs)) > 1 })
		deletion := of("delete", requests)[0]
		if !strings.Contains(deletion.body, `"preconditions":{"uid":"uid-v"}`) || strings.Contains(deletion.body, "gracePeriodSeconds") {
			t.Errorf("deletion %s", deletion.body)
		}
		marked := slices.IndexFunc(requests, func(r request) bool { return r.what == "status" && r.pod == "v" })
		if marked < 0 || !strings.Contains(requests[marked].body, `"type":"DisruptionTarget"`) || !strings.Contains(requests[marked].body, string(types.UID("uid-v"))) {
			t.Errorf("requests %v", requests)
		}
		if result := f.outcomes.next(t); result.Pod.Name != "p" || result.Err != nil {
			t.Errorf("the preemption ended as %+v", result)
		}
	})
}
