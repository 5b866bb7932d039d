package loop

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/queue"
)

// auditedLoop has an assumed pod that waits for a volume.
func auditedLoop(t *testing.T) *Loop {
	t.Helper()
	c, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := queue.New(c.Queue(queue.DefaultMaxParked))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1, 0)
	decider, err := engine.New(engine.Config{Profiles: c.Profiles})
	if err != nil {
		t.Fatal(err)
	}
	l := &Loop{state: state.New(), queue: waiting, engine: decider, waits: newWaits()}
	pod := model.NewPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}, Spec: v1.PodSpec{SchedulerName: v1.DefaultSchedulerName}})
	node := model.NewNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	l.queue.Wake(now, l.state.Apply([]model.Change{{Kind: model.NodeSet, Node: node}, {Kind: model.PodSet, Pod: pod}}))
	work, _ := l.queue.Pop(now)
	placement := plan.Placement{Pod: work.First(), NodeName: "a"}
	l.state.Assume(placement)
	work.Conclude(plan.Decision{Outcome: plan.Placed, Placement: placement})
	l.queue.Settle(now, work)
	waits := &waitingPod{placement: placement}
	l.waits.byPod[pod.Key()] = waits
	l.waits.add(&wait{pod: waits, plugin: "Volumes", refs: []model.Ref{{Name: "volume"}}})
	if err := l.Audit(); err != nil {
		t.Fatal(err)
	}
	return l
}

// TestAuditFindsEachViolation corrupts a loop in one way after the other. The sentence
// names the violated invariant.
func TestAuditFindsEachViolation(t *testing.T) {
	key, volume := model.PodKey{Namespace: "ns", Name: "p"}, model.Ref{Name: "volume"}
	for _, row := range []struct {
		want    string
		corrupt func(l *Loop)
	}{
		{`confirmed: false, and its place in the queue is ""`, func(l *Loop) { l.queue.Wake(time.Unix(2, 0), state.Delta{Left: []model.PodKey{key}}) }},
		{"1 pods are binding in the queue, 0 are assumed", func(l *Loop) { l.state.Apply([]model.Change{{Kind: model.PodGone, Key: key}}) }},
		{`confirmed: true, and its place in the queue is "binding"`, func(l *Loop) {
			l.state.Apply([]model.Change{{Kind: model.BindDone, Bind: &model.BindingResult{Pod: l.waits.byPod[key].placement.Pod, NodeName: "a"}}})
		}},
		{"are listed as those of ns/other", func(l *Loop) { l.waits.byPod[model.PodKey{Namespace: "ns", Name: "other"}] = l.waits.byPod[key] }},
		{"nothing waits for", func(l *Loop) { l.waits.byRef[model.Ref{Name: "other"}] = nil }},
		{"byRef lists 1 waits less than pods have", func(l *Loop) { delete(l.waits.byRef, volume) }},
		{"is not at position 0 of those for", func(l *Loop) { l.waits.byRef[volume] = []*wait{{}} }},
		{"byRef lists -1 waits less", func(l *Loop) { l.waits.byPod[key].waits = nil }},
		{"1 are touched", func(l *Loop) { l.waits.touched = l.waits.byRef[volume] }},
		{"touched: true", func(l *Loop) { l.waits.byRef[volume][0].touched = true }},
		{"over: true", func(l *Loop) { l.waits.byRef[volume][0].over = true }},
		{"is of another pod: true", func(l *Loop) { l.waits.byRef[volume][0].pod = &waitingPod{} }},
		{"it has 0 positions for 1 objects", func(l *Loop) { l.waits.byRef[volume][0].at = nil }},
	} {
		l := auditedLoop(t)
		row.corrupt(l)
		err := l.Audit()
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("want a violation with %q, have\n%v", row.want, err)
		}
	}
}

// TestEndedWaitsAreNotKept lets two pods wait for one object, ends one wait and touches
// the other. When both are over, memory must hold neither.
func TestEndedWaitsAreNotKept(t *testing.T) {
	l := auditedLoop(t)
	volume := model.Ref{Name: "volume"}
	var first *wait
	for _, pod := range l.waits.byPod {
		first = pod.waits[0]
	}
	other := &wait{pod: &waitingPod{placement: first.pod.placement}, refs: []model.Ref{volume}}
	l.waits.add(other)
	l.waits.drop(first)
	if list := l.waits.byRef[volume]; len(list) != 1 || list[0] != other || list[:2][1] != nil {
		t.Errorf("the volume is waited for by %v, and behind them %v", list, list[:2])
	}
	l.endWaits([]model.Change{{Kind: model.ObjectGone, Ref: volume}})
	if touched := l.waits.touched; len(touched) != 0 || cap(touched) == 0 || touched[:1][0] != nil {
		t.Errorf("touched are %v", touched[:cap(touched)])
	}
	l.waits.drop(other)
	if len(l.waits.byRef) != 0 {
		t.Errorf("%v is waited for", l.waits.byRef)
	}
}
