package loop_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/queue"
)

// decisions accepts decisions and carries none out.
type decisions struct {
	made   chan plan.Decision
	always chan struct{}
}

func (d decisions) Start(decision plan.Decision)  { d.made <- decision }
func (decisions) Allow(types.UID, string)         {}
func (decisions) Reject(types.UID, string, error) {}
func (decisions) Cancel(types.UID, error) bool    { return false }
func (d decisions) Room() <-chan struct{}         { return d.always }

// newStandby returns a loop with the default configuration, its source, and the receiver
// of its decisions. Pods are woken in slices, unless slice is 0.
func newStandby(t *testing.T, slice int, observers ...loop.Observer) (*loop.Loop, *ingest.Ingest, decisions) {
	t.Helper()
	c, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	rules := c.Queue(queue.DefaultMaxParked)
	if slice > 0 {
		rules.Slice = slice
	}
	waiting, err := queue.New(rules)
	if err != nil {
		t.Fatal(err)
	}
	decider, err := engine.New(engine.Config{Profiles: c.Profiles, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	changes := ingest.New(c.Compile())
	taken := decisions{make(chan plan.Decision, 8), make(chan struct{})}
	return loop.New(loop.Config{Source: changes, Queue: waiting, Engine: decider, Commit: taken, Observers: observers}), changes, taken
}

// TestStandby shows a standby loop a node and pods: it applies them and decides nothing.
// As leader it decides, but not about a pod that another replica has bound meanwhile.
func TestStandby(t *testing.T) {
	l, changes, taken := newStandby(t, 0)
	close(taken.always)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Minute, errors.New("too late"))
	defer cancel()
	leading, ended := make(chan struct{}), make(chan struct{})
	running, stop := context.WithCancel(ctx)
	go func() {
		defer close(ended)
		l.Stand(running, leading)
		l.Run(running)
	}()
	changes.Set(&v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Status:     v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourcePods: resource.MustParse("9")}},
	})
	changes.Set(pod("mine", ""))
	changes.Set(pod("others", ""))
	awaitState(t, ctx, l, func() bool { return l.State().Nodes() == 1 && l.Queue().Counts().Active == 2 })
	changes.Set(pod("others", "a"))
	awaitState(t, ctx, l, func() bool { return l.State().Pods() == 1 && l.Queue().Counts().Active == 1 })
	if len(taken.made) != 0 {
		t.Fatal("a replica decides that does not lead")
	}

	close(leading)
	select {
	case d := <-taken.made:
		if d.Pod.Name != "mine" || d.Placement.NodeName != "a" {
			t.Errorf("the first decision is %+v", d)
		}
	case <-ctx.Done():
		t.Fatal("a replica that leads does not decide")
	}
	awaitState(t, ctx, l, func() bool { return l.Queue().Counts().Active == 0 })
	if len(taken.made) != 0 {
		t.Error("there was a decision about a pod that has a node")
	}
	stop()
	<-ended
	if err := l.Do(running, func() { t.Error("called on a loop that has ended") }); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// allWoken receives a value when none of three pods is parked. It observes, because each
// question would begin another round.
type allWoken chan struct{}

func (allWoken) Round(*loop.Round) {}

func (a allWoken) Standing(s *loop.Standing) {
	if s.Queue.Active+s.Queue.BackingOff == 3 {
		select {
		case a <- struct{}{}:
		default: // already sent
		}
	}
}

// TestStandbyLeavesNothingUnfinished has a loop stand by while pods are being woken, in
// slices of one. All of them are woken, without any other event.
func TestStandbyLeavesNothingUnfinished(t *testing.T) {
	woken := allWoken(make(chan struct{}, 1))
	l, changes, _ := newStandby(t, 1, woken)
	node := func(name string, unschedulable bool) {
		changes.Set(&v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1.NodeSpec{Unschedulable: unschedulable},
			Status:     v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourcePods: resource.MustParse("9")}},
		})
	}
	node("a", true)
	for _, name := range []string{"p", "q", "r"} {
		changes.Set(pod(name, ""))
		l.Once(time.Now())
	}
	if n := l.Queue().Counts().Parked; n != 3 {
		t.Fatalf("%d pods are parked", n)
	}
	node("b", false)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Minute, errors.New("too late"))
	defer cancel()
	ended := make(chan struct{})
	running, stop := context.WithCancel(ctx)
	go func() {
		defer close(ended)
		l.Stand(running, nil)
	}()
	select {
	case <-woken:
	case <-ctx.Done():
		t.Error("pods are still parked")
	}
	stop()
	<-ended
}

// TestStandbyTakesWhatComes shows a standby loop one node a day, without questions.
func TestStandbyTakesWhatComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, changes, _ := newStandby(t, 0)
		running, stop := context.WithCancel(t.Context())
		defer stop()
		go l.Stand(running, nil)
		for i, name := range []string{"a", "b"} {
			time.Sleep(24 * time.Hour)
			changes.Set(build.Node(name))
			synctest.Wait()
			// the loop waits, and reads nothing meanwhile
			if n := l.State().Nodes(); n != i+1 {
				t.Errorf("the loop knows %d nodes, want %d", n, i+1)
			}
		}
	})
}

// awaitState calls the condition, which reads the loop's state, on the loop's goroutine
// until it holds.
func awaitState(t *testing.T, ctx context.Context, l *loop.Loop, condition func() bool) {
	t.Helper()
	for holds := false; !holds; {
		if err := l.Do(ctx, func() { holds = condition() }); err != nil {
			t.Fatal(err)
		}
	}
}

func pod(name, node string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec: v1.PodSpec{SchedulerName: v1.DefaultSchedulerName, NodeName: node, Containers: []v1.Container{{
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}},
		}}},
	}
}
