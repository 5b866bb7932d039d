package loop_test

import (
	"strconv"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
	"github.com/berth-scheduler/berth/internal/queue"
)

// costly is a filter that passes every node. The annotation "milliseconds" of a pod
// sets the price of its turn, in milliseconds of work, divided over as many rounds as
// needed. With the annotation "whole" the turn spends everything in one round.
type costly struct {
	left map[string]int64 // by pod, the unpaid part of its price
	kind price.Kind
	// burns makes the units take about as much time as they represent, for benchmarks.
	burns bool
	sink  uint64
}

func (*costly) Name() string              { return "Costly" }
func (*costly) FilterReads() model.Aspect { return 0 }

func (c *costly) FilterNeedIn(v state.View, pod *model.Pod) (need plugin.StateNeed, err error) {
	milliseconds, err := strconv.ParseInt(pod.Object.Annotations["milliseconds"], 10, 64)
	if err != nil {
		return need, nil
	}
	left, begun := c.left[pod.Name]
	if !begun {
		left = milliseconds * price.Millisecond
	}
	spent := left
	if pod.Object.Annotations["whole"] == "" {
		spent = min(left, v.Meter().Left())
	}
	v.Meter().Spend(c.kind, spent)
	for i := int64(0); c.burns && i < spent; i++ {
		c.sink = c.sink*6364136223846793005 + 1
	}
	if c.left[pod.Name] = left - spent; left > spent {
		return need, plugin.ErrUnfinished
	}
	delete(c.left, pod.Name)
	return need, nil
}

// charging is a loop with the filter costly and a few nodes.
type charging struct {
	*loop.Loop
	t       testing.TB
	changes *ingest.Ingest
	made    *held
	watch   *stopwatch
	config  *config.Config
	costly  *costly
	now     time.Time
}

// newCharging returns a loop whose nodes have room for many pods. change, unless nil,
// edits the configuration before use.
func newCharging(t testing.TB, change func(*config.Config)) *charging {
	c, _, _ := defaultParts(t, true)
	own := &costly{left: map[string]int64{}}
	c.Profiles[0].Filters = append(c.Profiles[0].Filters, plugintest.PartsOf(own).Filter)
	if change != nil {
		change(c)
	}
	waiting, err := queue.New(c.Queue(queue.DefaultMaxParked))
	if err != nil {
		t.Fatal(err)
	}
	decider, err := engine.New(engine.Config{Profiles: c.Profiles, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	l := &charging{t: t, changes: ingest.New(c.Compile()), made: &held{}, watch: &stopwatch{}, config: c, costly: own, now: time.Unix(1_000_000, 0)}
	l.Loop = loop.New(loop.Config{Source: l.changes, Queue: waiting, Engine: decider, Commit: l.made, Observers: []loop.Observer{l.watch}})
	for _, name := range []string{"a", "b", "c"} {
		l.changes.Set(build.Node(name, build.Allocatable("cpu=1000 memory=800Gi pods=1000")))
	}
	return l
}

// costs sets the price of a pod's turn.
func costs(milliseconds int) build.PodOption {
	return func(p *v1.Pod) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations["milliseconds"] = strconv.Itoa(milliseconds)
	}
}

// round runs a round and returns the name of the decided pod. For an unfinished turn it
// returns "…" and the name. Without a turn it returns an empty string.
func (c *charging) round() string {
	c.t.Helper()
	before := len(c.made.made)
	decided := c.Once(c.now)
	if err := c.Audit(); err != nil {
		c.t.Fatal(err)
	}
	switch {
	case !decided:
		return ""
	case len(c.made.made) == before:
		return "…" + c.watch.rounds[len(c.watch.rounds)-1].Turn.Name
	}
	return c.made.made[before].Pod.Name
}

// TestUnfinishedTurnGoesOn runs a turn that costs more than the budget of a round. The
// turn continues in the next rounds and counts as one attempt.
func TestUnfinishedTurnGoesOn(t *testing.T) {
	c := newCharging(t, nil)
	c.changes.Set(build.Pod(build.Named("large"), costs(50)))
	var units int64
	for i, want := range []string{"…large", "…large", "large", ""} {
		if got := c.round(); got != want {
			t.Fatalf("round %d: %q had its turn, want %q", i, got, want)
		}
		if unfinished := c.Unfinished(); unfinished != (i < 2) {
			t.Errorf("round %d: unfinished is %t", i, unfinished)
		}
		if i < 3 {
			r := c.watch.rounds[len(c.watch.rounds)-1]
			if cost := r.Cost.Total(); r.Unfinished != (i < 2) || (r.Attempt != nil) != (i == 2) || cost > 21*price.Millisecond {
				t.Errorf("round %d: unfinished %t, decided %t, cost %d", i, r.Unfinished, r.Attempt != nil, cost)
			}
			units += r.Cost[c.costly.kind]
			if i > 0 && len(r.Moves) > 0 {
				t.Errorf("round %d: %v", i, r.Moves)
			}
		}
	}
	d := c.made.made[0]
	if d.Outcome != plan.Placed || d.Attempt != 1 || d.Woken.Event != "UnscheduledPodAdd" || units < 50*price.Millisecond {
		t.Errorf("%s at attempt %d, woken by %q, for %d units", d.Outcome, d.Attempt, d.Woken.Event, units)
	}
}
