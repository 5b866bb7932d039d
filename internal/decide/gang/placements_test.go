package gang

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/config/feature"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

const seed = 7

// profileWith returns the default profile with domain placements for groups, and these
// weights of NodeResourcesFit and PodGroupPodsCount.
func profileWith(t testing.TB, fit, count int) *plugin.Profile {
	t.Helper()
	gates, err := feature.With(map[string]bool{"GenericWorkload": true, "TopologyAwareWorkloadScheduling": true})
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {placementScore: {enabled: [{name: NodeResourcesFit, weight: %d}, {name: PodGroupPodsCount, weight: %d}]}}}]
`, fit, count)
	c, err := config.ParseWith("config", []byte(text), config.Request{Gates: gates})
	if err != nil {
		t.Fatal(err)
	}
	return c.Profiles[0]
}

func newEngine(t testing.TB, p *plugin.Profile) *engine.Engine {
	t.Helper()
	e, err := engine.New(engine.Config{Profiles: []*plugin.Profile{p}, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// cluster is nodes, pods on them, and a group with pending members.
type cluster struct {
	nodes   []*v1.Node
	pods    []*v1.Pod
	group   *schedulingv1beta1.PodGroup
	members []*v1.Pod
}

// state returns the cluster without the pending members. It has only the nodes for which
// some returns true, and the pods on them.
func (c *cluster) state(some func(*v1.Node) bool) *state.State {
	s := state.New()
	var changes []model.Change
	inside := map[string]bool{}
	for _, n := range c.nodes {
		if some(n) {
			inside[n.Name] = true
			changes = append(changes, model.Change{Kind: model.NodeSet, Node: model.NewNode(n)})
		}
	}
	for _, p := range c.pods {
		if inside[p.Spec.NodeName] {
			changes = append(changes, model.Change{Kind: model.PodSet, Pod: model.NewPod(p)})
		}
	}
	s.Apply(changes)
	return s
}

func anyNode(*v1.Node) bool { return true }

// work returns the pending members, compiled.
func (c *cluster) work(p *plugin.Profile) turn {
	work := turn{Group: model.NewPodGroup(c.group)}
	for _, object := range c.members {
		pod := model.NewPod(object)
		p.Compile(pod)
		work.Pods = append(work.Pods, plan.QueuedPod{Pod: pod})
	}
	return work
}

// turn is the turn of a group, which may be decided about several times.
type turn struct {
	Pods   []plan.QueuedPod
	Group  *model.PodGroup
	Tree   *model.GroupTree
	Rounds int
}

// attempt returns an attempt of the turn.
func (w *turn) attempt() *plan.Attempt {
	a := plan.ForGroup(w.Group, w.Tree, w.Pods)
	a.Rounds = w.Rounds
	return a
}

// decided returns an attempt of a turn after Decide.
func decided(s *state.State, e *engine.Engine, w turn, observer Observer) plan.Attempt {
	return decidedBy(Decide, s, e, w, observer)
}

func decidedBy(decide func(*state.State, *engine.Engine, *plan.Attempt, Observer), s *state.State, e *engine.Engine, w turn, observer Observer) plan.Attempt {
	a := w.attempt()
	decide(s, e, a, observer)
	return *a
}

// decidedKeeping is decided with a bound for the decisions that are kept.
func decidedKeeping(kept int, s *state.State, e *engine.Engine, w turn) plan.Attempt {
	a := w.attempt()
	decide(s, e, a, nil, nil, kept)
	return *a
}

func newGroup(minCount int32, key string) *schedulingv1beta1.PodGroup {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: "g", UID: "uid-g"}}
	g.Spec.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
	if minCount > 0 {
		g.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}}
	}
	if key != "" {
		g.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: key}}}
	}
	return g
}

func newMember(name string, options ...build.PodOption) *v1.Pod {
	p := build.Pod(append([]build.PodOption{build.Named(name)}, options...)...)
	p.UID, p.Spec.SchedulingGroup = types.UID(name), &v1.PodSchedulingGroup{PodGroupName: new("g")}
	return p
}

// random returns a small cluster: nodes in up to four racks or in none, pods on them,
// members on nodes of one or two racks, and pending members.
func random(r *rand.Rand) *cluster {
	c := &cluster{group: newGroup(r.Int32N(6), []string{"rack", "rack", "rack", ""}[r.IntN(4)])}
	racks := 1 + r.IntN(4)
	for i := range 2 + r.IntN(10) {
		options := []build.NodeOption{build.Allocatable(fmt.Sprintf("cpu=%d memory=%dGi pods=%d", 1+r.IntN(4), 1+r.IntN(8), 1+r.IntN(5)))}
		if rack := r.IntN(racks + 1); rack < racks {
			options = append(options, build.NodeLabels(fmt.Sprint("rack=r", rack)))
		}
		if r.IntN(8) == 0 {
			options = append(options, build.Unschedulable)
		}
		c.nodes = append(c.nodes, build.Node(fmt.Sprint("n", i), options...))
	}
	apart := r.IntN(10) == 0
	for i := range r.IntN(8) {
		on := c.nodes[r.IntN(len(c.nodes))]
		p := newMember(fmt.Sprint("on", i), build.NodeName(on.Name), build.Container(fmt.Sprintf("cpu=%dm memory=%dMi", 100*r.IntN(12), 100*r.IntN(20))))
		if r.IntN(3) > 0 || !apart && (len(c.pods) > 0 && c.pods[0].Spec.SchedulingGroup != nil && rackOf(c, c.pods[0]) != on.Labels["rack"]) {
			p.Spec.SchedulingGroup = nil
		}
		c.pods = append(c.pods, p)
	}
	for i := range 1 + r.IntN(6) {
		c.members = append(c.members, newMember(fmt.Sprint("m", i), build.Container(fmt.Sprintf("cpu=%dm memory=%dMi", 200*r.IntN(8), 200*r.IntN(12)))))
	}
	return c
}

func rackOf(c *cluster, p *v1.Pod) string {
	return c.nodes[slices.IndexFunc(c.nodes, func(n *v1.Node) bool { return n.Name == p.Spec.NodeName })].Labels["rack"]
}

// plainly is the search as documented: each rack separately as a cluster of its own, with
// the formulas written out. It returns the outcome, with the nodes of the members or the
// message before the part about preemption.
func plainly(t testing.TB, c *cluster, p *plugin.Profile, fit, count int64) string {
	t.Helper()
	type rack struct {
		name     string
		nodes    map[string]string // of members
		in       []*v1.Node
		short    string
		members  int64
		fullness int64
		total    int64
	}
	var racks []*rack
	scheduled := map[string]bool{}
	bare := ""
	before := 0
	for _, pod := range c.pods {
		if pod.Spec.SchedulingGroup == nil {
			continue
		}
		before++
		name := rackOf(c, pod)
		if name == "" && bare == "" {
			bare = pod.Name
		}
		scheduled[name] = true
	}
	if c.group.Spec.SchedulingConstraints == nil {
		racks = append(racks, &rack{in: c.nodes})
	} else {
		byName := map[string]*rack{}
		for _, n := range c.nodes {
			name, ok := n.Labels["rack"]
			if !ok || len(scheduled) > 0 && !scheduled[name] {
				continue
			}
			if byName[name] == nil {
				byName[name] = &rack{name: name}
				racks = append(racks, byName[name])
			}
			byName[name].in = append(byName[name].in, n)
		}
		slices.SortFunc(racks, func(a, b *rack) int { return cmp.Compare(a.name, b.name) })
		const apart = "failed: cannot determine domain for already scheduled pods: "
		switch {
		case bare != "":
			return apart + "no topology domain found for pod default/" + bare
		case len(racks) > 1 && len(scheduled) > 1:
			return apart + "more than 1 domain found for pod group: " + racks[0].name + ", " + racks[1].name
		case len(racks) == 0:
			return "unschedulable: no feasible placements found"
		}
	}
	for _, r := range racks {
		r.nodes = map[string]string{}
		s := c.state(func(n *v1.Node) bool { return slices.Contains(r.in, n) })
		e := newEngine(t, p)
		work := c.work(p)
		need, have, remaining := work.Group.MinCount, before, len(work.Pods)
		if have+remaining < need {
			r.short = "pod group is unschedulable"
			continue
		}
		var all [2]int64 // cpu and memory
		for _, n := range r.in {
			m := model.NewNode(n)
			all[0], all[1] = all[0]+m.Allocatable.CPUMilli, all[1]+m.Allocatable.MemoryBytes
		}
		for i, queued := range work.Pods {
			d := e.Decide(s.View(), plan.Member{QueuedPod: work.Pods[i], Group: work.Group})
			remaining--
			if d.Outcome == plan.Placed {
				s.Assume(d.Placement)
				r.nodes[queued.Pod.Name] = d.Placement.NodeName
				have++
			}
			if have+remaining < need {
				r.short = fmt.Sprintf("minCount (%d) cannot be satisfied: %d scheduled, %d remaining", need, have, remaining)
				break
			}
		}
		if r.short == "" && len(r.nodes) == 0 {
			r.short = "pod group is unschedulable"
		}
		used := [2]int64{}
		for slot, alive := range s.Alive() {
			if alive {
				cpuMilli, memoryBytes := s.Node(int32(slot)).NonZeroUsed()
				used[0], used[1] = used[0]+cpuMilli, used[1]+memoryBytes
			}
		}
		r.members = int64(before + len(r.nodes))
		r.fullness = (100*min(used[0], all[0])/all[0] + 100*min(used[1], all[1])/all[1]) / 2
	}
	var best *rack
	most, feasible := int64(0), 0
	for _, r := range racks {
		if r.short == "" {
			feasible++
			most = max(most, r.members)
		}
	}
	if feasible == 0 {
		return fmt.Sprintf("unschedulable: pod group is unschedulable, 0/%d placements are available, first placement status: %s", len(racks), racks[0].short)
	}
	tie := newEngine(t, p)
	for _, r := range racks {
		if r.short != "" {
			continue
		}
		r.total = count*(100*r.members/most) + fit*r.fullness
		if best == nil || r.total > best.total || r.total == best.total && tie.Tie("default/g", r.name) > tie.Tie("default/g", best.name) {
			best = r
		}
	}
	return "placed: " + fmt.Sprint(best.nodes)
}

// told writes a decision in the format of plainly, and checks that the state agrees with
// its placements.
func told(t testing.TB, s *state.State, d *plan.Attempt) string {
	t.Helper()
	nodes := map[string]string{}
	for i := range d.Members {
		m := &d.Members[i]
		pod := m.Pod
		assumed := ""
		for on := range s.View().GroupMembers(d.Group.Key) {
			if on.UID == pod.UID {
				assumed = on.NodeName
			}
		}
		if (m.Outcome == plan.Placed) != (m.Placement.Pod != nil) || m.Outcome == plan.Undecided {
			t.Errorf("member %s is %s, on %q", pod, m.Outcome, m.Placement.NodeName)
		} else if m.Outcome == plan.Placed {
			nodes[pod.Name] = m.Placement.NodeName
		}
		if nodes[pod.Name] != assumed {
			t.Errorf("member %s is assumed on %q; its placement has %q", pod, assumed, nodes[pod.Name])
		}
	}
	if err := s.Audit(); err != nil {
		t.Error(err)
	}
	if d.Outcome == plan.Placed {
		return "placed: " + fmt.Sprint(nodes)
	}
	message, _, _ := strings.Cut(d.Message, ", pod group preemption")
	return fmt.Sprint(d.Outcome, ": ", message)
}

// TestAgreesWithThePlainSearch compares the choice among domain placements with the plain
// search, in random clusters, with and without stored decisions for the best.
func TestAgreesWithThePlainSearch(t *testing.T) {
	seen := map[string]int{}
	for i := range build.Sized(600) {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		c, fit, count := random(r), 1+r.IntN(3), 1+r.IntN(3)
		p := profileWith(t, fit, count)
		want := plainly(t, c, p, int64(fit), int64(count))
		for _, kept := range []int{maxKept, 0} {
			s := c.state(anyNode)
			d := decidedKeeping(kept, s, newEngine(t, p), c.work(p))
			if got := told(t, s, &d); got != want {
				t.Fatalf("cluster %d, %d decisions kept:\n got %s\nwant %s", i, kept, got, want)
			}
		}
		outcome, _, _ := strings.Cut(want, ": ")
		seen[outcome]++
	}
	if seen["placed"] < 20 || seen["unschedulable"] < 20 || seen["failed"] == 0 {
		t.Errorf("outcomes: %v", seen)
	}
}

// racksOf returns a cluster of equal nodes in racks, and a gang. Each member fills a
// node.
func racksOf(racks, nodes, members int, key string) *cluster {
	c := &cluster{group: newGroup(int32(members), key)}
	for i := range racks * nodes {
		c.nodes = append(c.nodes, build.Node(fmt.Sprintf("n%04d", i), build.NodeLabels(fmt.Sprintf("rack=r%03d", i%racks)), build.Allocatable("cpu=4 memory=8Gi pods=9")))
	}
	for i := range members {
		c.members = append(c.members, newMember(fmt.Sprint("m", i), build.Container("cpu=4")))
	}
	return c
}

// TestWorkOfPlacements counts the cost of domain placements: each visits only its own
// nodes, and no column is filled again.
func TestWorkOfPlacements(t *testing.T) {
	const nodes, members = 12, 5
	p := profileWith(t, 1, 1)
	worked := func(racks int, key string) engine.Counters {
		c := racksOf(racks, nodes*12/racks, members, key)
		s, e := c.state(anyNode), newEngine(t, p)
		if d := decided(s, e, c.work(p), nil); d.Outcome != plan.Placed {
			t.Fatalf("%d racks: %s", racks, d.Message)
		}
		return e.Counters()
	}
	none := worked(12, "")
	if none.Visited != nodes*12*members {
		t.Errorf("without a key %d slots were visited, want %d", none.Visited, nodes*12*members)
	}
	for _, racks := range []int{3, 12, 24} {
		got := worked(racks, "rack")
		if got.Visited != none.Visited {
			t.Errorf("%d racks: %d slots were visited, want %d", racks, got.Visited, none.Visited)
		}
		if got.Filled != none.Filled {
			t.Errorf("%d racks: %d columns were filled, want %d", racks, got.Filled, none.Filled)
		}
		// Fit filters; Fit and Balanced score: each is called again for the node of a new
		// member, and once more after the member is gone.
		if most := none.Asked + int64(3*2*members*racks); got.Asked > most {
			t.Errorf("%d racks: plugins were asked about %d nodes, want %d at most", racks, got.Asked, most)
		}
	}
}

// TestFewDecisionsAreKept: beyond a number of decisions, only the best domain placement
// is tried once more.
func TestFewDecisionsAreKept(t *testing.T) {
	const racks, nodes, members = 4, 6, 5
	p := profileWith(t, 1, 1)
	for kept, visited := range map[int]int64{racks * members: racks, racks*members - 1: racks, members - 1: racks + 1} {
		c := racksOf(racks, nodes, members, "rack")
		s, e := c.state(anyNode), newEngine(t, p)
		d := decidedKeeping(kept, s, e, c.work(p))
		if got := e.Counters().Visited; d.Outcome != plan.Placed || got != visited*nodes*members && kept != racks*members-1 || got > (racks+1)*nodes*members {
			t.Errorf("%d kept: %s, %d slots were visited, want %d", kept, d.Outcome, got, visited*nodes*members)
		}
	}
}

// TestOnlyWhatIsNotKeptIsTriedAgain counts the decisions about groups, alone and below a
// composite group. Only the first of two racks has room. It is tried once, unless fewer
// decisions may be kept than members exist. Without domain placements nothing needs to be
// kept.
func TestOnlyWhatIsNotKeptIsTriedAgain(t *testing.T) {
	const members = 3
	p := profileWith(t, 1, 1)
	for _, row := range []struct {
		key   string
		kept  int
		again int64
	}{{"rack", members, 0}, {"rack", members - 1, members}, {"", 0, 0}} {
		c := racksOf(2, 3, members, row.key)
		c.nodes = c.nodes[:5] // the second rack has two
		before := leafOf("before", "", 1, 1)
		before.members[0].Spec.Containers = nil
		f := &forest{cluster: *c, root: &branch{name: "root", min: 2, below: []*branch{before, {name: "divided", key: row.key, min: 1, below: []*branch{{name: "g", min: members, members: c.members}}}}}}
		for what, of := range map[string]func() (*state.State, turn){
			"a group": func() (*state.State, turn) { return c.state(anyNode), c.work(p) },
			"a tree":  func() (*state.State, turn) { return f.state(anyNode), f.work(p) },
		} {
			decisions := func(kept int) int64 {
				s, work := of()
				e := newEngine(t, p)
				if d := decidedKeeping(kept, s, e, work); d.Outcome != plan.Placed || s.Assumed() != len(d.Members) {
					t.Fatalf("%s: %s, with %d members assumed", what, d.Message, s.Assumed())
				}
				return e.Counters().Decisions
			}
			if again := decisions(row.kept) - decisions(maxKept); again != row.again {
				t.Errorf("%s with key %q, %d kept: %d more decisions, want %d", what, row.key, row.kept, again, row.again)
			}
		}
	}
}

// TestMembersAreToldOfTheFirstPlacement has two racks without room, each for a reason of
// its own. Members get the reasons of the first, alone and below a composite group.
func TestMembersAreToldOfTheFirstPlacement(t *testing.T) {
	p := profileWith(t, 1, 1)
	c := racksOf(2, 2, 2, "rack")
	for i, n := range c.nodes {
		if i%2 == 0 {
			build.Allocatable("cpu=1 memory=8Gi pods=9")(n)
		} else {
			build.Unschedulable(n)
		}
	}
	const want = "0/2 nodes are available: 2 Insufficient cpu."
	check := func(d *plan.Attempt) {
		t.Helper()
		if m := &d.Members[0]; d.Outcome != plan.Unschedulable || report.Message(m) != want {
			t.Errorf("the group is %s: %s; its first member %s, want %s", d.Outcome, d.Message, report.Message(m), want)
		}
	}
	d := decided(c.state(anyNode), newEngine(t, p), c.work(p), nil)
	check(&d)
	f := &forest{cluster: *c, root: &branch{name: "root", key: "rack", min: 1, below: []*branch{{name: "g", min: 2, members: c.members}}}}
	d = decided(f.state(anyNode), newEngine(t, p), f.work(p), nil)
	check(&d.Below[0])
}

// noted records the calls of an Observer.
type noted []string

func (n *noted) Generated(placements int) { *n = append(*n, fmt.Sprint(placements, " generated")) }
func (n *noted) Evaluated(feasible bool)  { *n = append(*n, fmt.Sprint("feasible: ", feasible)) }

// TestObserver: the observer receives each domain placement in order, and no call without
// any.
func TestObserver(t *testing.T) {
	p := profileWith(t, 1, 1)
	for _, row := range []struct {
		key  string
		want []string
	}{
		{"rack", []string{"2 generated", "feasible: false", "feasible: true"}},
		{"", []string{"1 generated", "feasible: true"}},
		{"row", nil},
	} {
		c := racksOf(2, 2, 2, row.key)
		c.nodes[0].Spec.Unschedulable = true
		var calls noted
		decided(c.state(anyNode), newEngine(t, p), c.work(p), &calls)
		if !slices.Equal(calls, row.want) {
			t.Errorf("key %q: %q, want %q", row.key, calls, row.want)
		}
	}
}

// broken is a PlacementGenerate and PlacementScore plugin that fails.
type broken struct{ text string }

func (broken) Name() string { return "Broken" }
func (b broken) GeneratePlacements(state.View, *model.GroupTree, *state.Restriction) ([]plugin.DomainPlacement, error) {
	return nil, fmt.Errorf("%s", b.text)
}
func (b broken) ScorePlacements(state.View, *model.GroupTree, []plugin.Proposal, []int64) error {
	return fmt.Errorf("%s", b.text)
}

// failing is a filter that fails in the turn of each pod.
type failing struct{}

func (failing) Name() string { return "Failing" }
func (failing) FilterNeedIn(state.View, *model.Pod) (plugin.StateNeed, error) {
	return plugin.StateNeed{}, fmt.Errorf("no need")
}
func (failing) FilterReads() model.Aspect { return 0 }

// stuck is a PostFilter plugin that fails to release resources for a group.
type stuck struct{}

func (stuck) Name() string { return "Stuck" }
func (stuck) PostFilter(plugin.Cycle, *model.Pod) (plugin.PostFilterResult, error) {
	return plugin.PostFilterResult{}, nil
}
func (stuck) ConcernsGroup(state.View, *model.Pod) bool        { return false }
func (stuck) Member(plugin.Cycle, *model.Pod) plugin.GroupNote { return nil }
func (stuck) FreeForGroup(state.View, *model.PodGroup, *model.Pod, []plugin.GroupNote) (plugin.GroupFreed, error) {
	return plugin.GroupFreed{}, fmt.Errorf("nothing is given back")
}

// TestPlacementsFail: an error of any plugin ends the attempt, and no member is left on a
// node.
func TestPlacementsFail(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*plugin.Profile)
		want   string
	}{
		{"generate", func(p *plugin.Profile) {
			p.Placements.Generate = plugintest.PartsOf(broken{"no way"}).PlacementGenerate
		}, "failed: no way"},
		{"score", func(p *plugin.Profile) {
			p.Placements.Scores = append(p.Placements.Scores, plugin.WeightedPlacement{PlacementScore: plugintest.PartsOf(broken{"no score"}).PlacementScore, Weight: 1})
		}, "failed: no score"},
		{"no score plugins", func(p *plugin.Profile) { p.Placements.Scores = nil }, "placed: "},
		{"no generator", func(p *plugin.Profile) { p.Placements.Generate = nil }, "placed: "},
		{"freeing", func(p *plugin.Profile) {
			p.Placements, p.PostFilters = nil, []*plugin.PostFilter{plugintest.PartsOf(stuck{}).PostFilter}
		}, `failed: error in "Stuck" PodGroupPostFilter plugins: nothing is given back`},
		{"a member", func(p *plugin.Profile) { p.Filters = append(p.Filters, plugintest.Filters(failing{})...) },
			`failed: failed to schedule other pod from a pod group: running PreFilter plugin "Failing": no need`},
	} {
		p := profileWith(t, 1, 1)
		row.change(p)
		c := racksOf(3, 2, 2, "rack")
		if row.name == "freeing" { // one member too many
			c = racksOf(1, 1, 2, "")
		}
		s := c.state(anyNode)
		d := decided(s, newEngine(t, p), c.work(p), nil)
		if got := told(t, s, &d); got != row.want && !(d.Outcome == plan.Placed && strings.HasPrefix(got, row.want)) {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
		for i := range d.Members {
			m := &d.Members[i]
			if m.Outcome != d.Outcome {
				t.Errorf("%s: member %d is %s", row.name, i, m.Outcome)
			}
			// the error belongs to no single placement
			if row.name == "score" && m.Feasible != 0 {
				t.Errorf("%s: member %d has %d feasible nodes", row.name, i, m.Feasible)
			}
			want := d.Message
			if row.name == "a member" && i == 0 { // the failed member keeps its own error
				_, want, _ = strings.Cut(want, ": ")
			}
			if m.Outcome == plan.Failed && m.Err.Error() != want {
				t.Errorf("%s: the error of member %d is %q, want %q", row.name, i, m.Err, want)
			}
		}
	}
}

// TestTies places groups among equal racks. The hash decides, so each rack is chosen for
// some group, and always the same rack for the same group.
func TestTies(t *testing.T) {
	p := profileWith(t, 1, 1)
	e := newEngine(t, p)
	taken := map[string]int{}
	for i := range 60 {
		c := racksOf(3, 2, 2, "rack")
		c.group.Name = fmt.Sprint("g", i)
		for _, m := range c.members {
			m.Spec.SchedulingGroup.PodGroupName = &c.group.Name
		}
		s := c.state(anyNode)
		d := decided(s, e, c.work(p), nil)
		slot, _ := s.Slot(d.Members[0].Placement.NodeName)
		rack := s.Node(slot).Object().Labels["rack"]
		taken[rack]++
		for _, other := range []string{"r000", "r001", "r002"} {
			if of := "default/" + c.group.Name; e.Tie(of, other) > e.Tie(of, rack) {
				t.Errorf("group %d is in %s, the number of %s is higher", i, rack, other)
			}
		}
	}
	if len(taken) != 3 {
		t.Errorf("taken were %v", taken)
	}
}
