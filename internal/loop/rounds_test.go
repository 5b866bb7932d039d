package loop_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/queue"
)

// slowSource takes a second to return the requests of plugins.
type slowSource struct {
	*ingest.Ingest
	asked func()
}

func (s slowSource) Asked() ([]model.NominationRequest, []model.PodKey) {
	time.Sleep(time.Second)
	s.asked()
	return s.Ingest.Asked()
}

// slowSort takes two seconds to compare two pods.
type slowSort struct {
	*plugin.QueueSort
	compared *int
}

func (s slowSort) Less(a, b plugin.Queued) bool {
	time.Sleep(2 * time.Second)
	*s.compared++
	return s.QueueSort.Less(a, b)
}

// slowCommit takes three seconds to accept a decision.
type slowCommit struct{ held }

func (s *slowCommit) Start(d plan.Decision) {
	time.Sleep(3 * time.Second)
	s.held.Start(d)
}

// stopwatch is an observer that records its calls.
type stopwatch struct {
	rounds   []loop.Round
	standing []time.Time
	last     loop.Standing
}

func (s *stopwatch) Round(r *loop.Round) { s.rounds = append(s.rounds, *r) }
func (s *stopwatch) Standing(at *loop.Standing) {
	s.standing, s.last = append(s.standing, time.Now()), *at
	s.last.Asked, s.last.Unschedulable = slices.Clone(at.Asked), slices.Clone(at.Unschedulable)
}

// TestHowLongARoundTakes gives each part of a round a different duration.
func TestHowLongARoundTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := defaultParts(t, false)
		compared, atAsked, applying, popping := 0, 0, 0, -1
		c.Profiles[0].QueueSort = &plugin.QueueSort{Name: "SlowSort", Less: slowSort{c.Profiles[0].QueueSort, &compared}.Less}
		waiting, err := queue.New(c.Queue(queue.DefaultMaxParked))
		if err != nil {
			t.Fatal(err)
		}
		decider, err := engine.New(engine.Config{Profiles: c.Profiles, Seed: 1, OnPhase: func(engine.Phase) {
			if popping < 0 {
				applying, popping = atAsked, compared-atAsked
				time.Sleep(5 * time.Second)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		changes, watch := ingest.New(c.Compile()), &stopwatch{}
		l := loop.New(loop.Config{Source: slowSource{changes, func() { atAsked = compared }}, Queue: waiting, Engine: decider, Commit: &slowCommit{}, Observers: []loop.Observer{watch}})
		if l.Engine() != decider || l.Queue() != waiting {
			t.Error("the loop has another engine or queue")
		}
		changes.Set(build.Node("a", build.Allocatable("cpu=1 memory=8Gi pods=10")))
		for i := range 5 {
			changes.Set(ranks(fmt.Sprint("p", i), "1", int32(i)))
		}
		if !l.Once(time.Now()) {
			t.Fatal("there was no pod to decide about")
		}
		r := watch.rounds[0]
		if popping < 1 || r.Popping != time.Duration(popping)*2*time.Second {
			t.Errorf("finding the pod took %v, want %d comparisons of two seconds", r.Popping, popping)
		}
		if want := time.Duration(applying)*2*time.Second + time.Second; r.Applying != want {
			t.Errorf("applying took %v, want %v", r.Applying, want)
		}
		if r.Deciding != 5*time.Second || r.Settling != 4*time.Second {
			t.Errorf("deciding took %v and settling %v, want 5 s and 4 s", r.Deciding, r.Settling)
		}
		if r.Changes != 6 || len(r.Delta.Arrived) != 5 || r.Attempt == nil || len(r.Attempt.Members) != 1 || len(r.Moves) < 5 {
			t.Errorf("%+v", r)
		}
	})
}

// TestWhenObserversHear counts the calls of Round: one for each round with a change, a
// decision or a move, and no others.
func TestWhenObserversHear(t *testing.T) {
	c, waiting, decider := defaultParts(t, false)
	changes, watch := ingest.New(c.Compile()), &stopwatch{}
	l := loop.New(loop.Config{Source: changes, Queue: waiting, Engine: decider, Commit: &held{}, Observers: []loop.Observer{watch}})
	now := time.Unix(1_000_000, 0)
	hears := func(what string, rounds int) {
		t.Helper()
		l.Once(now)
		if len(watch.rounds) != rounds {
			t.Errorf("after %s, %d rounds were heard of, want %d", what, len(watch.rounds), rounds)
		}
	}
	hears("nothing", 0)
	changes.Set(build.Node("a", build.Allocatable("cpu=1 memory=8Gi pods=10")))
	hears("one change", 1)
	hears("nothing", 1)
	changes.Set(ranks("large", "2", 0))
	changes.Set(ranks("huge", "3", 0))
	hears("a decision", 2)
	hears("a decision without a change", 3)
	hears("nothing", 3)
	now = now.Add(queue.DefaultMaxParked + time.Minute)
	l.Once(now) // pods that were parked for too long are woken
	if n := len(watch.rounds); n < 4 || watch.rounds[3].Changes != 0 || len(watch.rounds[3].Moves) == 0 {
		t.Errorf("%d rounds were heard of, want one in which pods moved", n)
	}
}

// TestStandingIsNotToldTooOften makes decisions that take 300 ms each. Meanwhile Standing
// is called once a second, and at once when no work is left.
func TestStandingIsNotToldTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, waiting, _ := defaultParts(t, false)
		decider, err := engine.New(engine.Config{Profiles: c.Profiles, Seed: 1, OnPhase: func(p engine.Phase) {
			if p == engine.Filter {
				time.Sleep(250 * time.Millisecond)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		changes, watch := ingest.New(c.Compile()), &stopwatch{}
		l := loop.New(loop.Config{Source: changes, Queue: waiting, Engine: decider, Commit: &held{}, Observers: []loop.Observer{watch}})
		changes.Set(build.Node("a", build.Allocatable("cpu=100 memory=8Gi pods=100")))
		began := time.Now()
		for i := range 10 {
			changes.Set(ranks(fmt.Sprint("p", i), "1", 0))
		}
		for l.Once(time.Now()) {
		}
		l.Once(time.Now())
		var told []int64
		for _, at := range watch.standing {
			told = append(told, at.Sub(began).Milliseconds())
		}
		if want := []int64{250, 1250, 2250, 2500, 2500}; !slices.Equal(told, want) {
			t.Errorf("observers hear how things stand after %v ms, want %v", told, want)
		}
	})
}

// TestHowThingsStand compares each figure with the parts of the loop and with the known
// contents of this cluster.
func TestHowThingsStand(t *testing.T) {
	c, waiting, decider := defaultParts(t, false)
	changes, watch := ingest.New(c.Compile()), &stopwatch{}
	l := loop.New(loop.Config{Source: changes, Queue: waiting, Engine: decider, Commit: &held{}, Observers: []loop.Observer{watch}})
	now := time.Unix(1_000_000, 0)
	settle := func() {
		for l.Once(now) {
		}
	}
	spread := func(name, cpu, label string) *v1.Pod {
		return ranks(name, cpu, 0, build.Labels("app="+label), build.DoNotSchedule(v1.LabelTopologyZone, "app="+label))
	}
	for _, n := range build.NodesInZones("a=z1 b=z2", build.Allocatable("cpu=4 memory=8Gi pods=10")) {
		changes.Set(n)
	}
	changes.Set(ranks("running", "1", 0, build.NodeName("a")))
	for _, p := range []*v1.Pod{spread("one", "1", "x"), spread("two", "1", "x"), ranks("large", "9", 0), ranks("larger", "10", 0)} {
		changes.Set(p)
	}
	settle()
	check := func() {
		t.Helper()
		s := watch.last
		rejections, bytes := l.Engine().Rejections()
		updates, built := l.State().TallyWork()
		for what, values := range map[string][2]any{
			"queue": {s.Queue, l.Queue().Counts()}, "nodes": {s.Nodes, 2}, "assumed": {s.Assumed, l.State().Assumed()}, "pods": {s.Pods, l.State().Pods()},
			"work": {s.Work, l.Engine().Counters()}, "hints": {s.HintsAsked, l.Queue().HintsAsked()},
			"columns": {s.Columns, l.Engine().Columns()}, "bytes of columns": {s.ColumnBytes, l.Engine().ColumnBytes(l.State().Slots())},
			"tallies": {s.Tallies, l.State().Tallies()}, "bytes of tallies": {s.TallyBytes, l.State().TallyBytes()}, "tallies found": {s.TalliesFound, l.State().TalliesFound()},
			"updates of tallies": {s.TallyUpdates, updates}, "tallies built": {s.TalliesBuilt, built},
			"rejections": {s.Rejections, rejections}, "bytes of rejections": {s.RejectionBytes, bytes},
			"unschedulable": {fmt.Sprint(s.Unschedulable), "[{default-scheduler NodeResourcesFit 2}]"},
		} {
			if values[0] != values[1] {
				t.Errorf("%s: %v, want %v", what, values[0], values[1])
			}
		}
		if s.Assumed == 0 || s.Pods == 0 || s.Queue.Parked != 2 || s.Columns == 0 || s.ColumnBytes == 0 || s.TallyBytes == 0 || s.TallyUpdates == 0 || s.TalliesBuilt == 0 || s.RejectionBytes == 0 {
			t.Errorf("%+v", s)
		}
		asked := map[engine.Phase]int64{}
		for _, a := range s.Asked {
			if a.Profile != v1.DefaultSchedulerName || a.Plugin == "" {
				t.Errorf("%+v", a)
			}
			asked[a.Phase] += a.Times
		}
		if asked[engine.Filter] == 0 || asked[engine.Score] == 0 {
			t.Errorf("plugins were asked %v times", asked)
		}
	}
	check()
	tallies := watch.last.Tallies
	changes.Set(spread("three", "1", "y"))
	settle()
	if check(); watch.last.Tallies <= tallies {
		t.Errorf("%d tallies, after %d", watch.last.Tallies, tallies)
	}
	changes.Set(ranks("four", "1", 0)) // no tally changes
	settle()
	if check(); watch.last.Pods == 0 {
		t.Errorf("%+v", watch.last)
	}
}

// nominated returns the nominated pods, as "node: pod".
func nominated(l *loop.Loop) (all []string) {
	for node, pods := range l.State().View().NominatedPods() {
		for _, p := range pods {
			all = append(all, node+": "+p.Name)
		}
	}
	slices.Sort(all)
	return all
}

// TestAskedFromOutside has plugins nominate pods, clear nominations and activate pods,
// while the loop decides or stands by.
func TestAskedFromOutside(t *testing.T) {
	for _, stands := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c, waiting, decider := defaultParts(t, true)
			changes, taken := ingest.New(c.Compile()), &held{}
			l := loop.New(loop.Config{Source: changes, Queue: waiting, Engine: decider, Commit: taken})
			for _, name := range []string{"p", "q"} {
				pod := ranks(name, "9", 0)
				changes.Set(pod)
			}
			changes.Set(build.Node("a", build.Allocatable("cpu=1 memory=8Gi pods=10")))
			for l.Once(time.Now()) {
			}
			if n := l.Queue().Counts().Parked; n != 2 {
				t.Fatalf("%d pods are parked", n)
			}
			time.Sleep(time.Minute) // backoffs are over
			round := func() { l.Once(time.Now()) }
			if stands {
				leading := make(chan struct{})
				close(leading)
				round = func() { l.Stand(t.Context(), leading) }
			}
			nominate := func(name, uid, node, want string) {
				t.Helper()
				changes.Nominate(model.NominationRequest{Pod: keyOf(name), UID: ranks(uid, "1", 0).UID, NodeName: node})
				round()
				if got := fmt.Sprint(nominated(l)); got != want {
					t.Errorf("nominated are %s, want %s", got, want)
				}
			}
			before := len(taken.made)
			if place := l.Queue().PlaceOf(keyOf("p")); place != "parked" {
				t.Fatalf("p is %s", place)
			}
			changes.Activate(keyOf("p"))
			round()
			decided := slices.ContainsFunc(taken.made[before:], func(d plan.Decision) bool { return d.Pod.Name == "p" })
			if place := l.Queue().PlaceOf(keyOf("p")); decided == stands || stands && place != "active" {
				t.Errorf("p is %s, and decided about: %t", place, decided)
			}
			nominate("p", "p", "a", "[a: p]")
			nominate("q", "q", "b", "[a: p b: q]")
			nominate("nobody", "nobody", "b", "[a: p b: q]")
			nominate("p", "former", "b", "[a: p b: q]")
			nominate("p", "p", "", "[b: q]")
		})
	}
}

// TestUnfinished wakes ten pods of ten shapes by one event, in slices of one. The loop
// reports unfinished work until all are woken.
func TestUnfinished(t *testing.T) {
	c, _, decider := defaultParts(t, false)
	rules := c.Queue(queue.DefaultMaxParked)
	rules.Slice = 1
	waiting, err := queue.New(rules)
	if err != nil {
		t.Fatal(err)
	}
	changes := ingest.New(c.Compile())
	l := loop.New(loop.Config{Source: changes, Queue: waiting, Engine: decider, Commit: &held{}})
	now := time.Unix(1_000_000, 0)
	changes.Set(build.Node("small", build.Allocatable("cpu=100m memory=8Gi pods=10")))
	for i, name := range []string{"p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9"} {
		changes.Set(ranks(name, fmt.Sprint(1+i), int32(i)))
		l.Once(now)
	}
	now = now.Add(time.Minute)
	if l.Unfinished() {
		t.Error("there is work left where all pods are parked")
	}
	changes.Set(build.Node("a", build.Allocatable("cpu=80 memory=8Gi pods=10")))
	if l.Once(now); !l.Unfinished() {
		t.Error("ten pods are woken, one at a time, and no work is left after the first round")
	}
	for rounds := 0; (l.Once(now) || l.Unfinished()) && rounds < 100; rounds++ {
	}
	if l.Unfinished() || l.Queue().Counts().Parked != 0 {
		t.Errorf("in the end there is work left, or pods are parked: %+v", l.Queue().Counts())
	}
}

// TestRunDecidesAboutAll shows a loop many pods at once, and nothing after that. It
// decides about all of them in that instant.
func TestRunDecidesAboutAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, nil)
		r.decides()
		var names []string
		for i := range 8 {
			names = append(names, fmt.Sprint("p", i))
			r.adds(names[i])
		}
		r.decides(names...)
		r.ends()
	})
}
