package shadow

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// zones puts the fixture's nodes a and b into one zone each, and returns pods of app=web
// that must be spread over the zones.
func (f *fixture) zones() (web func(name, node string) *v1.Pod) {
	f.in.Set(build.Node("a", build.Allocatable("cpu=8 memory=16Gi"), build.NodeLabels("topology.kubernetes.io/zone=1")))
	f.in.Set(build.Node("b", build.Allocatable("cpu=8 memory=16Gi"), build.NodeLabels("topology.kubernetes.io/zone=2")))
	return func(name, node string) *v1.Pod {
		p := f.pod(name, "1", build.Labels("app=web"), build.DoNotSchedule(v1.LabelTopologyZone, "app=web"))
		p.Spec.NodeName = node
		return p
	}
}

// TestRaceOfSeveral: six pods that must be spread are decided about in turn, and their
// bindings are stored in another order. The fourth is stored before two earlier ones, so
// no single change explains it.
func TestRaceOfSeveral(t *testing.T) {
	f := newFixture(t)
	web := f.zones()
	for _, name := range []string{"1", "2", "3", "4", "5", "6"} {
		f.in.Set(web(name, ""))
	}
	for _, stored := range []string{"1a", "3a", "5a", "2b", "4b", "6b"} {
		f.in.Set(web(stored[:1], stored[1:]))
	}
	f.apply()
	f.End(f.at)
	s := f.Summary()
	if s.Contradict+s.Lesser != 0 || s.Race == 0 {
		t.Errorf("the summary is %+v: %+v", s, f.told)
	}
	var fifth Decision
	for _, d := range f.told {
		if d.Pod == "default/5" {
			fifth = d
		}
	}
	if want := []string{"pod default/2 bound to b", "pod default/4 bound to b"}; fifth.Verdict != Race || fifth.First != Contradict || !slices.Equal(fifth.Assumed, want) || len(fifth.Unseen) > 0 || !fifth.Later {
		t.Errorf("told %+v, want a race with %q", fifth, want)
	}
}

// TestRaceOfACutAndOwnDecisions: the other scheduler had not seen a deletion, and it had
// assumed a pod whose binding is stored later. Neither explains the binding alone.
func TestRaceOfACutAndOwnDecisions(t *testing.T) {
	f := newFixture(t)
	web := f.zones()
	for _, old := range []string{"a1", "a2", "b1", "b2", "b3"} {
		f.in.Set(web(old, old[:1]))
	}
	f.in.Set(web("1", ""))
	f.in.Set(web("2", ""))
	// Pod 1 was placed on a, which made it three and three; then pod 2 on b. Then a pod
	// on a is deleted, and 2 is stored before 1.
	f.in.Remove(model.PodKey{Namespace: "default", Name: "a1"}.Ref())
	f.in.Set(web("2", "b"))
	f.in.Set(web("1", "a"))
	f.apply()
	f.End(f.at)
	var second Decision
	for _, d := range f.told {
		if d.Pod == "default/2" {
			second = d
		}
	}
	if second.First != Contradict || second.Verdict != Race || !slices.Equal(second.Unseen, []string{"pods default/a1 gone"}) || !slices.Equal(second.Assumed, []string{"pod default/1 bound to a"}) {
		t.Errorf("told %+v", second)
	}
}

// TestContradictionInAnyOrder: many own bindings are in flight around one that is wrong
// in every order, because its node has no room for it, even when empty.
func TestContradictionInAnyOrder(t *testing.T) {
	f := newFixture(t)
	web := f.zones()
	huge := web("huge", "")
	huge.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = build.Resources("cpu=9")[v1.ResourceCPU]
	f.in.Set(huge)
	for i := range 12 {
		f.in.Set(web(fmt.Sprint(i), ""))
	}
	stored := huge.DeepCopy()
	stored.Spec.NodeName = "a"
	for i := range 12 {
		f.in.Set(web(fmt.Sprint(i), string("ab"[i%2])))
	}
	f.in.Set(stored)
	f.apply()
	f.End(f.at)
	for _, d := range f.told {
		if (d.Verdict == Contradict) != (d.Pod == "default/huge") {
			t.Errorf("told %+v", d)
		}
	}
	if s := f.Summary(); s.Contradict != 1 || s.Unsearched != 0 {
		t.Errorf("the summary is %+v", s)
	}
}

// TestOrderThatIsWrongForAnother: q's binding is stored before p's. If p had been decided
// first, its zone would be right, but q's would be wrong. So one of them is wrong.
func TestOrderThatIsWrongForAnother(t *testing.T) {
	f := newFixture(t)
	web := f.zones()
	f.in.Set(web("p", ""))
	f.in.Set(web("q", ""))
	f.in.Set(web("q", "a"))
	f.in.Set(web("p", "a"))
	f.check("default/q agree", "default/p contradict")
}

// TestPodsThatCameLaterExplainNothing: with q on b the binding of p would be right, but q
// did not exist yet when p was bound.
func TestPodsThatCameLaterExplainNothing(t *testing.T) {
	f := newFixture(t)
	f.in.Set(f.pod("p", "1"))
	f.in.Set(f.pod("p", "1", build.NodeName("a")))
	f.in.Set(f.pod("q", "7", important))
	f.in.Set(f.pod("q", "7", important, build.NodeName("b")))
	f.check("default/q agree", "default/p lesser")
}

func important(p *v1.Pod) { p.Spec.Priority = new(int32(10)) }

// TestOrders: q was decided before p and is stored after it, because it arrived first, or
// because it has a higher priority and both were pending.
func TestOrders(t *testing.T) {
	for _, order := range []string{"arrival", "priority"} {
		f := newFixture(t)
		p, q := f.pod("p", "1", important), f.pod("q", "7")
		f.in.Set(q)
		f.in.Set(p)
		if order == "priority" {
			f = newFixture(t)
			p, q = f.pod("p", "1"), f.pod("q", "7", important)
			f.in.Set(p)
			f.in.Set(q)
		}
		p, q = p.DeepCopy(), q.DeepCopy()
		p.Spec.NodeName, q.Spec.NodeName = "a", "b"
		f.in.Set(p)
		f.in.Set(q)
		f.check("default/q agree", "default/p race: pod default/q bound to b, later true, first lesser")
	}
}

// TestContradictionWaitsForWhatIsInFlight: 1, 2 and 3 were decided in turn. Without 2,
// whose binding is stored long after theirs, one of the others is wrong.
func TestContradictionWaitsForWhatIsInFlight(t *testing.T) {
	f := newFixture(t)
	web := f.zones()
	for _, name := range []string{"1", "2", "3"} {
		f.in.Set(web(name, ""))
	}
	f.in.Set(web("3", "a"))
	f.in.Set(web("1", "a"))
	f.apply()
	f.after(5 * time.Second)
	f.in.Set(web("2", "b"))
	f.check("default/3 agree", "default/2 agree", "default/1 race: pod default/3 bound to a, later false, first contradict")
}

// TestLessWrongIsBearable: the other scheduler had not seen the deletion of b1 when it
// decided about p. So x, which arrived later, found p on a. This makes a lesser for x,
// not infeasible: the explained binding is more wrong.
func TestLessWrongIsBearable(t *testing.T) {
	f := newFixture(t)
	web := f.zones()
	f.in.Set(web("a1", "a"))
	f.in.Set(web("b1", "b"))
	f.in.Set(f.pod("ballast", "1500m", build.NodeName("b")))
	f.in.Set(web("p", ""))
	f.in.Remove(model.PodKey{Namespace: "default", Name: "b1"}.Ref())
	f.bound("x", "1", "a")
	f.in.Set(web("p", "a"))
	f.check("default/x agree", "default/p race: pods default/b1 gone, later false, first contradict")
}

// incumbent is another scheduler in a small world. It uses Berth's own engine, sees the
// changes late, and stores its bindings in another order than it decides.
type incumbent struct {
	*testing.T
	f      *fixture
	random *rand.Rand
	state  *state.State
	engine *engine.Engine
	in     *ingest.Ingest
	// log has the changes that the API server has stored and the incumbent has not seen.
	log []func(set func(kinds.Object), remove func(model.Ref))
	// waiting are the pods that it has seen and not decided about, in their order. flying
	// are its decisions that are not stored yet.
	waiting []*model.Pod
	flying  []*v1.Pod
	stored  []*v1.Pod
	made    map[string]*v1.Pod
	// wrong are the pods that the test itself has put on a node without room.
	wrong map[string]bool
	pods  int
}

// store stores a version of an object in the API server. The shadow sees it at once.
func (c *incumbent) store(object kinds.Object) {
	c.f.in.Set(object)
	c.log = append(c.log, func(set func(kinds.Object), _ func(model.Ref)) { set(object) })
}

// see shows the oldest changes to the incumbent.
func (c *incumbent) see(n int) {
	for _, one := range c.log[:min(n, len(c.log))] {
		one(c.in.Set, c.in.Remove)
		changes := c.in.Drain()
		c.state.Apply(changes)
		for _, change := range changes {
			if change.Kind == model.PodSet && change.Pod.NodeName == "" {
				c.waiting = append(c.waiting, change.Pod)
			}
		}
	}
	c.log = c.log[min(n, len(c.log)):]
}

// decide decides about the pod that waits longest.
func (c *incumbent) decide() {
	if len(c.waiting) == 0 {
		return
	}
	pod := c.waiting[0]
	c.waiting = c.waiting[1:]
	rating, err := c.engine.Rate(c.state.View(), pod, "")
	if err != nil || rating.Feasible == 0 {
		c.waiting = append(c.waiting, pod)
		return
	}
	on := c.made[pod.Name].DeepCopy()
	on.Spec.NodeName = rating.Best
	c.in.Set(on)
	c.state.Apply(c.in.Drain())
	c.flying = append(c.flying, on)
}

// bind stores one of the first decisions in flight.
func (c *incumbent) bind() {
	if len(c.flying) == 0 {
		return
	}
	i := c.random.IntN(min(len(c.flying), 10))
	c.store(c.flying[i])
	c.stored = append(c.stored, c.flying[i])
	c.flying = slices.Delete(c.flying, i, i+1)
}

// deploy creates pods of one kind.
func (c *incumbent) deploy() {
	app := fmt.Sprintf("app=d%d", c.pods)
	kind := [][]build.PodOption{
		{}, {build.DoNotSchedule(v1.LabelTopologyZone, app)}, {build.RequiredAntiAffinity(build.Term(v1.LabelHostname, app))}, {build.ScheduleAnyway(v1.LabelHostname, app)},
	}[c.random.IntN(4)]
	for range 3 + c.random.IntN(12) {
		c.pods++
		name := fmt.Sprintf("p%d", c.pods)
		options := append(slices.Clone(kind), build.Named(name), build.Labels(app), build.Container(fmt.Sprintf("cpu=%dm memory=256Mi", 100*(1+c.random.IntN(5)))))
		c.made[name] = build.Pod(append(options, func(p *v1.Pod) { p.UID = types.UID(name) })...)
		c.store(c.made[name])
	}
}

// remove deletes a bound pod: first it terminates.
func (c *incumbent) remove() {
	if len(c.stored) == 0 {
		return
	}
	i := c.random.IntN(len(c.stored))
	pod := c.stored[i]
	c.stored = slices.Delete(c.stored, i, i+1)
	ends := pod.DeepCopy()
	build.Terminating(ends)
	c.store(ends)
	ref := model.PodKey{Namespace: pod.Namespace, Name: pod.Name}.Ref()
	c.f.in.Remove(ref)
	c.log = append(c.log, func(_ func(kinds.Object), remove func(model.Ref)) { remove(ref) })
}

// TestSchedulerInFlight has the shadow follow a scheduler that decides as Berth does, but
// late, and with bindings stored in another order. Each of its bindings is right or a
// race, and never contradicted. Bindings to nodes without room, which the test mixes in,
// are always contradicted.
func TestSchedulerInFlight(t *testing.T) {
	var all Summary
	for seed := range build.UnlessRaced(6, 1) {
		c := &incumbent{T: t, f: newFixture(t), random: rand.New(rand.NewPCG(uint64(seed), 1)), wrong: map[string]bool{}, made: map[string]*v1.Pod{}}
		s := c.run()
		all.Bindings += s.Bindings
		all.Agree += s.Agree
		all.Race += s.Race
		all.Lesser += s.Lesser
		all.Feasible += s.Feasible
		all.Unsearched += s.Unsearched
		if t.Failed() {
			t.Fatalf("seed %d: %+v", seed, s)
		}
	}
	t.Logf("%d bindings: %d agree, %d race, %d lesser, of which %d were infeasible just before; %d unsearched", all.Bindings, all.Agree, all.Race, all.Lesser, all.Feasible, all.Unsearched)
	if all.Race < all.Bindings/20 || all.Lesser > all.Bindings/10 {
		t.Errorf("too few races, or too many lesser nodes, for a scheduler that always takes a best node: %+v", all)
	}
}

func (c *incumbent) run() Summary {
	scheduler, err := config.Default()
	if err != nil {
		c.Fatal(err)
	}
	if c.engine, err = engine.New(engine.Config{Profiles: scheduler.Profiles}); err != nil {
		c.Fatal(err)
	}
	c.state, c.in = state.New(), ingest.New(scheduler.Compile())
	for i := range 24 {
		c.store(build.Node(fmt.Sprintf("n%d", i), build.Allocatable("cpu=8 memory=16Gi"), build.NodeLabels(fmt.Sprintf("topology.kubernetes.io/zone=%d,kubernetes.io/hostname=n%d", i%3, i))))
	}
	c.store(build.Node("a", build.Allocatable("cpu=8 memory=16Gi"), build.NodeLabels("topology.kubernetes.io/zone=0,kubernetes.io/hostname=a")))
	c.store(build.Node("b", build.Allocatable("cpu=8 memory=16Gi"), build.NodeLabels("topology.kubernetes.io/zone=1,kubernetes.io/hostname=b")))
	c.see(len(c.log))
	for range 600 {
		switch c.random.IntN(12) {
		case 0:
			if len(c.waiting)+len(c.flying) < 40 {
				c.deploy()
			}
		case 1, 2:
			c.remove()
		case 3, 4, 5:
			c.see(1 + c.random.IntN(8))
		case 6, 7, 8:
			for range 4 {
				c.decide()
			}
		case 9, 10:
			for range 3 {
				c.bind()
			}
		default:
			// Sometimes a pod is bound by hand to a node that is too small in each state.
			if c.random.IntN(8) == 0 {
				name := fmt.Sprintf("wrong%d", c.pods)
				if c.wrong[name] {
					continue
				}
				c.wrong[name] = true
				c.f.in.Set(build.Pod(build.Named(name), build.Container("cpu=9")))
				c.f.in.Set(build.Pod(build.Named(name), build.Container("cpu=9"), build.NodeName("a")))
				c.f.in.Remove(model.PodKey{Namespace: "default", Name: name}.Ref())
			}
		}
		c.f.apply()
		c.f.at = c.f.at.Add(10 * time.Millisecond)
		c.f.Tick(c.f.at)
	}
	s := c.f.End(c.f.at)
	for _, d := range c.f.told {
		wrong := c.wrong[d.Pod[len("default/"):]]
		if wrong != (d.Verdict == Contradict) {
			c.Errorf("wrong %t, told %+v", wrong, d)
		}
	}
	return s
}
