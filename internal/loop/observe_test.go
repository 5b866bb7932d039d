package loop_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/config/feature"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/queue"
)

// notes records the calls of an observer.
type notes struct {
	rounds   []loop.Round
	standing loop.Standing
	told     int
	// audit is called after every round, because an observer may audit.
	audit    func() error
	violated []error
}

func (n *notes) Round(r *loop.Round) {
	kept := *r
	// valid until Round returns
	kept.Evaluated = slices.Clone(r.Evaluated)
	n.rounds = append(n.rounds, kept)
	if err := n.audit(); err != nil {
		n.violated = append(n.violated, err)
	}
}
func (n *notes) Standing(s *loop.Standing) { n.standing, n.told = *s, n.told+1 }

// TestObserver runs the loop on a cluster in memory and checks the calls of an observer:
// Round for each round with activity, and the final Standing.
func TestObserver(t *testing.T) {
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	n, clock := &notes{}, &loop.Clock{}
	c, err := simulate.New(simulate.Config{Scheduler: scheduler, Observers: []loop.Observer{n, clock}})
	if err != nil {
		t.Fatal(err)
	}
	if ahead := time.Until(clock.Now()).Abs(); ahead > time.Minute {
		t.Errorf("before the first decision, the clock is %v off the system's", ahead)
	}
	n.audit = c.Audit
	c.SetNode(&v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Status:     v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), v1.ResourcePods: resource.MustParse("9")}},
	})
	for _, name := range []string{"fits", "large"} {
		cpu := map[string]string{"fits": "1", "large": "2"}[name]
		c.SetPod(&v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: v1.PodSpec{SchedulerName: v1.DefaultSchedulerName, Containers: []v1.Container{{
				Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}},
			}}},
		})
	}
	if err := c.Settle(nil); err != nil {
		t.Fatal(err)
	}
	if len(n.violated) > 0 {
		t.Errorf("an observer finds %v", n.violated)
	}
	first := n.rounds[0]
	if first.Changes != 3 || len(first.Delta.Arrived) != 2 || len(first.Moves) != 2 || first.Attempt == nil || first.Attempt.Members[0].Outcome != plan.Placed ||
		first.Attempt.Members[0].Placement.NodeName != "a" || !first.Attempt.Members[0].Popped.Equal(c.Now()) || first.Deciding <= 0 {
		t.Errorf("the first round is told as %+v", first)
	}
	decided := 0
	for _, r := range n.rounds {
		if r.Attempt != nil {
			decided++
		}
		if r.Attempt == nil && r.Changes == 0 && len(r.Moves) == 0 {
			t.Error("a round is told of in which nothing happened")
		}
	}
	s := n.standing
	want := queue.Counts{Parked: 1}
	if decided != 2 || s.Queue != want || s.Nodes != 1 || s.Pods != 1 || s.Assumed != 0 || s.Work.Decisions != 2 || len(s.Unschedulable) != 1 {
		t.Errorf("%d decisions are told of, and in the end %+v", decided, s)
	}
	if ahead := clock.Now().Sub(c.Now()); ahead < 0 || ahead > time.Minute {
		t.Errorf("after a decision, the clock is %v ahead of the loop", ahead)
	}
}

// TestObserverOfPlacements: a round reports the domain placements of its own group only.
func TestObserverOfPlacements(t *testing.T) {
	gates, err := feature.With(map[string]bool{"GenericWorkload": true, "TopologyAwareWorkloadScheduling": true})
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := config.Read(config.Request{Gates: gates})
	if err != nil {
		t.Fatal(err)
	}
	n := &notes{}
	c, err := simulate.New(simulate.Config{Scheduler: scheduler, Observers: []loop.Observer{n}})
	if err != nil {
		t.Fatal(err)
	}
	n.audit = c.Audit
	for _, name := range []string{"a", "b"} {
		c.SetNode(build.Node(name, build.NodeLabels("rack="+name), build.Allocatable(map[string]string{"a": "cpu=1 pods=9", "b": "cpu=8 pods=9"}[name])))
	}
	for name, key := range map[string]string{"g": "rack", "h": ""} {
		group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}
		if key != "" {
			group.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: key}}}
		}
		if err := c.SetObject(group); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"g-0", "g-1", "h-0", "h-1"} {
		p := build.Pod(build.Named(name), build.Container("cpu=1"))
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: new(name[:1])}
		c.SetPod(p)
	}
	if err := c.Settle(nil); err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	for _, r := range n.rounds {
		if r.Attempt == nil {
			continue
		}
		text := fmt.Sprint(r.Generated, " generated")
		var took time.Duration
		for _, e := range r.Evaluated {
			text += fmt.Sprint(", feasible: ", e.Feasible)
			took += e.Took
		}
		if took <= 0 || took > r.Deciding {
			t.Errorf("placements took %v of a decision of %v", took, r.Deciding)
		}
		told[r.Attempt.First().Name[:1]] = text
	}
	if told["g"] != "2 generated, feasible: false, feasible: true" || told["h"] != "1 generated, feasible: true" {
		t.Errorf("told of %v", told)
	}
}

// slowWitness is an observer that inspects a decision for two seconds and records its
// calls.
type slowWitness struct {
	stopwatch
	saw []string
}

func (w *slowWitness) Decided(_ loop.Detailer, v state.View, d *plan.Decision, _ int, took time.Duration) uint64 {
	if d.Group == nil {
		time.Sleep(2 * time.Second)
		w.saw = append(w.saw, fmt.Sprintf("%s %s after %s, %d pods are on nodes", d.Pod.Name, d.Outcome, took, v.State().Pods()))
	}
	return 0
}

// slowHints returns no hint after three seconds.
type slowHints struct{ recordedHints }

func (slowHints) Rejected(time.Time, *engine.Engine, *state.State, *plan.Decision) string {
	time.Sleep(3 * time.Second)
	return ""
}

// TestWitness shows a witness each decision about a single pod before it is applied. The
// time of the witness and Hints is measured separately from the time to decide.
func TestWitness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &slowWitness{}
		g := newGrouping(t, "", w)
		g.loop.SetHints(&slowHints{})
		g.nodes(1)
		for _, name := range []string{"first", "second"} {
			g.changes.Set(build.Pod(build.Named(name), build.Container("cpu=1")))
			g.round()
			g.now = g.now.Add(time.Second)
		}
		g.changes.Set(gang(1))
		g.changes.Set(member("a"))
		g.round()
		want := []string{"first placed after 0s, 0 pods are on nodes", "second unschedulable after 0s, 1 pods are on nodes"}
		if !slices.Equal(w.saw, want) {
			t.Errorf("the witness saw %q, want %q", w.saw, want)
		}
		var took []time.Duration
		for i, r := range w.rounds {
			took = append(took, r.Witnessing)
			if r.Deciding != 0 || r.Settling != 0 {
				t.Errorf("round %d: deciding took %s and settling %s", i, r.Deciding, r.Settling)
			}
			if group := r.Attempt.Group != nil; group != (i == 2) {
				t.Errorf("round %d: about a group: %t", i, group)
			}
		}
		if want := []time.Duration{2 * time.Second, 5 * time.Second, 0}; !slices.Equal(took, want) {
			t.Errorf("witnesses and advice took %v, want %v", took, want)
		}
	})
}
