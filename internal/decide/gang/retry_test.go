package gang

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// TestWorkOfRetries counts the decisions about members of gangs that find no room.
// Further passes are bounded, and do not run if no order can help.
func TestWorkOfRetries(t *testing.T) {
	p := profileWith(t, 1, 1)
	p.Placements = nil
	for _, row := range []struct {
		what         string
		small, large int // members of 1 and of 3 cpu
		retries      int
		least, most  int64 // decisions in addition to those of the first pass
		nodes        int
		place        bool
		short        int  // members that are missing
		spread       bool // over hosts, which are too few
	}{
		{what: "equal members", small: 9, retries: 512, nodes: 2, least: 0, most: 9},
		{what: "too many large ones", small: 2, large: 3, retries: 512, nodes: 2, least: 0, most: 5},
		{what: "an order that fits", small: 4, large: 1, retries: 512, nodes: 2, least: 5, most: 12, place: true},
		{what: "the same without retries", small: 4, large: 1, retries: 0, nodes: 2},
		{what: "too much together", small: 3, large: 2, retries: 512, nodes: 2, least: 84, most: 84},
		{what: "too much together, with a limit", small: 3, large: 2, retries: 1, nodes: 2, least: retriesEach * 5, most: retriesEach * 5},
		{what: "equal members that are counted", small: 3, retries: 512, nodes: 2, spread: true, least: 1 + 16*3, most: 1 + 16*3},
		{what: "a member is missing", small: 4, large: 1, retries: 512, nodes: 2, short: 1, least: 0, most: 0},
		{what: "no nodes for the least", small: 3, large: 2, retries: 512, nodes: 1, least: 0, most: 5},
	} {
		c := &cluster{group: newGroup(int32(row.small+row.large+row.short), "")}
		for i := range row.nodes {
			c.nodes = append(c.nodes, build.Node(fmt.Sprint("n", i), build.Allocatable("cpu=4 memory=64Gi pods=110"), build.NodeLabels(fmt.Sprint("kubernetes.io/hostname=n", i))))
		}
		for range row.small {
			own := []build.PodOption{build.Container("cpu=1")}
			if row.spread {
				own = append(own, build.Labels("of=g"), build.RequiredAntiAffinity(build.Term("kubernetes.io/hostname", "of=g")))
			}
			c.add(own...)
		}
		for range row.large {
			c.add(build.Container("cpu=3"))
		}
		work := c.work(p)
		decisions := func(retries int) (*plan.Attempt, int64) {
			e, err := engine.New(engine.Config{Profiles: []*plugin.Profile{p}, Seed: seed, GroupRetries: retries})
			if err != nil {
				t.Fatal(err)
			}
			s := c.state(anyNode)
			d := decided(s, e, work, nil)
			if err := s.Audit(); err != nil {
				t.Error(err)
			}
			if placed := s.Assumed(); placed != 0 && d.Outcome != plan.Placed || placed != len(d.Members) && d.Outcome == plan.Placed {
				t.Errorf("%s: %s, with %d assumed", row.what, d.Outcome, placed)
			}
			return &d, e.Counters().Decisions
		}
		_, once := decisions(0)
		d, all := decisions(row.retries)
		if more := all - once; more < row.least || more > row.most {
			t.Errorf("%s: %d decisions more than one pass", row.what, more)

		}
		if placed := d.Outcome == plan.Placed; placed != row.place {
			t.Errorf("%s: placed: %t, %s", row.what, placed, d.Message)
		}
	}
}

// TestRetriesLeaveOutWhoLeaves has a member that is being deleted, in a gang that only
// another order places.
func TestRetriesLeaveOutWhoLeaves(t *testing.T) {
	p := profileWith(t, 1, 1)
	p.Placements = nil
	c := &cluster{group: newGroup(5, "")}
	for _, name := range []string{"n0", "n1"} {
		c.nodes = append(c.nodes, build.Node(name, build.Allocatable("cpu=4 memory=64Gi pods=110")))
	}
	c.add(build.Container("cpu=1"), build.Terminating)
	for range 4 {
		c.add(build.Container("cpu=1"))
	}
	c.add(build.Container("cpu=3"))
	e, err := engine.New(engine.Config{Profiles: []*plugin.Profile{p}, Seed: seed, GroupRetries: engine.DefaultGroupRetries})
	if err != nil {
		t.Fatal(err)
	}
	s := c.state(anyNode)
	d := decided(s, e, c.work(p), nil)
	if d.Outcome != plan.Placed || s.Assumed() != 5 || d.Members[0].Outcome != plan.Terminating {
		t.Errorf("the group is %s with %d members assumed, the member that leaves %s", d.Outcome, s.Assumed(), d.Members[0].Outcome)
	}
}

// TestFurtherPassesAreNotObserved has a gang that only another order places, with domain
// placements. The observer receives only the first pass.
func TestFurtherPassesAreNotObserved(t *testing.T) {
	p := profileWith(t, 1, 1)
	e, err := engine.New(engine.Config{Profiles: []*plugin.Profile{p}, Seed: seed, GroupRetries: engine.DefaultGroupRetries})
	if err != nil {
		t.Fatal(err)
	}
	c := racksOf(1, 2, 5, "")
	c.members = nil
	for _, cpu := range []int{1, 1, 1, 1, 3} {
		c.add(build.Container(fmt.Sprint("cpu=", cpu)))
	}
	var calls noted
	d := decided(c.state(anyNode), e, c.work(p), &calls)
	if want := (noted{"1 generated", "feasible: false"}); d.Outcome != plan.Placed || !slices.Equal(calls, want) {
		t.Errorf("%s: observed %q, want %q", d.Outcome, calls, want)
	}
}

// TestPassesInVainRest has groups of two kinds of members that fit separately and not
// together, tried as often as possible. In the long run only a few attempts make further
// passes. A group without failed passes comes before the others.
func TestPassesInVainRest(t *testing.T) {
	c := newGangCluster(t, 1)
	e, err := engine.New(engine.Config{Profiles: []*plugin.Profile{c.engine.Profile("default-scheduler")}, GroupRetries: engine.DefaultGroupRetries})
	if err != nil {
		t.Fatal(err)
	}
	plugintest.Set(c.state, build.Node("n0", build.Allocatable("cpu=4 pods=110")), build.Node("n1", build.Allocatable("cpu=4 pods=110")))
	gang := func(name string) turn {
		var pods []*v1.Pod
		for i, cpu := range []int{1, 1, 1, 3, 3} {
			pods = append(pods, build.Pod(build.Named(fmt.Sprint(name, i)), of(name), build.Container(fmt.Sprint("cpu=", cpu))))
		}
		return c.work(podGroup(name, 5, 0), pods...)
	}
	first, second := gang("first"), gang("second")
	var searches Searches
	now := time.Unix(1_000_000, 0)
	decisions := func(after time.Duration, work turn) int64 {
		now = now.Add(after)
		c.state.SetNow(now)
		before := e.Counters().Decisions
		d := decidedBy(searches.Decide, c.state, e, work, nil)
		if d.Outcome != plan.Unschedulable {
			t.Fatalf("%s", d.Outcome)
		}
		return e.Counters().Decisions - before
	}
	const once = 5 // a decision about each member
	all := decisions(0, first)
	if all < 10*once {
		t.Fatalf("%d decisions, which are hardly further passes", all)
	}
	with, last := 1, time.Duration(0)
	for i := 1; i < 1000; i++ {
		if n := decisions(time.Millisecond, first); n > once {
			with, last = with+1, time.Duration(i)*time.Millisecond
		}
	}
	// At first as many as cause a burst of pauses, and then one for each pause.
	rest := time.Duration(all) * perDecision
	if least, most := int(burst/rest), int((burst+time.Second)/rest*11/10); with < least || with > most || last < 900*time.Millisecond {
		t.Errorf("further passes were made %d times in a second, the last time after %s; want %d to %d times", with, last, least, most)
	}
	for i := 0; decisions(0, first) > once; i++ {
		if i > int(burst/rest)+1 {
			t.Fatal("further passes do not rest")
		}
	}
	waited := time.Duration(0)
	for decisions(time.Millisecond, second) == once {
		if waited += time.Millisecond; waited > 2*rest {
			t.Fatalf("no further passes for the second group in %s", waited)
		}
		if decisions(0, first) > once {
			t.Fatal("further passes for the first group, for which they were in vain, before the second")
		}
	}
}

// TestVainIsNoted: finding that no order can help counts as a failure only if it took
// decisions.
func TestVainIsNoted(t *testing.T) {
	for _, row := range []struct {
		name    string
		members []string
		want    bool
	}{
		{"too many of one kind even alone", []string{"1", "1", "3", "3", "3"}, true},
		{"all alike", []string{"3", "3", "3"}, false},
	} {
		c := newGangCluster(t, 1)
		e, err := engine.New(engine.Config{Profiles: []*plugin.Profile{c.engine.Profile("default-scheduler")}, GroupRetries: engine.DefaultGroupRetries})
		if err != nil {
			t.Fatal(err)
		}
		plugintest.Set(c.state, build.Node("n0", build.Allocatable("cpu=4 pods=110")), build.Node("n1", build.Allocatable("cpu=4 pods=110")))
		var pods []*v1.Pod
		for i, cpu := range row.members {
			pods = append(pods, build.Pod(build.Named(fmt.Sprint("m", i)), of("g"), build.Container("cpu="+cpu)))
		}
		var searches Searches
		d := decidedBy(searches.Decide, c.state, e, c.work(podGroup("g", int32(len(pods)), 0), pods...), nil)
		if noted := searches.passed["uid-g"]; d.Outcome != plan.Unschedulable || noted != row.want {
			t.Errorf("%s: %s, noted: %t", row.name, d.Outcome, noted)
		}
	}
}

// TestShare: the largest share counts, among the resources that any member requests.
func TestShare(t *testing.T) {
	amounts := func(cpuMilli, memoryBytes int64, scalars ...int64) *model.Resources {
		r := &model.Resources{CPUMilli: cpuMilli, MemoryBytes: memoryBytes}
		for i, n := range scalars {
			r.Scalars = append(r.Scalars, model.Scalar{Name: model.ResourceNameOf(fmt.Sprint("example.com/", i)), Value: n})
		}
		return r
	}
	for _, row := range []struct {
		of, all *model.Resources
		want    float64
	}{
		{amounts(3, 1), amounts(4, 4), 0.75},
		{amounts(1, 2), amounts(4, 4), 0.5},
		{amounts(1, 1, 0, 7), amounts(4, 4, 8, 8), 0.875},
		{amounts(0, 1), amounts(0, 4), 0.25},
		{amounts(0, 0), amounts(0, 0), 0},
	} {
		if got := share(row.of, row.all); got != row.want {
			t.Errorf("%+v of %+v: %v, want %v", row.of, row.all, got, row.want)
		}
	}
}

// TestOrder has members of six kinds. The first and the last are of one size. The second
// and the third have no feasible node alone.
func TestOrder(t *testing.T) {
	c := newGangCluster(t, 1)
	kinds := []kind{
		{members: []int{0}, size: 0.1, feasible: 3},
		{members: []int{1}, size: 0.9},
		{members: []int{2}, size: 0.8, counts: true},
		{members: []int{3, 6}, size: 0.3, feasible: 2},
		{members: []int{4}, size: 0.2, feasible: 2, counts: true},
		{members: []int{5}, size: 0.1, feasible: 3},
	}
	var pods []*v1.Pod
	for i := range 7 {
		pods = append(pods, newMember(fmt.Sprint("m", i)))
	}
	a := c.attemptOf(c.work(podGroup("g", 1, 0), pods...))
	for n, want := range [][]int{
		{1, 2, 3, 6, 4, 0, 5}, // the largest first
		{3, 6, 4, 0, 5, 1, 2}, // the fewest nodes first, and members without any last
		{4, 3, 6, 0, 5, 2, 1}, // the same, with counting filters first
	} {
		for _, pass := range []int{n, n + orders} {
			if got := a.order(kinds, pass); !slices.Equal(got, want) {
				t.Errorf("pass %d: %v, want %v", pass, got, want)
			}
		}
	}
	chance := [][]int{a.order(kinds, 3), a.order(kinds, 3), a.order(kinds, 3+orders), a.order(kinds, 3+2*orders)}
	if !slices.Equal(chance[0], chance[1]) || slices.Equal(chance[0], chance[2]) && slices.Equal(chance[0], chance[3]) {
		t.Errorf("orders by chance: %v", chance)
	}
	for _, order := range chance {
		if slices.Sort(order); !slices.Equal(order, a.tried) {
			t.Errorf("members %v", order)
		}
	}
}
