package gang

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// branch is a group of a tree, with the groups below it.
type branch struct {
	name string
	key  string // of its topology, empty for none
	// min is minCount of a PodGroup, minGroupCount of a composite group.
	min     int
	members []*v1.Pod // of a PodGroup
	below   []*branch // of a composite group
}

// forest is a cluster with a tree of groups whose members are pending.
type forest struct {
	cluster
	root *branch
}

// randomForest returns a small cluster and a tree of two or three levels. Racks do not
// keep to zones.
func randomForest(r *rand.Rand) *forest {
	f := &forest{}
	for i := range 3 + r.IntN(8) {
		options := []build.NodeOption{build.Allocatable(fmt.Sprintf("cpu=%d memory=%dGi pods=%d", 1+r.IntN(4), 1+r.IntN(8), 1+r.IntN(5)))}
		if r.IntN(8) > 0 {
			options = append(options, build.NodeLabels(fmt.Sprintf("rack=r%d zone=z%d", r.IntN(3), r.IntN(2))))
		}
		f.nodes = append(f.nodes, build.Node(fmt.Sprint("n", i), options...))
	}
	for i := range r.IntN(6) {
		on := f.nodes[r.IntN(len(f.nodes))].Name
		f.pods = append(f.pods, build.Pod(build.Named(fmt.Sprint("on", i)), build.NodeName(on), build.Container(fmt.Sprintf("cpu=%dm memory=%dMi", 100*r.IntN(12), 100*r.IntN(20)))))
	}
	groups := 0
	var grow func(level int) *branch
	grow = func(level int) *branch {
		b := &branch{name: fmt.Sprint("b", groups), key: []string{"", "rack", "zone"}[r.IntN(3)]}
		if r.IntN(12) == 0 {
			b.key = "row" // which no node has
		}
		groups++
		if level == 2 || level == 1 && r.IntN(2) == 0 {
			for i := range 1 + r.IntN(3) {
				m := newMember(fmt.Sprint(b.name, "-", i), build.Container(fmt.Sprintf("cpu=%dm memory=%dMi", 200*r.IntN(8), 200*r.IntN(12))))
				m.Spec.SchedulingGroup.PodGroupName = &b.name
				b.members = append(b.members, m)
			}
			b.min = 1 + r.IntN(len(b.members)+r.IntN(2))
			return b
		}
		for range 1 + r.IntN(3) {
			b.below = append(b.below, grow(level+1))
		}
		b.min = 1 + r.IntN(len(b.below)+r.IntN(2))
		return b
	}
	f.root = grow(0)
	return f
}

// tree returns the branch and all below it in the state's form.
func (b *branch) tree() *model.GroupTree {
	if b.members != nil {
		g := newGroup(int32(b.min), b.key)
		g.Name = b.name
		return model.TreeOf(model.NewPodGroup(g))
	}
	c := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: b.name}}
	c.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: int32(b.min)}
	if b.key != "" {
		c.Spec.SchedulingConstraints = &schedulingv1alpha3.CompositePodGroupSchedulingConstraints{Topology: []schedulingv1alpha3.TopologyConstraint{{Key: b.key}}}
	}
	t := &model.GroupTree{Composite: model.NewCompositeGroup(c)}
	for _, below := range b.below {
		t.Below = append(t.Below, below.tree())
	}
	return t
}

// each calls do with the branch and all below it.
func (b *branch) each(do func(*branch)) {
	do(b)
	for _, below := range b.below {
		below.each(do)
	}
}

// work returns the pending members, alternating between groups.
func (f *forest) work(p *plugin.Profile) turn {
	tree := f.root.tree()
	work := turn{Tree: tree, Group: tree.Root()}
	for i := range 3 {
		f.root.each(func(b *branch) {
			if i < len(b.members) {
				pod := model.NewPod(b.members[i])
				p.Compile(pod)
				work.Pods = append(work.Pods, plan.QueuedPod{Pod: pod})
			}
		})
	}
	return work
}

// answer is the result for a branch.
type answer struct {
	tried bool
	short string            // why it failed
	nodes map[string]string // of all members in and below it, by name
	below []*answer
}

// plainForest is the search as documented: each placement separately as a cluster of its
// own, each group after the groups created before it.
type plainForest struct {
	*forest
	profile    *plugin.Profile
	fit, count int64
}

// try returns the result for a branch among some nodes, with other members already
// placed.
func (s *plainForest) try(t testing.TB, b *branch, in []*v1.Node, there map[string]string) *answer {
	type placement struct {
		name  string
		nodes []*v1.Node
	}
	placements := []*placement{{nodes: in}}
	divides := s.profile.Placements != nil
	if !divides && b.members != nil {
		return s.tryIn(t, b, in, there)
	}
	if divides && b.key != "" {
		placements = nil
		for _, n := range in {
			value, ok := n.Labels[b.key]
			if !ok {
				continue
			}
			at := slices.IndexFunc(placements, func(p *placement) bool { return p.name == value })
			if at < 0 {
				at, placements = len(placements), append(placements, &placement{name: value})
			}
			placements[at].nodes = append(placements[at].nodes, n)
		}
		slices.SortFunc(placements, func(x, y *placement) int { return cmp.Compare(x.name, y.name) })
	}
	if len(placements) == 0 {
		return &answer{tried: true, short: "no feasible placements found", below: make([]*answer, len(b.below))}
	}
	var answers []*answer
	most := 0
	for _, p := range placements {
		one := s.tryIn(t, b, p.nodes, there)
		if answers = append(answers, one); one.short == "" {
			most = max(most, len(one.nodes))
		}
	}
	tie := newEngine(t, s.profile)
	best, total := -1, int64(0)
	for i, one := range answers {
		if one.short != "" {
			continue
		}
		own := s.count*int64(100*len(one.nodes)/most) + s.fit*s.fullness(placements[i].nodes, there, one.nodes)
		if best < 0 || own > total || own == total && tie.Tie("default/"+b.name, placements[i].name) > tie.Tie("default/"+b.name, placements[best].name) {
			best, total = i, own
		}
	}
	if best >= 0 {
		return answers[best]
	}
	first := answers[0]
	status := first.short
	if strings.HasPrefix(status, "pod group is unschedulable") {
		status = "pod group is unschedulable"
	}
	first.short = fmt.Sprintf("pod group is unschedulable, 0/%d placements are available, first placement status: %s", len(placements), status)
	return first
}

// at returns pods on the nodes that they have found.
func (s *plainForest) at(places ...map[string]string) (pods []*v1.Pod) {
	s.root.each(func(b *branch) {
		for _, m := range b.members {
			for _, place := range places {
				if node, ok := place[m.Name]; ok {
					on := m.DeepCopy()
					on.Spec.NodeName = node
					pods = append(pods, on)
				}
			}
		}
	})
	return pods
}

// fullness is the score of NodeResourcesFit for a placement: the requested share of its
// CPU and memory, in percent.
func (s *plainForest) fullness(in []*v1.Node, there, found map[string]string) int64 {
	var all, used [2]int64 // CPU and memory
	c := s.cluster
	c.pods = append(slices.Clip(c.pods), s.at(there, found)...)
	st := c.state(func(n *v1.Node) bool { return slices.Contains(in, n) })
	for slot, alive := range st.Alive() {
		if alive {
			n := st.Node(int32(slot))
			cpuMilli, memoryBytes := n.NonZeroUsed()
			all[0], all[1] = all[0]+n.Allocatable().CPUMilli, all[1]+n.Allocatable().MemoryBytes
			used[0], used[1] = used[0]+cpuMilli, used[1]+memoryBytes
		}
	}
	return (100*min(used[0], all[0])/all[0] + 100*min(used[1], all[1])/all[1]) / 2
}

// tryIn is try in one placement.
func (s *plainForest) tryIn(t testing.TB, b *branch, in []*v1.Node, there map[string]string) *answer {
	a := &answer{tried: true, nodes: map[string]string{}, below: make([]*answer, len(b.below))}
	if b.members == nil {
		done := 0
		for i, below := range b.below {
			a.below[i] = &answer{below: make([]*answer, len(below.below))}
		}
		left := len(b.below)
		for i, below := range b.below {
			if done+left < b.min {
				break
			}
			taken := maps.Clone(there)
			maps.Copy(taken, a.nodes)
			one := s.try(t, below, in, taken)
			a.below[i] = one
			if left--; one.short == "" {
				done++
				maps.Copy(a.nodes, one.nodes)
			}
		}
		if done < b.min {
			a.short = fmt.Sprintf("minCount (%d) cannot be satisfied: %d scheduled, %d remaining", b.min, done, left)
		}
		return a
	}
	c := s.cluster
	c.pods = append(slices.Clip(c.pods), s.at(there)...)
	st := c.state(func(n *v1.Node) bool { return slices.Contains(in, n) })
	e := newEngine(t, s.profile)
	have, remaining := 0, len(b.members)
	if remaining < b.min {
		a.short = "pod group is unschedulable"
		if s.profile.Placements == nil {
			a.short += fmt.Sprintf(", minCount (%d) cannot be satisfied: 0 scheduled, %d remaining", b.min, remaining)
		}
		return a
	}
	for _, m := range b.members {
		pod := model.NewPod(m)
		s.profile.Compile(pod)
		d := e.Decide(st.View(), plan.Alone(pod))
		if remaining--; d.Outcome == plan.Placed {
			st.Assume(d.Placement)
			a.nodes[m.Name] = d.Placement.NodeName
			have++
		}
		if have+remaining < b.min {
			a.short = fmt.Sprintf("minCount (%d) cannot be satisfied: %d scheduled, %d remaining", b.min, have, remaining)
			return a
		}
	}
	return a
}

// tell writes the result for each PodGroup. failed is the reason of the lowest failed
// group above it, if any.
func (a *answer) tell(b *branch, failed string, lines *[]string) {
	if a == nil {
		a = &answer{below: make([]*answer, len(b.below))}
	}
	if a.tried && a.short != "" {
		failed = a.short
	}
	if b.members != nil {
		if failed != "" {
			*lines = append(*lines, b.name+" unschedulable: "+failed)
			return
		}
		*lines = append(*lines, fmt.Sprint(b.name, " placed: ", a.nodes))
	}
	for i, below := range b.below {
		a.below[i].tell(below, failed, lines)
	}
}

// TestTreesAgreeWithThePlainSearch compares the result for each group of a tree with the
// plain search, in random clusters: with and without stored decisions for the best
// placement, and without domain placements.
func TestTreesAgreeWithThePlainSearch(t *testing.T) {
	seen := map[string]int{}
	for i := range build.Sized(400) {
		r := rand.New(rand.NewPCG(uint64(i), 2))
		f, fit, count := randomForest(r), 1+r.IntN(3), 1+r.IntN(3)
		p := profileWith(t, fit, count)
		if i%4 == 0 {
			p.Placements = nil
		}
		plain := &plainForest{f, p, int64(fit), int64(count)}
		result := plain.try(t, f.root, f.nodes, map[string]string{})
		var want []string
		if result.short != "" {
			want = append(want, "unschedulable: "+result.short)
		} else {
			want = append(want, "placed")
		}
		result.tell(f.root, "", &want)
		for _, kept := range []int{maxKept, 0} {
			s := f.state(anyNode)
			d := decidedKeeping(kept, s, newEngine(t, p), f.work(p))
			message, _, _ := strings.Cut(d.Message, ", pod group preemption")
			got := []string{strings.TrimSuffix(fmt.Sprint(d.Outcome, ": ", message), ": ")}
			for at := range d.Below {
				got = append(got, d.Below[at].Group.Key.Name+" "+told(t, s, &d.Below[at]))
			}
			if t.Failed() || !slices.Equal(got, want) {
				t.Fatalf("forest %d, %d decisions kept:\n got %s\nwant %s", i, kept, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
			}
		}
		outcome, _, _ := strings.Cut(want[0], ": ")
		seen[outcome]++
		for _, line := range want[1:] {
			if outcome == "placed" && strings.Contains(line, "unschedulable") {
				seen["some groups of a tree"]++
				break
			}
		}
	}
	if seen["placed"] < 50 || seen["unschedulable"] < 50 || seen["some groups of a tree"] < 20 {
		t.Errorf("outcomes: %v", seen)
	}
}

// leafOf returns a PodGroup of equal members of 1 cpu.
func leafOf(name, key string, members, least int) *branch {
	b := &branch{name: name, key: key, min: least}
	for i := range members {
		m := newMember(fmt.Sprint(name, "-", i), build.Container("cpu=1"))
		m.Spec.SchedulingGroup.PodGroupName = &b.name
		b.members = append(b.members, m)
	}
	return b
}

// TestFurtherPassesOfTrees has trees of equal members that one pass does not place. If
// the order of turns matters, another order places them. If it does not, no other order
// is tried.
func TestFurtherPassesOfTrees(t *testing.T) {
	for _, row := range []struct {
		what  string
		nodes []string // their cpu, memory and rack
		root  *branch
		place string // members by group; empty if the tree finds no room
		runs  string // a group with a running member
		more  int64  // decisions in addition to those of the first pass; 0 for any number
	}{
		{"a group with more members than it needs", []string{"3 64Gi a"}, &branch{name: "root", min: 2, below: []*branch{leafOf("a", "", 3, 1), leafOf("b", "", 2, 2)}}, "a=1 b=2", "", 14},
		{"more groups than are needed", []string{"3 64Gi a"}, &branch{name: "root", min: 2, below: []*branch{
			{name: "x", min: 1, below: []*branch{leafOf("a", "", 2, 2), leafOf("b", "", 1, 1)}}, leafOf("c", "", 2, 2)}}, "b=1 c=2", "", 0},
		// one decision for each member alone, then the largest group first: each member
		// in each rack
		{"racks, of which the fuller one is taken first", []string{"2 300Mi a", "1 64Gi b"}, &branch{name: "root", min: 2, below: []*branch{leafOf("a", "rack", 1, 1), leafOf("b", "rack", 2, 2)}}, "a=1 b=2", "", 3 + 6},
		{"a group that runs, and would take the only room", []string{"1 64Gi a"}, &branch{name: "root", min: 2, below: []*branch{
			{name: "x", min: 1, below: []*branch{leafOf("a", "", 1, 1), {name: "b", min: 1, members: []*v1.Pod{}}}}, leafOf("c", "", 1, 1)}}, "c=1", "b", 0},
		{"one member of a group runs, and it needs one of two more", []string{"3 64Gi a"}, &branch{name: "root", min: 2, below: []*branch{leafOf("a", "", 2, 2), leafOf("b", "", 2, 2)}}, "a=1 b=2", "a", 0},
		{"all are needed, one of which runs", []string{"3 64Gi a"}, &branch{name: "root", min: 2, below: []*branch{leafOf("a", "", 2, 3), leafOf("b", "", 2, 2)}}, "", "a", 0},
		{"all are needed", []string{"4 64Gi a"}, &branch{name: "root", min: 2, below: []*branch{leafOf("a", "", 3, 3), leafOf("b", "", 2, 2)}}, "", "", 0},
	} {
		f := &forest{root: row.root}
		for i, text := range row.nodes {
			words := strings.Fields(text)
			f.nodes = append(f.nodes, build.Node(fmt.Sprint("n", i), build.NodeLabels("rack="+words[2]), build.Allocatable("cpu="+words[0]+" memory="+words[1]+" pods=9")))
		}
		if row.runs != "" {
			f.pods = append(f.pods, build.Pod(build.Named("runs"), build.NodeName("n0"), of(row.runs)))
		}
		p := profileWith(t, 1, 1)
		pass := func(retries int) (*plan.Attempt, int64) {
			e, err := engine.New(engine.Config{Profiles: []*plugin.Profile{p}, Seed: seed, GroupRetries: retries})
			if err != nil {
				t.Fatal(err)
			}
			s := f.state(anyNode)
			d := decided(s, e, f.work(p), nil)
			for at := range d.Below {
				told(t, s, &d.Below[at])
			}
			return &d, e.Counters().Decisions
		}
		if d, _ := pass(0); d.Outcome == plan.Placed {
			t.Errorf("%s: placed in one pass", row.what)
		}
		_, once := pass(0)
		d, all := pass(512)
		var placed []string
		for i := range d.Below {
			n := 0
			for at := range d.Below[i].Members {
				if d.Below[i].Members[at].Outcome == plan.Placed {
					n++
				}
			}
			if n > 0 {
				placed = append(placed, fmt.Sprint(d.Below[i].Group.Key.Name, "=", n))
			}
		}
		if got := strings.Join(placed, " "); got != row.place {
			t.Errorf("%s: placed %q, want %q", row.what, got, row.place)
		}
		if row.more > 0 && all-once != row.more {
			t.Errorf("%s: %d decisions besides those of the first pass, want %d", row.what, all-once, row.more)
		}
		if row.place == "" && all != once {
			t.Errorf("%s: %d decisions, %d in the first pass", row.what, all, once)
		}
	}
}

// TestTurns has groups of two, three, one and two members. In further passes the largest
// has its turn first, the smallest, the youngest, or any.
func TestTurns(t *testing.T) {
	f := &forest{root: &branch{name: "root", min: 1, below: []*branch{leafOf("a", "", 2, 1), leafOf("b", "", 3, 1), leafOf("c", "", 1, 1), leafOf("d", "", 2, 1)}}}
	p := profileWith(t, 1, 1)
	work := f.work(p)
	a := &attempt{Attempt: work.attempt(), engine: newEngine(t, p), tree: work.Tree}
	a.assign()
	turns := func(pass int) string {
		a.pass = pass
		names := ""
		for _, n := range a.newNode(a.tree, 0).turns {
			names += n.Key().Name
		}
		return names
	}
	largest, smallest, youngest := "badc", "cadb", "dcba"
	for pass, want := range []string{"abcd", largest, smallest, youngest, "", smallest, youngest, "", largest, youngest} {
		if got := turns(pass); want != "" && got != want {
			t.Errorf("pass %d: %s, want %s", pass, got, want)
		}
	}
	seen := map[string]bool{}
	for _, pass := range []int{4, 7, 10, 13} {
		got := turns(pass)
		if seen[got] = true; got != turns(pass) {
			t.Errorf("pass %d has two orders", pass)
		}
	}
	if len(seen) < 2 {
		t.Errorf("any order: %v", seen)
	}
}

// TestTreesWithoutTurn has trees in which no group has a turn, or an error ends it. Each
// group gets the result of the tree.
func TestTreesWithoutTurn(t *testing.T) {
	p := profileWith(t, 1, 1)
	for _, row := range []struct {
		what    string
		change  func(members []*v1.Pod)
		nodes   int
		outcome plan.Outcome
		want    string
	}{
		{"members that do not belong together", func(members []*v1.Pod) { priority(7)(members[2]) }, 1, plan.Failed,
			"all pods in a single pod group should have the same priority as the pod group's priority, got 7 and 0"},
		{"all are being deleted", func(members []*v1.Pod) {
			for _, m := range members {
				build.Terminating(m)
			}
		}, 1, plan.Terminating, ""},
		{"an error", func([]*v1.Pod) {}, 0, plan.Failed,
			"composite pod group evaluation failed due to child error: failed to schedule other pod from a pod group: no nodes available to schedule pods"},
	} {
		a, b := leafOf("a", "", 1, 1), leafOf("b", "", 2, 2)
		row.change(append(slices.Clone(a.members), b.members...))
		f := &forest{root: &branch{name: "root", min: 2, below: []*branch{a, b}}}
		for i := range row.nodes {
			f.nodes = append(f.nodes, build.Node(fmt.Sprint("n", i), build.Allocatable("cpu=9 memory=64Gi pods=9")))
		}
		d := decided(f.state(anyNode), newEngine(t, p), f.work(p), nil)
		if d.Outcome != row.outcome || d.Message != row.want || len(d.Below) != 2 {
			t.Errorf("%s: %s: %q, want %s: %q; %d groups", row.what, d.Outcome, d.Message, row.outcome, row.want, len(d.Below))
			continue
		}
		for i, members := range []int{1, 2} {
			if of := &d.Below[i]; of.Outcome != row.outcome || of.Message != row.want || len(of.Members) != members || of.Group.Key.Name != string(rune('a'+i)) {
				t.Errorf("%s: group %s of %d members: %s: %q", row.what, of.Group.Key.Name, len(of.Members), of.Outcome, of.Message)
			}
		}
	}
}

// TestTreesFail has plugins for domain placements fail in a tree in which a group has
// already found a node. No member is left on a node.
func TestTreesFail(t *testing.T) {
	for want, change := range map[string]func(*plugin.Profile){
		"no way": func(p *plugin.Profile) {
			p.Placements.Generate = plugintest.PartsOf(broken{"no way"}).PlacementGenerate
		},
		"composite pod group evaluation failed due to child error: no score": func(p *plugin.Profile) {
			p.Placements.Scores = append(p.Placements.Scores, plugin.WeightedPlacement{PlacementScore: plugintest.PartsOf(broken{"no score"}).PlacementScore, Weight: 1})
		},
	} {
		f := &forest{root: &branch{name: "root", min: 1, below: []*branch{leafOf("a", "", 1, 1), {name: "x", key: "rack", min: 1, below: []*branch{leafOf("b", "", 1, 1)}}}}}
		for i := range 2 {
			f.nodes = append(f.nodes, build.Node(fmt.Sprint("n", i), build.NodeLabels(fmt.Sprint("rack=r", i)), build.Allocatable("cpu=4 memory=64Gi pods=9")))
		}
		p := profileWith(t, 1, 1)
		change(p)
		s := f.state(anyNode)
		d := decided(s, newEngine(t, p), f.work(p), nil)
		if err := s.Audit(); d.Outcome != plan.Failed || d.Message != want || s.Assumed() > 0 || err != nil {
			t.Errorf("%s: %s, want %s; %d members are assumed: %v", d.Outcome, d.Message, want, s.Assumed(), err)
		}
	}
}

// TestTreeThatRunsAlready has a tree whose only group runs, with one more pending member
// that finds no node. No member is placed, so the tree and the group are rejected.
func TestTreeThatRunsAlready(t *testing.T) {
	for _, cpu := range []int{1, 2} {
		f := &forest{root: &branch{name: "root", min: 1, below: []*branch{leafOf("a", "", 1, 1)}}}
		f.nodes = append(f.nodes, build.Node("n", build.Allocatable(fmt.Sprintf("cpu=%d memory=64Gi pods=9", cpu))))
		f.pods = append(f.pods, build.Pod(build.Named("runs"), build.NodeName("n"), of("a"), build.Container("cpu=1")))
		p := profileWith(t, 1, 1)
		s := f.state(anyNode)
		d := decided(s, newEngine(t, p), f.work(p), nil)
		got, want := told(t, s, &d.Below[0]), "unschedulable: pod group is unschedulable"
		outcome := plan.Unschedulable
		if cpu == 2 {
			outcome, want = plan.Placed, "placed: map[a-0:n]"
		}
		if d.Outcome != outcome || got != want || strings.HasPrefix(d.Message, unschedulable+", pod group preemption: ") != (cpu == 1) {
			t.Errorf("%d cpu: the tree is %s: %q, the group %s, want %s", cpu, d.Outcome, d.Message, got, want)
		}
	}
}

// TestMembersOfAGroupThatFailsWithTheTree has room for one of two members of a group that
// needs one, and none for the next group. So the tree fails, and all members of the first
// group get this reason.
func TestMembersOfAGroupThatFailsWithTheTree(t *testing.T) {
	f := &forest{root: &branch{name: "root", min: 2, below: []*branch{leafOf("a", "", 2, 1), leafOf("b", "", 1, 1)}}}
	f.nodes = append(f.nodes, build.Node("n", build.Allocatable("cpu=1 memory=64Gi pods=9")))
	p := profileWith(t, 1, 1)
	d := decided(f.state(anyNode), newEngine(t, p), f.work(p), nil)
	want, _, _ := strings.Cut(d.Message, ", pod group preemption")
	for i := range d.Below[0].Members {
		if m := &d.Below[0].Members[i]; m.Outcome != plan.Unschedulable || report.Message(m) != want {
			t.Errorf("member %d is %s: %s, want %s", i, m.Outcome, report.Message(m), want)
		}
	}
}

// TestTreePreempts has a tree whose two groups fit when a pod of lower priority is
// evicted. The pod is evicted once, and each member is nominated with its own group.
func TestTreePreempts(t *testing.T) {
	f := &forest{root: &branch{name: "root", min: 2, below: []*branch{leafOf("a", "", 1, 1), leafOf("b", "", 2, 2)}}}
	for i := range 3 {
		f.nodes = append(f.nodes, build.Node(fmt.Sprint("n", i), build.Allocatable("cpu=1 memory=64Gi pods=9")))
	}
	f.pods = append(f.pods, build.Pod(build.Named("low"), build.NodeName("n1"), build.Container("cpu=1"), priority(-1)))
	p := profileWith(t, 1, 1)
	d := decided(f.state(anyNode), newEngine(t, p), f.work(p), nil)
	var evicted, nominated []string
	for i := range d.Below {
		for at := range d.Below[i].Members {
			m := &d.Below[i].Members[at]
			if len(m.Evictions) > 0 && (i > 0 || at > 0) {
				t.Errorf("member %d of group %d evicts pods", at, i)
			}
			for _, e := range m.Evictions {
				evicted = append(evicted, e.Pod.Name)
			}
			for _, n := range m.Nominations {
				if n.Mode != plan.Set || n.Pod != m.Pod {
					t.Errorf("%s: nomination %+v", m.Pod.Name, n)
				}
				nominated = append(nominated, n.NodeName)
			}
		}
		if d.Below[i].Outcome != plan.Unschedulable || !strings.Contains(d.Below[i].Message, "pod group preemption") {
			t.Errorf("%s: %s: %s", d.Below[i].Group.Key, d.Below[i].Outcome, d.Below[i].Message)
		}
	}
	slices.Sort(nominated)
	if !slices.Equal(evicted, []string{"low"}) || !slices.Equal(nominated, []string{"n0", "n1", "n2"}) {
		t.Errorf("evicted %q, nominated to %q; the tree: %s", evicted, nominated, d.Message)
	}
}

// TestTreePreemptsInVain has a tree whose members are too large for the node even without
// its pod of lower priority. The message about preemption is for the tree.
func TestTreePreemptsInVain(t *testing.T) {
	f := &forest{root: &branch{name: "root", min: 2, below: []*branch{leafOf("a", "", 1, 1), leafOf("b", "", 1, 1)}}}
	f.nodes = append(f.nodes, build.Node("n", build.Allocatable("cpu=500m memory=64Gi pods=9")))
	f.pods = append(f.pods, build.Pod(build.Named("low"), build.NodeName("n"), build.Container("cpu=500m"), priority(-1)))
	p := profileWith(t, 1, 1)
	d := decided(f.state(anyNode), newEngine(t, p), f.work(p), nil)
	short := noneOf(1, "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining")
	if want := short + ", " + preemptionPrefix + short; d.Message != want {
		t.Errorf("%s, want %s", d.Message, want)
	}
}
