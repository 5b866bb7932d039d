package loop_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/config/feature"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/queue"
)

// grouping is a scheduler with the gate GenericWorkload. The test carries out its
// decisions.
type grouping struct {
	*testing.T
	loop    *loop.Loop
	changes *ingest.Ingest
	commit  *held
	now     time.Time
}

// newGrouping uses the profiles of a configuration, by default the default configuration.
func newGrouping(t *testing.T, profiles string, observers ...loop.Observer) *grouping {
	t.Helper()
	return newGroupingWith(t, map[string]bool{"GenericWorkload": true}, profiles, observers...)
}

func newGroupingWith(t *testing.T, on map[string]bool, profiles string, observers ...loop.Observer) *grouping {
	t.Helper()
	gates, err := feature.With(on)
	if err != nil {
		t.Fatal(err)
	}
	if profiles != "" {
		profiles = "profiles: " + profiles + "\n"
	}
	c, err := config.ParseWith("config", []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+profiles), config.Request{Gates: gates})
	if err != nil {
		t.Fatal(err)
	}
	rules := c.Queue(queue.DefaultMaxParked)
	rules.GroupPatience = queue.DefaultGroupPatience
	waiting, err := queue.New(rules)
	if err != nil {
		t.Fatal(err)
	}
	decider, err := engine.New(engine.Config{Profiles: c.Profiles, Seed: 1, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	g := &grouping{T: t, changes: ingest.New(c.Compile()), commit: &held{}, now: time.Unix(1_000_000, 0)}
	g.loop = loop.New(loop.Config{Source: g.changes, Queue: waiting, Engine: decider, Commit: g.commit, Observers: observers})
	return g
}

// nodes creates nodes with room for the given numbers of pods.
func (g *grouping) nodes(slots ...int) {
	for i, n := range slots {
		g.changes.Set(build.Node(fmt.Sprint("n", i), build.Allocatable(fmt.Sprintf("cpu=99 memory=8Gi pods=%d", n))))
	}
}

// gang is the PodGroup g with a minCount, or with a basic policy if minCount is 0.
func gang(minCount int32, changes ...func(*schedulingv1beta1.PodGroup)) *schedulingv1beta1.PodGroup {
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: "g", UID: "uid-g", Generation: 3}}
	if group.Spec.SchedulingPolicy.Basic = &(schedulingv1beta1.BasicSchedulingPolicy{}); minCount > 0 {
		group.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}}
	}
	for _, change := range changes {
		change(group)
	}
	return group
}

// member is a pod of the group g.
func member(name string, options ...build.PodOption) *v1.Pod {
	p := build.Pod(append([]build.PodOption{build.Named(name), build.Container("cpu=1")}, options...)...)
	p.UID, p.Spec.SchedulingGroup = types.UID(name), &v1.PodSchedulingGroup{PodGroupName: new("g")}
	return p
}

func priority(value int32) build.PodOption {
	return func(p *v1.Pod) { p.Spec.Priority = &value }
}

func neverPreempts(p *v1.Pod) { p.Spec.PreemptionPolicy = new(v1.PreemptNever) }

func ofScheduler(name string) build.PodOption {
	return func(p *v1.Pod) { p.Spec.SchedulerName = name }
}

// round runs one round and checks every invariant. It returns a line for each decision
// about a pod, and the writes for the group.
func (g *grouping) round() string {
	g.Helper()
	before := len(g.commit.made)
	decided := g.loop.Once(g.now)
	if err := g.loop.Audit(); err != nil {
		g.Fatal(err)
	}
	var lines []string
	for _, d := range g.commit.made[before:] {
		line := fmt.Sprint(d.Pod.Name, " ", d.Outcome)
		switch {
		case d.Outcome == plan.Placed:
			line += " on " + d.Placement.NodeName
		case d.Placement.Pod != nil:
			line += " with a node"
		case d.Outcome != plan.Terminating:
			line += ": " + report.Message(&d)
		}
		for _, e := range d.Evictions {
			if !g.loop.State().View().IsLeaving(e.Pod) {
				g.Errorf("%s: the state has not taken in that %s is evicted", line, e.Pod.Name)
			}
		}
		if len(d.Nominations) > 0 {
			if n := d.Nominations[0]; (n.Mode == plan.Set) != g.loop.State().View().IsNominated(n.Pod.Key()) {
				g.Errorf("%s: the state has not taken in %+v", line, n)
			}
			line += fmt.Sprint(" (nomination ", map[plan.NominationMode]string{plan.Keep: "kept", plan.Set: "set", plan.Clear: "cleared"}[d.Nominations[0].Mode], ")")
		}
		lines = append(lines, line)
	}
	for _, d := range g.commit.made[before:] {
		for _, w := range d.Writes {
			lines = append(lines, "group "+g.condition(&w))
		}
	}
	if decided != (len(lines) > 0) {
		g.Errorf("decided: %t; %q", decided, lines)
	}
	return strings.Join(lines, "\n")
}

// condition returns the group's condition after a write.
func (g *grouping) condition(w *plan.Write) string {
	g.Helper()
	var patch struct {
		Metadata metav1.ObjectMeta
		Status   schedulingv1beta1.PodGroupStatus
	}
	if err := json.Unmarshal(w.Data, &patch); err != nil {
		g.Fatal(err)
	}
	c := patch.Status.Conditions[0]
	if c.Type != schedulingv1beta1.PodGroupInitiallyScheduled || !w.Latest {
		g.Errorf("the write is %s, the latest counts: %t", w.Data, w.Latest)
	}
	if patch.Metadata.UID != "uid-g" || c.ObservedGeneration != 3 {
		c.Message += fmt.Sprintf(" (%s, generation %d)", patch.Metadata.UID, c.ObservedGeneration)
	}
	return strings.TrimSpace(fmt.Sprint(c.Status, " ", c.Reason, " ", c.Message))
}

const (
	noVictims = "pod group preemption: No preemption victims found for incoming preemptor"
	oneVictim = "pod group preemption: found a placement for podgroup, preempting 1 victims"
	full1     = "0/1 nodes are available: 1 Too many pods."
	full2     = "0/2 nodes are available: 2 Too many pods."
)

// TestGroupDecisions decides about the members of a group in one round.
func TestGroupDecisions(t *testing.T) {
	a, b, c := member("a"), member("b"), member("c")
	two := `[{schedulerName: default-scheduler}, {schedulerName: other}]`
	for _, row := range []struct {
		name     string
		profiles string
		slots    []int
		group    *schedulingv1beta1.PodGroup
		pods     []*v1.Pod
		want     []string
	}{
		{"room for all", "", []int{3}, gang(3), []*v1.Pod{a, b, c}, []string{"a placed on n0", "b placed on n0", "c placed on n0", "group True Scheduled"}},
		{"room for two of three", "", []int{1, 1}, gang(3), []*v1.Pod{a, b, c}, []string{
			"a unschedulable: pod group is unschedulable, minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, " + noVictims,
			"b unschedulable: pod group is unschedulable, minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, " + noVictims,
			"c unschedulable: " + full2,
			"group False Unschedulable minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, " + noVictims,
		}},
		{"the last is not tried", "", []int{1}, gang(3), []*v1.Pod{a, b, c}, []string{
			"a unschedulable: pod group is unschedulable, minCount (3) cannot be satisfied: 1 scheduled, 1 remaining, " + noVictims,
			"b unschedulable: " + full1,
			"c unschedulable: minCount (3) cannot be satisfied: 1 scheduled, 1 remaining",
			"group False Unschedulable minCount (3) cannot be satisfied: 1 scheduled, 1 remaining, " + noVictims,
		}},
		{"more than needed", "", []int{2}, gang(2), []*v1.Pod{a, b, c}, []string{"a placed on n0", "b placed on n0", "c unschedulable: " + full1, "group True Scheduled"}},
		{"basic, some fit", "", []int{1}, gang(0), []*v1.Pod{a, b}, []string{"a placed on n0", "b unschedulable: " + full1, "group True Scheduled"}},
		{"basic, none fits", "", []int{0}, gang(0), []*v1.Pod{a, b}, []string{
			"a unschedulable: " + full1, "b unschedulable: " + full1, "group False Unschedulable minCount (1) cannot be satisfied: 0 scheduled, 0 remaining, " + noVictims,
		}},
		{"others make up the number", "", []int{2}, gang(2), []*v1.Pod{member("r", build.NodeName("n0")), a, b}, []string{"a placed on n0", "b unschedulable: " + full1, "group True Scheduled"}},
		{"the number is made up, nothing new fits", "", []int{2}, gang(2), []*v1.Pod{member("r", build.NodeName("n0")), member("s", build.NodeName("n0")), a}, []string{
			"a unschedulable: " + full1, "group False Unschedulable pod group is unschedulable, " + noVictims,
		}},
		{"impossible from the start", "", []int{3}, gang(3), []*v1.Pod{a, b, member("x", build.Terminating)}, []string{
			"a unschedulable: pod group is unschedulable, minCount (3) cannot be satisfied: 0 scheduled, 2 remaining",
			"b unschedulable: pod group is unschedulable, minCount (3) cannot be satisfied: 0 scheduled, 2 remaining",
			"x terminating",
			"group False Unschedulable pod group is unschedulable, minCount (3) cannot be satisfied: 0 scheduled, 2 remaining, " + noVictims,
		}},
		{"all are being deleted", "", []int{3}, gang(1), []*v1.Pod{member("x", build.Terminating)}, []string{"x terminating"}},
		{"nominations", "", []int{1}, gang(2), []*v1.Pod{member("a", build.NominatedNodeName("n0")), member("b", build.NominatedNodeName("gone"))}, []string{
			"a unschedulable: pod group is unschedulable, minCount (2) cannot be satisfied: 1 scheduled, 0 remaining, " + noVictims + " (nomination cleared)",
			"b unschedulable: " + full1,
			"group False Unschedulable minCount (2) cannot be satisfied: 1 scheduled, 0 remaining, " + noVictims,
		}},
		{"no nodes", "", nil, gang(2), []*v1.Pod{member("a", build.NominatedNodeName("n0")), member("b", build.NominatedNodeName("n0"))}, []string{
			"a no nodes: no nodes available to schedule pods (nomination cleared)",
			"b failed: failed to schedule other pod from a pod group: no nodes available to schedule pods (nomination cleared)",
			"group False SchedulerError failed to schedule other pod from a pod group: no nodes available to schedule pods",
		}},
		{"priority", "", []int{3}, gang(2, func(g *schedulingv1beta1.PodGroup) { g.Spec.Priority = new(int32(10)) }), []*v1.Pod{member("a", priority(5)), member("b", priority(10))}, []string{
			"b failed: all pods in a single pod group should have the same priority as the pod group's priority, got 5 and 10",
			"a failed: all pods in a single pod group should have the same priority as the pod group's priority, got 5 and 10",
			"group False SchedulerError all pods in a single pod group should have the same priority as the pod group's priority, got 5 and 10",
		}},
		{"priority of one that runs", "", []int{3}, gang(2), []*v1.Pod{member("s", build.NodeName("n0"), priority(7)), member("r", build.NodeName("n0"), priority(5)), a}, []string{
			"a failed: all pods in a single pod group should have the same priority as the pod group's priority, got 5 and 0",
			"group False SchedulerError all pods in a single pod group should have the same priority as the pod group's priority, got 5 and 0",
		}},
		{"schedulers", two, []int{3}, gang(2), []*v1.Pod{a, member("b", ofScheduler("other"))}, []string{
			`a failed: all pods in a single pod group should have the same .spec.schedulerName set, got: "default-scheduler" and "other"`,
			`b failed: all pods in a single pod group should have the same .spec.schedulerName set, got: "default-scheduler" and "other"`,
			`group False SchedulerError all pods in a single pod group should have the same .spec.schedulerName set, got: "default-scheduler" and "other"`,
		}},
		{"preemption policies", "", []int{3}, gang(2), []*v1.Pod{a, member("b", neverPreempts)}, []string{
			"a failed: all pods in a single pod group should have the same preemption policy, got PreemptLowerPriority and Never",
			"b failed: all pods in a single pod group should have the same preemption policy, got PreemptLowerPriority and Never",
			"group False SchedulerError all pods in a single pod group should have the same preemption policy, got PreemptLowerPriority and Never",
		}},
		{"never preempts", "", []int{0}, gang(1), []*v1.Pod{member("a", neverPreempts)}, []string{
			"a unschedulable: " + full1,
			"group False Unschedulable minCount (1) cannot be satisfied: 0 scheduled, 0 remaining, deallocation and deletion of ResourceClaims completed, " +
				"pod group preemption: not eligible due to preemptionPolicy=Never.",
		}},
		{"never preempts, without devices", `[{plugins: {multiPoint: {disabled: [{name: DynamicResources}]}}}]`, []int{0}, gang(1), []*v1.Pod{member("a", neverPreempts)}, []string{
			"a unschedulable: " + full1,
			"group False Unschedulable minCount (1) cannot be satisfied: 0 scheduled, 0 remaining, pod group preemption: not eligible due to preemptionPolicy=Never.",
		}},
		{"no preemption", `[{plugins: {postFilter: {disabled: [{name: "*"}]}}}]`, []int{0}, gang(1), []*v1.Pod{a}, []string{
			"a unschedulable: " + full1, "group False Unschedulable minCount (1) cannot be satisfied: 0 scheduled, 0 remaining",
		}},
		{"lower pods run", "", []int{1}, gang(1), []*v1.Pod{build.Pod(build.Named("low"), build.NodeName("n0"), priority(-1)), a}, []string{
			"a unschedulable: " + full1 + " (nomination set)", "group False Unschedulable minCount (1) cannot be satisfied: 0 scheduled, 0 remaining, " + oneVictim,
		}},
		{"a lower pod is in the way of the second", "", []int{2}, gang(2), []*v1.Pod{build.Pod(build.Named("low"), build.NodeName("n0"), priority(-1)), a, b}, []string{
			"a unschedulable: minCount (2) cannot be satisfied: 1 scheduled, 0 remaining, " + oneVictim + " (nomination set)",
			"b unschedulable: " + full1 + " (nomination set)",
			"group False Unschedulable minCount (2) cannot be satisfied: 1 scheduled, 0 remaining, " + oneVictim,
		}},
		{"no eviction helps", "", []int{1}, gang(2), []*v1.Pod{build.Pod(build.Named("low"), build.NodeName("n0"), priority(-1)), a, b}, []string{
			"a unschedulable: " + full1,
			"b unschedulable: minCount (2) cannot be satisfied: 0 scheduled, 1 remaining",
			"group False Unschedulable minCount (2) cannot be satisfied: 0 scheduled, 1 remaining, deallocation and deletion of ResourceClaims completed, " +
				"pod group preemption: minCount (2) cannot be satisfied: 1 scheduled, 0 remaining",
		}},
		{"evictions cannot make up for members", "", []int{3}, gang(3), []*v1.Pod{build.Pod(build.Named("low"), build.NodeName("n0"), priority(-1)), a, b, member("x", build.Terminating)}, []string{
			"a unschedulable: pod group is unschedulable, minCount (3) cannot be satisfied: 0 scheduled, 2 remaining",
			"b unschedulable: pod group is unschedulable, minCount (3) cannot be satisfied: 0 scheduled, 2 remaining",
			"x terminating",
			"group False Unschedulable pod group is unschedulable, minCount (3) cannot be satisfied: 0 scheduled, 2 remaining, deallocation and deletion of ResourceClaims completed, " +
				"pod group preemption: pod group is unschedulable, minCount (3) cannot be satisfied: 0 scheduled, 2 remaining",
		}},
		{"without GangScheduling", `[{plugins: {multiPoint: {disabled: [{name: GangScheduling}]}}}]`, []int{1}, gang(3), []*v1.Pod{a, b}, []string{
			"a placed on n0", "b unschedulable: " + full1, "group True Scheduled",
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := newGrouping(t, row.profiles)
			g.nodes(row.slots...)
			g.changes.Set(row.group)
			for _, pod := range row.pods {
				g.changes.Set(pod.DeepCopy())
			}
			if got, want := g.round(), strings.Join(row.want, "\n"); got != want {
				t.Errorf("decided:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// TestGroupIsScheduledOnce: once enough members were placed, the condition stays True
// whatever happens to other members, and also before the watch shows it. A recreated
// group starts without it.
func TestGroupIsScheduledOnce(t *testing.T) {
	g := newGrouping(t, "")
	g.nodes(2)
	g.changes.Set(gang(1))
	g.changes.Set(member("a"))
	g.changes.Set(member("r", build.NodeName("n0")))
	for i, step := range []struct {
		change func()
		want   string
	}{
		{func() {}, "a placed on n0\ngroup True Scheduled"},
		{func() { g.changes.Set(member("b")) }, "b unschedulable: " + full1},
		{func() { g.changes.Set(gang(1, func(p *schedulingv1beta1.PodGroup) { p.Generation = 4 })) }, "b unschedulable: " + full1},
		{func() {
			g.changes.Set(gang(2, func(p *schedulingv1beta1.PodGroup) { p.UID, p.Generation = "uid-2", 1 }))
		}, "b unschedulable: " + full1 + "\ngroup False Unschedulable pod group is unschedulable, " + noVictims + " (uid-2, generation 1)"},
	} {
		step.change()
		if got := g.round(); got != step.want {
			t.Errorf("step %d: decided:\n%s\nwant:\n%s", i, got, step.want)
		}
		g.now = g.now.Add(time.Hour)
	}
}

// TestMembersKeepTheirOrder: members are tried by attempts, then by age, then by arrival.
// Each member has its own count of attempts.
func TestMembersKeepTheirOrder(t *testing.T) {
	g := newGrouping(t, "")
	g.nodes(2)
	g.changes.Set(gang(3))
	order := func() (names []string) {
		before := len(g.commit.made)
		g.round()
		for _, d := range g.commit.made[before:] {
			names = append(names, fmt.Sprint(d.Pod.Name, d.Attempt))
		}
		return names
	}
	var first []string
	for _, name := range []string{"c", "b", "a"} {
		g.changes.Set(member(name))
		g.now = g.now.Add(time.Second)
		first = order()
	}
	g.changes.Set(member("late"))
	g.now = g.now.Add(time.Hour)
	second := order()
	// all were rejected at the same time
	if want := []string{"c2", "b2", "a2", "late1"}; !slices.Equal(first, []string{"c1", "b1", "a1"}) || !slices.Equal(second, want) {
		t.Errorf("first %v, then %v", first, second)
	}
}

// TestGroupsAreToldApart: pods of another group or namespace are no members. No decision
// is made about a group without a PodGroup.
func TestGroupsAreToldApart(t *testing.T) {
	g := newGrouping(t, "")
	g.nodes(1, 1)
	g.changes.Set(gang(2))
	g.changes.Set(member("a"))
	other := member("b")
	other.Spec.SchedulingGroup.PodGroupName = new("h")
	g.changes.Set(other)
	elsewhere := member("c")
	elsewhere.Namespace = "elsewhere"
	g.changes.Set(elsewhere)
	if got := g.round(); got != "" {
		t.Errorf("decided: %s", got)
	}
	if places := fmt.Sprint(g.loop.Queue().PlaceOf(keyOf("a")), ", ", g.loop.Queue().PlaceOf(keyOf("b")), ", ",
		g.loop.Queue().PlaceOf(model.PodKey{Namespace: "elsewhere", Name: "c"})); places != "gated, incomplete, incomplete" {
		t.Errorf("they are %s", places)
	}
}

// TestRoomIsFreeAtOnce reserves room for a group that is then deleted or incomplete. A
// pod that left room takes it in the round that detects this.
func TestRoomIsFreeAtOnce(t *testing.T) {
	for _, row := range []struct {
		end string
		do  func(g *grouping)
	}{
		{"the PodGroup is gone", func(g *grouping) { g.changes.Remove(model.GroupKey{Namespace: "default", Name: "g"}.Ref()) }},
		{"a member is gone", func(g *grouping) { g.changes.Remove(keyOf("a").Ref()) }},
	} {
		g := newGrouping(t, "")
		g.nodes(1)
		g.changes.Set(gang(2))
		g.changes.Set(member("a"))
		g.changes.Set(member("b"))
		g.round()
		key := model.GroupKey{Namespace: "default", Name: "g"}
		var waiting *model.Pod
		for _, d := range g.commit.made {
			waiting = d.Pod
		}
		g.loop.HoldFor(g.loop.State().View().Group(key), []plan.Nomination{{Pod: waiting, Mode: plan.Set, NodeName: "n0"}}, g.now.Add(time.Hour))
		g.changes.Set(build.Pod(build.Named("late"), build.Container("cpu=1")))
		if got := g.round(); !strings.Contains(got, "late unschedulable: 0/1 nodes are available: 1 node(s) had capacity reserved for pod group default/g.") {
			t.Fatal(got)
		}
		g.now = g.now.Add(500 * time.Millisecond)
		row.do(g)
		if got := g.round(); !strings.Contains(got, "late placed on n0") || g.loop.State().RoomHolds() != 0 {
			t.Errorf("%s: %q; room is held for %d groups", row.end, got, g.loop.State().RoomHolds())
		}
	}
}
