package gang

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// attemptOf returns an attempt of a group without decisions.
func (c *gangCluster) attemptOf(work turn) *attempt {
	a := &attempt{Attempt: work.attempt(), state: c.state, engine: c.engine, maxKept: maxKept}
	a.assign()
	for i := range a.Members {
		a.tried = append(a.tried, i)
	}
	a.profile = c.engine.Profile(a.First().SchedulerName)
	return a
}

// displaced makes the attempt that foresee predicts, with all candidates off their nodes.
func (a *attempt) displaced(t *testing.T) (short string, candidates int) {
	units := a.candidates(a.state.View())
	for i := range units {
		a.state.Displace(units[i].pods...)
	}
	b := a.again()
	short, err := b.try()
	b.revert()
	for i := range units {
		a.state.Return(units[i].pods...)
	}
	if err != nil {
		t.Error(err)
	}
	return short, len(units)
}

// generated counts the calls of an Observer.
type generated struct{ placements, evaluated, feasible int }

func (g *generated) Generated(placements int) { g.placements += placements }

func (g *generated) Evaluated(feasible bool) {
	if g.evaluated++; feasible {
		g.feasible++
	}
}

// TestForeseen compares predictions with real attempts without the pods of lower
// priority. The random clusters have racks, taints, nominated pods, held space, and
// groups whose priority differs from their pods'. Some members are on nodes, and some
// pods on nodes that are gone.
func TestForeseen(t *testing.T) {
	racked := profileWith(t, 1, 1)
	outcomes := map[string]int{}
	for seed := range uint64(build.UnlessRaced(1500, 300)) {
		r := rand.New(rand.NewPCG(seed, 11))
		c := newGangCluster(t, seed)
		key, racks := "", r.IntN(3) == 0
		if racks {
			c.engine, c.compile = newEngine(t, racked), racked.Compile
			key = []string{"rack", ""}[r.IntN(2)]
		}
		var objects []runtime.Object
		add := func(all ...runtime.Object) { objects = append(objects, all...) }
		nodes := 1 + r.IntN(6)
		for i := range nodes {
			options := []build.NodeOption{build.Allocatable(fmt.Sprintf("cpu=%d memory=8Gi pods=%d example.com/x=4", 2+r.IntN(3), 2+r.IntN(5))), build.NodeLabels(fmt.Sprintf("rack=r%d", i%3))}
			switch r.IntN(6) {
			case 0:
				options = append(options, build.Taints("a=b:NoSchedule"))
			case 1:
				options = append(options, build.Unschedulable)
			}
			add(build.Node(fmt.Sprint("n", i), options...))
		}
		size := func() build.PodOption {
			return build.Container([]string{"cpu=1", "cpu=500m memory=3Gi", "cpu=2", "memory=2Gi", "cpu=100m example.com/x=2"}[r.IntN(5)])
		}
		groups := []string{"unit", "loose", "raised", "lowered", "unknown"}
		add(podGroup("unit", 1, 50, whole), podGroup("loose", 1, 50), podGroup("raised", 1, 200), podGroup("lowered", 1, 1))
		lowest := int32(r.IntN(3) * 50) // at 100 no pod can be evicted
		for i := range r.IntN(24) {
			options := []build.PodOption{build.Named(fmt.Sprint("p", i)), build.NodeName(fmt.Sprint("n", r.IntN(nodes+1))), size(), priority(lowest + int32(r.IntN(3)*50))}
			switch n := r.IntN(12); {
			case n < len(groups):
				options = append(options, of(groups[n]))
			case n == 11 && key == "":
				options = append(options, of("g"))
			}
			add(build.Pod(options...))
		}
		for i := range r.IntN(4) {
			p := build.Pod(build.Named(fmt.Sprint("q", i)), size(), priority(int32(r.IntN(5)*50)), build.NominatedNodeName(fmt.Sprint("n", r.IntN(nodes))))
			p.UID = "q"
			add(p)
		}
		plugintest.Set(c.state, objects...)
		shape := []build.PodOption{of("g"), priority(100), size()}
		near := false
		switch r.IntN(9) {
		case 0:
			shape = append(shape, build.NodeSelector("rack=r1"))
		case 1:
			shape = append(shape, build.Tolerations(v1.Toleration{Operator: v1.TolerationOpExists}))
		case 2:
			shape, near = append(shape, hostPort(80)), true
		case 3:
			shape, near = append(shape, build.Labels("app=g"), build.RequiredAntiAffinity(build.Term("rack", "app=g"))), true
		case 4:
			shape, near = append(shape, build.DoNotSchedule("rack", "app=g")), true
		}
		members := make([]*v1.Pod, 1+r.IntN(8))
		for i := range members {
			members[i] = build.Pod(append(shape, build.Named(fmt.Sprint("m", i)))...)
			members[i].UID = "m"
			if own := r.IntN(12); own == 0 && i == 1 {
				members[i], near = build.Pod(append(shape, build.Named("m1"), size())...), true
			} else if own == 1 && i == 0 {
				members[i].Status.NominatedNodeName, near = "n0", true
				plugintest.Set(c.state, members[i])
			}
		}
		g := podGroup("g", int32(1+r.IntN(len(members)+1)), 100, func(g *schedulingv1beta1.PodGroup) {
			if key != "" {
				g.Spec.SchedulingConstraints = newGroup(1, key).Spec.SchedulingConstraints
			}
			if r.IntN(5) == 0 {
				g.Spec.SchedulingPolicy = newGroup(0, "").Spec.SchedulingPolicy
			}
		})
		work := c.work(g, members...)
		if r.IntN(4) == 0 {
			kept := []plan.Nomination{{Pod: c.work(podGroup("kept", 1, 100), build.Pod(build.Named("k"), size(), priority(100), of("kept"))).Pods[0].Pod, Mode: plan.Set, NodeName: "n0"}}
			of := model.GroupKey{Namespace: "default", Name: "kept"}
			if r.IntN(2) == 0 { // space held for the group itself does not matter to it
				kept, of = []plan.Nomination{{Pod: work.Pods[0].Pod, Mode: plan.Set, NodeName: "n0"}}, work.Group.Key
			}
			c.state.HoldRoom(model.RootKey{Key: of}, []model.GroupKey{of}, kept)
		}
		a := c.attemptOf(work)
		if a.count(); a.isShort() {
			continue // then no search is made
		}
		foreseeing, trying := generated{}, generated{}
		a.observer = &foreseeing
		lower := a.lowerPods(c.state.View())
		got, known := a.foresee(lower.takeOff)
		ok := known == foreseen
		a.observer = &trying
		want, candidates := a.displaced(t)
		switch {
		case lower.any() != (candidates > 0):
			t.Errorf("seed %d: there are %d candidates: %t", seed, candidates, lower.any())
		case known == hopeless && want == "":
			t.Errorf("seed %d: hopeless, and it is not", seed)
		case ok && got != want:
			t.Errorf("seed %d: foreseen %q, and it is %q", seed, got, want)
		case !ok && foreseeing != (generated{}):
			t.Errorf("seed %d: observed %+v, and nothing was foreseen", seed, foreseeing)
		case ok && foreseeing != trying:
			t.Errorf("seed %d: observed %+v, and it is %+v", seed, foreseeing, trying)
		case !ok && !near && want != "" && want != "no feasible placements found":
			t.Errorf("seed %d: %q was not foreseen", seed, want)
		}
		what := "not foreseen, and rejected"
		if known == hopeless {
			what = "hopeless"
		}
		switch {
		case ok && racks:
			what = "foreseen of racks"
		case ok && got == unschedulable:
			what = "foreseen that no more fit"
		case ok:
			what = "foreseen"
		case want == "":
			what = "accepted"
		}
		outcomes[what]++
		if c.state.RoomHolds() > 0 && ok {
			outcomes["foreseen beside held room"]++
		}
		if len(lower.otherwise) > 0 && ok {
			outcomes["foreseen with other priorities"]++
		}
		if err := c.state.Audit(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	t.Log(outcomes)
	for what, least := range map[string]int{
		"foreseen": 180, "foreseen of racks": 140, "foreseen that no more fit": 70, "foreseen beside held room": 100, "foreseen with other priorities": 350, "accepted": 600,
		"hopeless": 60, "not foreseen, and rejected": 40,
	} {
		if least = build.UnlessRaced(least, least/6); outcomes[what] < least {
			t.Errorf("%s: %d times, want at least %d", what, outcomes[what], least)
		}
	}
}

// TestSorts: members are of one sort if they are equal, have the same usage, and have no
// objects of their own that matter.
func TestSorts(t *testing.T) {
	c := newGangCluster(t, 1)
	small, volume := build.Container("cpu=1"), build.Claims("c")
	occupies := func(pod *model.Pod) { pod.Occupies.CPUMilli++ }
	malformed := func(pod *model.Pod) { pod.Malformed = "odd" }
	device := func(pod *model.Pod) { pod.Devices = &model.PodDevices{} }
	type member struct {
		options []build.PodOption
		change  func(*model.Pod)
	}
	plain := member{options: []build.PodOption{small}}
	for _, row := range []struct {
		name    string
		members []member
		want    string
	}{
		{"alike", []member{plain, plain, plain}, "m0*3"},
		{"two sizes in turn", []member{plain, {options: []build.PodOption{build.Container("cpu=2")}}, plain}, "m0*2 m1*1"},
		{"one occupies more than it asks for", []member{plain, {options: plain.options, change: occupies}, plain}, "m0*2 m1*1"},
		{"one is nominated", []member{plain, {options: []build.PodOption{small, build.NominatedNodeName("n")}}, plain}, "m0*2 m1*1"},
		{"volumes of the first", []member{{options: []build.PodOption{small, volume}}, plain, plain}, "m0*1 m1*2"},
		{"volumes of the last ones", []member{plain, {options: []build.PodOption{small, volume}}, {options: []build.PodOption{small, volume}}}, "m0*1 m1*1 m2*1"},
		{"devices", []member{plain, {options: plain.options, change: device}, {options: plain.options, change: device}}, "m0*1 m1*1 m2*1"},
		{"malformed", []member{{options: plain.options, change: malformed}, plain, {options: plain.options, change: malformed}}, "m0*1 m1*1 m2*1"},
	} {
		var pods []*v1.Pod
		for i, m := range row.members {
			pods = append(pods, build.Pod(append([]build.PodOption{build.Named(fmt.Sprint("m", i)), of("g")}, m.options...)...))
		}
		work := c.work(podGroup("g", 1, 0), pods...)
		for i, m := range row.members {
			if m.change != nil {
				m.change(work.Pods[i].Pod)
			}
		}
		var got []string
		for _, s := range c.attemptOf(work).sorts() {
			got = append(got, fmt.Sprintf("%s*%d", s.pod.Name, s.members))
		}
		if got := strings.Join(got, " "); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
	// More than 16 kinds have no prediction.
	for _, kinds := range []int{16, 17} {
		var pods []*v1.Pod
		for i := range 2 * kinds {
			pods = append(pods, build.Pod(build.Named(fmt.Sprint("m", i)), of("g"), build.Container(fmt.Sprintf("cpu=%dm", 100+i%kinds))))
		}
		if got := len(c.attemptOf(c.work(podGroup("g", 1, 0), pods...)).sorts()); got != kinds%17 {
			t.Errorf("%d sorts of %d kinds", got, kinds)
		}
	}
}

// TestForeseesSeveralKinds has members of several kinds behind pods of lower priority.
// The result is predicted for a few kinds without a feasible node. It is unknown for too
// many kinds.
func TestForeseesSeveralKinds(t *testing.T) {
	c := newGangCluster(t, 1, build.Node("n", build.Allocatable("cpu=4 pods=110")), build.Pod(build.Named("low"), build.NodeName("n"), build.Container("cpu=4"), priority(1)))
	gang := func(least, kinds int) turn {
		var pods []*v1.Pod
		for i := range kinds {
			pods = append(pods, build.Pod(build.Named(fmt.Sprint("m", i)), of("g"), priority(100), build.Container(fmt.Sprintf("cpu=%dm", least+i))))
		}
		return c.work(podGroup("g", int32(kinds), 100), pods...)
	}
	a := c.attemptOf(gang(5000, 2))
	a.count()
	if short, known := a.foresee(a.lowerPods(c.state.View()).takeOff); known != foreseen || short != "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining" {
		t.Errorf("of two kinds without a node %q is foreseen: %d", short, known)
	}
	d := decided(c.state, c.engine, gang(100, maxForeseen+1), nil)
	if want := "found a placement for podgroup, preempting 1 victims"; !strings.HasSuffix(d.Message, want) {
		t.Errorf("of many kinds that find room: %s, want %s", d.Message, want)
	}
	missing := gang(100, 2)
	missing.Pods = missing.Pods[:1]
	d = decided(c.state, c.engine, missing, nil)
	if want := preemptionPrefix + "pod group is unschedulable, minCount (2) cannot be satisfied: 0 scheduled, 1 remaining"; !strings.HasSuffix(d.Message, want) {
		t.Errorf("a member is missing: %s, want %s", d.Message, want)
	}
}

// TestForeseesNothingOfNoPlacements has a group that must be in one domain of a key that
// no node has, and a pod of lower priority.
func TestForeseesNothingOfNoPlacements(t *testing.T) {
	p := profileWith(t, 1, 1)
	c := racksOf(1, 1, 1, "row")
	c.pods = append(c.pods, build.Pod(build.Named("low"), build.NodeName("n0000"), priority(-1)))
	d := decided(c.state(anyNode), newEngine(t, p), c.work(p), nil)
	if want := "no feasible placements found, pod group preemption: no feasible placements found"; d.Message != want {
		t.Errorf("%s, want %s", d.Message, want)
	}
}

// TestWorkOfHopelessGroups has a group of high priority that preemption cannot help. With
// any number of pods of lower priority, an attempt visits each node a few times, and
// moves no pod.
func TestWorkOfHopelessGroups(t *testing.T) {
	const nodes = 300
	work := func(perNode int) (looks int64, allocations float64) {
		c := newGangCluster(t, 1)
		var objects []runtime.Object
		for i := range nodes {
			name := fmt.Sprint("n", i)
			objects = append(objects, build.Node(name, build.Allocatable("cpu=6 pods=110")), build.Pod(build.Named("stays-"+name), build.NodeName(name), build.Container("cpu=1"), priority(100)))
			for j := range perNode {
				objects = append(objects, build.Pod(build.Named(fmt.Sprint("p", i, "-", j)), build.NodeName(name), build.Container("cpu=100m"), priority(int32(j%3))))
			}
		}
		plugintest.Set(c.state, objects...)
		var members []*v1.Pod
		for i := range 8 {
			members = append(members, build.Pod(build.Named(fmt.Sprint("m", i)), of("g"), priority(100), build.Container("cpu=6")))
		}
		of := c.work(podGroup("g", 8, 100), members...)
		attempt := func() {
			d := decided(c.state, c.engine, of, nil)
			if want := preemptionPrefix + "minCount (8) cannot be satisfied: 0 scheduled, 7 remaining"; !strings.HasSuffix(d.Message, want) {
				t.Fatalf("got  %s\nwant it to end with %s", d.Message, want)
			}
		}
		attempt()
		version, before := c.state.Version(), c.engine.Counters()
		attempt()
		after := c.engine.Counters()
		if c.state.Version() != version {
			t.Errorf("beside %d pods a node, an attempt has changed nodes %d times", perNode, c.state.Version()-version)
		}
		return after.Asked - before.Asked + after.Visited - before.Visited, testing.AllocsPerRun(5, attempt)
	}
	few, allocations := work(2)
	if most := int64(3 * nodes); few > most {
		t.Errorf("%d nodes were looked at, at most %d are enough", few, most)
	}
	if many, also := work(40); many != few || also > allocations+10 {
		t.Errorf("%d nodes were looked at and %.0f objects made beside 2 pods of lower priority on each node, %d and %.0f beside 40", few, allocations, many, also)
	}
}
