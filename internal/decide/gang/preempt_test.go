package gang

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/config/feature"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// cluster is a state and an engine with the default profile and pod groups.
type gangCluster struct {
	testing.TB
	state   *state.State
	engine  *engine.Engine
	compile func(*model.Pod)
}

func newGangCluster(t testing.TB, seed uint64, objects ...runtime.Object) *gangCluster {
	t.Helper()
	return newCrowdWith(t, map[string]bool{"GenericWorkload": true}, seed, objects...)
}

func newCrowdWith(t testing.TB, set map[string]bool, seed uint64, objects ...runtime.Object) *gangCluster {
	t.Helper()
	gates, err := feature.With(set)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Read(config.Request{Gates: gates})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{Profiles: c.Profiles, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	s := state.New()
	plugintest.Set(s, objects...)
	return &gangCluster{t, s, e, c.Profiles[0].Compile}
}

func podGroup(name string, minCount, priority int32, change ...func(*schedulingv1beta1.PodGroup)) *schedulingv1beta1.PodGroup {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}
	g.Spec.Priority = &priority
	for _, c := range change {
		c(g)
	}
	return g
}

func whole(g *schedulingv1beta1.PodGroup) {
	g.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
}

// compositeUnit is a composite group whose pods are evicted together.
func compositeUnit(name string, priority int32) *schedulingv1alpha3.CompositePodGroup {
	g := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	g.Spec.Priority, g.Spec.DisruptionMode = &priority, &schedulingv1alpha3.CompositeDisruptionMode{All: &schedulingv1alpha3.AllCompositeDisruptionMode{}}
	return g
}

func below(composite string) func(*schedulingv1beta1.PodGroup) {
	return func(g *schedulingv1beta1.PodGroup) { g.Spec.ParentCompositePodGroupName = &composite }
}

func of(group string) build.PodOption {
	return func(p *v1.Pod) { p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group} }
}

func priority(n int32) build.PodOption { return func(p *v1.Pod) { p.Spec.Priority = &n } }

func started(minute int) build.PodOption {
	return func(p *v1.Pod) {
		p.Status.StartTime = new(metav1.NewTime(time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC)))
	}
}

func evicted(p *v1.Pod) {
	build.Terminating(p)
	p.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler}}
}

// work returns the turn of a group with the given members.
func (c *gangCluster) work(group *schedulingv1beta1.PodGroup, members ...*v1.Pod) turn {
	c.Helper()
	plugintest.Set(c.state, group)
	w := turn{Group: c.state.View().Group(model.GroupKey{Namespace: group.Namespace, Name: group.Name})}
	for _, m := range members {
		pod := model.NewPod(m)
		c.compile(pod)
		w.Pods = append(w.Pods, plan.QueuedPod{Pod: pod})
	}
	return w
}

// outcome writes the decision about a group with pending members: its text without the
// algorithm's reason, the victims, and the members' nominations.
func outcome(d *plan.Attempt) string {
	_, text, _ := strings.Cut(d.Message, preemptionPrefix)
	words := []string{text + ":"}
	for i := range d.Members {
		for _, e := range d.Members[i].Evictions {
			words = append(words, e.Pod.Name)
		}
	}
	for i := range d.Members {
		for _, n := range d.Members[i].Nominations {
			words = append(words, fmt.Sprint(n.Pod.Name, "@", n.NodeName))
		}
	}
	return strings.Join(words, " ")
}

// TestVictims has mostly one node of 4 cpu, and a group of pods of 1 cpu. Pods on nodes
// are named by their nodes.
func TestVictims(t *testing.T) {
	n1, n2 := build.Node("n1", build.Allocatable("cpu=4 pods=110")), build.Node("n2", build.Allocatable("cpu=4 pods=110"), build.Unschedulable)
	on := func(name string, p int32, options ...build.PodOption) *v1.Pod {
		return build.Pod(append([]build.PodOption{build.Named(name), build.NodeName(name[:2]), build.Container("cpu=1"), priority(p)}, options...)...)
	}
	member := func(name string, options ...build.PodOption) *v1.Pod {
		return build.Pod(append([]build.PodOption{build.Named(name), build.Container("cpu=1"), priority(100), of("g")}, options...)...)
	}
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "careful"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: build.Selector("app=careful")},
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1},
	}
	disrupted := budget.DeepCopy()
	disrupted.Status.DisruptedPods = map[string]metav1.Time{"n1-a": {}}
	careful := build.Labels("app=careful")
	for _, row := range []struct {
		name    string
		objects []runtime.Object
		members []*v1.Pod
		want    string
		found   plan.GroupPreemption
	}{
		{"the lowest priority goes", []runtime.Object{on("n1-a", 5), on("n1-b", 3), on("n1-c", 4), on("n1-d", 5)}, []*v1.Pod{member("x")}, "found a placement for podgroup, preempting 1 victims: n1-b x@n1",
			plan.GroupPreemption{Status: "Success", Victims: 1}},
		{"the youngest goes", []runtime.Object{on("n1-a", 5, started(2)), on("n1-b", 5), on("n1-c", 5, started(3)), on("n1-d", 5, started(1))}, []*v1.Pod{member("x"), member("y")},
			"found a placement for podgroup, preempting 2 victims: n1-c n1-b x@n1 y@n1", plan.GroupPreemption{Status: "Success", Victims: 2}},
		{"by name where all is equal", []runtime.Object{on("n1-b", 5), on("n1-a", 5), on("n1-c", 5), on("n1-d", 5)}, []*v1.Pod{member("x")}, "found a placement for podgroup, preempting 1 victims: n1-d x@n1",
			plan.GroupPreemption{Status: "Success", Victims: 1}},
		{"a pod of a group stays rather than one without, and a large group rather than a small one", []runtime.Object{
			podGroup("two", 1, 5, whole), podGroup("one", 1, 5, whole), podGroup("loose", 1, 5),
			on("n1-a", 5, of("two"), started(9)), on("n2-a", 5, of("two"), started(9)), on("n1-b", 5, of("one"), started(5)), on("n1-c", 5, of("loose"), started(6)), on("n1-d", 5, started(1)),
		}, []*v1.Pod{member("x"), member("y"), member("z")}, "found a placement for podgroup, preempting 3 victims: n1-b n1-c n1-d x@n1 y@n1 z@n1",
			plan.GroupPreemption{Status: "Success", Victims: 3, Disruptions: 2}},
		{"a whole group goes", []runtime.Object{
			podGroup("two", 1, 5, whole), on("n1-a", 5, of("two"), started(9)), on("n2-a", 5, of("two"), started(8)), on("n1-b", 6), on("n1-c", 6), on("n1-d", 6),
		}, []*v1.Pod{member("x")}, "found a placement for podgroup, preempting 2 victims: n2-a n1-a x@n1", plan.GroupPreemption{Status: "Success", Victims: 2, Disruptions: 1}},
		{"the group's priority counts", []runtime.Object{
			podGroup("high", 1, 200), podGroup("low", 1, 1), on("n1-a", 5, of("high")), on("n1-b", 150, of("low")), on("n1-c", 5), on("n1-d", 5, of("unknown")),
		}, []*v1.Pod{member("x"), member("y"), member("z")}, "found a placement for podgroup, preempting 3 victims: n1-d n1-c n1-b x@n1 y@n1 z@n1",
			plan.GroupPreemption{Status: "Success", Victims: 3, Disruptions: 2}},
		{"a budget keeps what it can", []runtime.Object{budget, on("n1-a", 9), on("n1-b", 2, careful), on("n1-c", 1, careful), on("n1-d", 9)}, []*v1.Pod{member("x"), member("y")},
			"found a placement for podgroup, preempting 2 victims: n1-d n1-b x@n1 y@n1", plan.GroupPreemption{Status: "Success", Victims: 2}},
		{"a budget is violated", []runtime.Object{budget, on("n1-a", 2, careful), on("n1-b", 2, careful), on("n1-c", 1, careful), on("n1-d", 200)}, []*v1.Pod{member("x"), member("y")},
			"found a placement for podgroup, preempting 2 victims: n1-a n1-c x@n1 y@n1", plan.GroupPreemption{Status: "Success", Victims: 2, Violations: 1}},
		{"a budget does not count a pod that is being evicted", []runtime.Object{disrupted, on("n1-a", 2, careful), on("n1-b", 2, careful), on("n1-c", 1, careful), on("n1-d", 200)}, []*v1.Pod{member("x"), member("y")},
			"found a placement for podgroup, preempting 2 victims: n1-a n1-b x@n1 y@n1", plan.GroupPreemption{Status: "Success", Victims: 2}},
		{"a unit violates if one of its pods does", []runtime.Object{
			podGroup("two", 1, 1, whole), budget, on("n1-a", 9, careful), on("n1-b", 1, of("two"), careful), on("n1-c", 1, of("two")), on("n1-d", 9),
		}, []*v1.Pod{member("x")}, "found a placement for podgroup, preempting 1 victims: n1-d x@n1", plan.GroupPreemption{Status: "Success", Victims: 1}},
		{"nobody need go", []runtime.Object{on("n1-a", 5), on("n1-b", 5)}, []*v1.Pod{member("x", build.NodeSelector("absent=yes")), member("y")}, "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining:",
			plan.GroupPreemption{Status: "Unschedulable"}},
		{"nobody is lower", []runtime.Object{on("n1-a", 100), on("n1-b", 100), on("n1-c", 100), on("n1-d", 200)}, []*v1.Pod{member("x")}, "No preemption victims found for incoming preemptor:",
			plan.GroupPreemption{Status: "UnschedulableAndUnresolvable"}},
		{"on a node that is gone nobody is a candidate", []runtime.Object{on("n1-a", 100), on("n1-b", 100), on("n1-c", 100), on("n1-d", 200), on("n3-a", 5)}, []*v1.Pod{member("x")},
			"No preemption victims found for incoming preemptor:", plan.GroupPreemption{Status: "UnschedulableAndUnresolvable"}},
		{"evictions go on", []runtime.Object{on("n1-a", 5, evicted), on("n1-b", 5), on("n1-c", 5), on("n1-d", 5)}, []*v1.Pod{member("x", build.NominatedNodeName("n1")), member("y")},
			"ongoing preemption on nominated nodes:", plan.GroupPreemption{Status: "Success", Ongoing: true}},
		{"evictions go on elsewhere", []runtime.Object{on("n2-a", 5, evicted), on("n1-b", 5), on("n1-c", 5), on("n1-d", 5), on("n1-e", 5)}, []*v1.Pod{member("x", build.NominatedNodeName("n1"))},
			"found a placement for podgroup, preempting 1 victims: n1-e x@n1", plan.GroupPreemption{Status: "Success", Victims: 1}},
		{"evictions go on where nobody is nominated to", []runtime.Object{on("n1-a", 5, evicted), on("n1-b", 5), on("n1-c", 5), on("n1-d", 5)}, []*v1.Pod{member("x")},
			"found a placement for podgroup, preempting 1 victims: n1-d x@n1", plan.GroupPreemption{Status: "Success", Victims: 1}},
		{"all below a composite group stay rather than a larger group", []runtime.Object{
			compositeUnit("tree", 5), podGroup("leaf", 1, 7, below("tree")), podGroup("other", 1, 7, below("tree")), podGroup("three", 1, 5, whole),
			on("n1-a", 7, of("leaf")), on("n2-a", 7, of("other")), on("n1-b", 5, of("three")), on("n1-c", 5, of("three")), on("n1-d", 5, of("three")),
		}, []*v1.Pod{member("x")}, "found a placement for podgroup, preempting 3 victims: n1-b n1-c n1-d x@n1", plan.GroupPreemption{Status: "Success", Victims: 3, Disruptions: 1}},
		{"all below a composite group go", []runtime.Object{
			compositeUnit("tree", 5), podGroup("leaf", 1, 7, below("tree")), podGroup("other", 1, 7, below("tree")),
			on("n1-a", 7, of("leaf")), on("n2-a", 7, of("other")), on("n1-b", 6), on("n1-c", 6), on("n1-d", 6),
		}, []*v1.Pod{member("x")}, "found a placement for podgroup, preempting 2 victims: n1-a n2-a x@n1", plan.GroupPreemption{Status: "Success", Victims: 2, Disruptions: 1}},
		{"a claim that one pod may use, on another node", []runtime.Object{
			build.PersistentVolume("v", "modes=RWOP storage=1Gi phase=Bound claim=default/c"), build.PersistentVolumeClaim("c", "modes=RWOP storage=1Gi bound=v"), on("n1-a", 5), on("n2-a", 5, build.Claims("c")),
		}, []*v1.Pod{member("x", build.Claims("c"))}, "found a placement for podgroup, preempting 1 victims: n2-a x@n1", plan.GroupPreemption{Status: "Success", Victims: 1}},
		{"a pod of equal priority is leaving", []runtime.Object{on("n1-a", 100, evicted), on("n1-b", 5), on("n1-c", 5), on("n1-d", 5)}, []*v1.Pod{member("x", build.NominatedNodeName("n1"))},
			"found a placement for podgroup, preempting 1 victims: n1-d x@n1", plan.GroupPreemption{Status: "Success", Victims: 1}},
		{"members must not preempt", []runtime.Object{on("n1-a", 5), on("n1-b", 5), on("n1-c", 5), on("n1-d", 5)}, []*v1.Pod{member("x", func(p *v1.Pod) { p.Spec.PreemptionPolicy = new(v1.PreemptNever) })},
			"not eligible due to preemptionPolicy=Never.:", plan.GroupPreemption{Status: "Unschedulable"}},
		{"ports are near", []runtime.Object{
			on("n1-a", 5, hostPort(80)), on("n1-b", 5), on("n1-c", 5, hostPort(81)), on("n2-a", 5, hostPort(80)),
		}, []*v1.Pod{member("x", hostPort(80))}, "found a placement for podgroup, preempting 1 victims: n1-a x@n1", plan.GroupPreemption{Status: "Success", Victims: 1}},
		{"members with ports are checked in turn", []runtime.Object{on("n1-a", 6), on("n1-b", 5), on("n1-c", 5), on("n1-d", 5)}, []*v1.Pod{member("x", hostPort(80)), member("y", hostPort(81))},
			"found a placement for podgroup, preempting 2 victims: n1-c n1-d x@n1 y@n1", plan.GroupPreemption{Status: "Success", Victims: 2}},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := newGangCluster(t, 1, append([]runtime.Object{n1, n2}, row.objects...)...)
			d := decided(c.state, c.engine, c.work(podGroup("g", int32(len(row.members)), 100), row.members...), nil)
			if got := outcome(&d); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
			if d.Preemption == nil || *d.Preemption != row.found {
				t.Errorf("found %+v, want %+v", d.Preemption, row.found)
			}
			for i := range d.Members {
				if evicts := len(d.Members[i].Evictions) > 0; evicts != (i == 0 && row.found.Victims > 0) {
					t.Errorf("member %d evicts pods: %t", i, evicts)
				}
			}
			if waits := row.found.Status == plan.StatusSuccess; d.Waits() != waits {
				t.Errorf("it waits: %t, want %t", d.Waits(), waits)
			}
			if err := c.state.Audit(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEvictionsBesideKeptRoom has room for one pod of 2 cpu on n0, held for another group
// of the same priority. Pods of lower priority fill n1. A group that would fit into the
// held space evicts no pod; a larger group does.
func TestEvictionsBesideKeptRoom(t *testing.T) {
	for _, row := range []struct {
		members int
		want    string
	}{
		{1, "the capacity that the group needs is reserved for another pod group"},
		{2, "found a placement for podgroup, preempting 4 victims"},
		{3, "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"},
	} {
		c := newGangCluster(t, 1)
		p := profileWith(t, 1, 1)
		c.engine, c.compile = newEngine(t, p), p.Compile
		plugintest.Set(c.state, build.Node("n0", build.Allocatable("cpu=2 pods=110")), build.Node("n1", build.Allocatable("cpu=4 pods=110")))
		for i := range 4 {
			plugintest.Set(c.state, build.Pod(build.Named(fmt.Sprint("low-", i)), build.NodeName("n1"), build.Container("cpu=1"), priority(5)))
		}
		kept := c.work(podGroup("kept", 1, 100), build.Pod(build.Named("k"), build.Container("cpu=2"), priority(100), of("kept")))
		c.state.HoldRoom(model.RootKey{Key: kept.Group.Key}, []model.GroupKey{kept.Group.Key}, []plan.Nomination{{Pod: kept.Pods[0].Pod, Mode: plan.Set, NodeName: "n0"}})
		var members []*v1.Pod
		for i := range row.members {
			members = append(members, build.Pod(build.Named(fmt.Sprint("m", i)), build.Container("cpu=2"), priority(100), of("g")))
		}
		var calls noted
		d := decided(c.state, c.engine, c.work(podGroup("g", int32(row.members), 100), members...), &calls)
		if !strings.HasSuffix(d.Message, row.want) {
			t.Errorf("%d members: %q, want it to end with %q", row.members, d.Message, row.want)
		}
		// the check of the held space is no attempt
		if want := (noted{"1 generated", "feasible: false"}); row.members == 1 && !slices.Equal(calls, want) {
			t.Errorf("observed %q, want %q", calls, want)
		}
		if err := c.state.Audit(); err != nil {
			t.Error(err)
		}
		if at := c.state.View().RoomHeldOn(model.RootKey{Key: kept.Group.Key}); !slices.Equal(at, []string{"n0"}) || c.state.Nominated() != 1 {
			t.Errorf("%d members: room is held on %v", row.members, at)
		}
	}
}

func hostPort(port int32) build.PodOption {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: port, HostPort: port, Protocol: v1.ProtocolTCP}}
	}
}

// plainly is kube-scheduler's search: after each returned unit, all filters run for all
// members in turn.
func (a *attempt) plainly(t *testing.T) (victims []string) {
	candidates := a.candidates(a.state.View())
	for i := range candidates {
		a.state.Displace(candidates[i].pods...)
	}
	w := whatIf{attempt: a.again()}
	short, err := w.try()
	if err == nil && short == "" {
		slices.SortFunc(candidates, byImportance(plugin.PreemptionRules{}))
		violating := violations(w.state.View(), model.BudgetRules{}, candidates)
		err = w.collect()
		for _, violates := range []bool{true, false} {
			for i := range candidates {
				u := &candidates[i]
				if (violating[i] > 0) != violates {
					continue
				}
				w.state.Return(u.pods...)
				fits, failed := w.passInTurn(w.placed)
				if failed != nil {
					err = failed
				}
				if u.back = fits; !fits {
					w.state.Displace(u.pods...)
				}
			}
		}
		for i := range candidates {
			for _, pod := range candidates[i].pods {
				if !candidates[i].back {
					victims = append(victims, pod.Name)
				}
			}
		}
	}
	w.revert()
	for i := range candidates {
		if u := &candidates[i]; !u.back {
			a.state.Return(u.pods...)
		}
	}
	if err != nil {
		t.Error(err)
	}
	return victims
}

// TestVictimsAgreeWithThePlainSearch compares victims in random clusters with affinities,
// spreading, ports and groups.
func TestVictimsAgreeWithThePlainSearch(t *testing.T) {
	found, many := 0, 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 7))
		c := newGangCluster(t, seed)
		for i := range 3 + r.IntN(4) {
			plugintest.Set(c.state, build.Node(fmt.Sprint("n", i), build.Allocatable("cpu=4 pods=6"), build.NodeLabels(fmt.Sprintf("zone=z%d kubernetes.io/hostname=n%d", i%3, i))))
		}
		plugintest.Set(c.state, podGroup("unit", 1, 5, whole), podGroup("loose", 1, 5), &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: build.Selector("app=a")},
		})
		shapes := func(own string) []build.PodOption {
			var options []build.PodOption
			options = append(options, build.Container(fmt.Sprint("cpu=", 1+r.IntN(2))), build.Labels("app="+own))
			switch r.IntN(7) {
			case 0:
				options = append(options, build.RequiredAntiAffinity(build.Term([]string{"zone", "kubernetes.io/hostname"}[r.IntN(2)], "app="+[]string{"a", "b", "g"}[r.IntN(3)])))
			case 1:
				options = append(options, build.DoNotSchedule([]string{"zone", "kubernetes.io/hostname"}[r.IntN(2)], "app="+[]string{"a", "b", "g"}[r.IntN(3)]))
			case 2:
				options = append(options, hostPort(int32(80+r.IntN(2))))
			}
			return options
		}
		for i := range 6 + r.IntN(14) {
			app := []string{"a", "b", "g"}[r.IntN(3)]
			options := append(shapes(app), build.Named(fmt.Sprint("p", i)), build.NodeName(fmt.Sprint("n", r.IntN(6))), priority(int32(r.IntN(4)*50)), started(r.IntN(9)))
			if k := r.IntN(5); k < 2 {
				options = append(options, priority(5), of([]string{"unit", "loose"}[k]))
			}
			plugintest.Set(c.state, build.Pod(options...))
		}
		var members []*v1.Pod
		shape := shapes("g")
		for i := range 2 + r.IntN(4) {
			members = append(members, build.Pod(append(shape, build.Named(fmt.Sprint("m", i)), of("g"), priority(100))...))
		}
		if r.IntN(2) == 0 {
			members[0].Status.NominatedNodeName = "n1"
			plugintest.Set(c.state, members[0])
		}
		work := c.work(podGroup("g", int32(1+r.IntN(len(members))), 100), members...)
		before := c.state.View().Versions()
		d := decided(c.state, c.engine, work, nil)
		if err := c.state.Audit(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if d.Outcome != plan.Unschedulable {
			continue
		}
		var got []string
		for i := range d.Members {
			for _, e := range d.Members[i].Evictions {
				got = append(got, e.Pod.Name)
			}
		}
		a := attempt{Attempt: work.attempt(), state: c.state, engine: c.engine, profile: c.engine.Profile("default-scheduler")}
		a.assign()
		for i := range a.Members {
			a.tried = append(a.tried, i)
		}
		if want := a.plainly(t); !slices.Equal(got, want) {
			t.Errorf("seed %d: %s\ngot  %s\nwant %s", seed, d.Message, got, want)
		}
		if found += len(got); len(got) > 2 {
			many++
		}
		if after := c.state.View().Versions(); after.Nominations != before.Nominations && len(members[0].Status.NominatedNodeName) == 0 {
			t.Errorf("seed %d: nominations have changed", seed)
		}
	}
	if found < 150 || many < 20 {
		t.Errorf("%d victims were found, more than two %d times", found, many)
	}
}

// TestWorkOfEvictions has a gang of 512 find room in 5,000 nodes full of pods of lower
// priority. A returned pod costs no check of a member, except on the same node.
func TestWorkOfEvictions(t *testing.T) {
	nodes, perNode, gang := build.Sized(5000), 6, build.Sized(512)
	c := newGangCluster(t, 1)
	changes := make([]runtime.Object, 0, nodes*(perNode+1))
	for i := range nodes {
		name := fmt.Sprint("n", i)
		changes = append(changes, build.Node(name, build.Allocatable("cpu=6 pods=110")))
		for j := range perNode {
			changes = append(changes, build.Pod(build.Named(fmt.Sprint("p", i, "-", j)), build.NodeName(name), build.Container("cpu=1"), priority(int32(i%7))))
		}
	}
	plugintest.Set(c.state, changes...)
	var members []*v1.Pod
	for i := range gang {
		members = append(members, build.Pod(build.Named(fmt.Sprint("m", i)), of("g"), priority(100), build.Container("cpu=2")))
	}
	work := c.work(podGroup("g", int32(gang), 100), members...)
	began, before := time.Now(), c.engine.Counters()
	d := decided(c.state, c.engine, work, nil)
	after := c.engine.Counters()
	t.Logf("%v: %s; %d nodes asked, %d visited", time.Since(began), d.Message, after.Asked-before.Asked, after.Visited-before.Visited)
	if d.Preemption == nil || d.Preemption.Victims != 2*gang {
		t.Fatalf("%+v victims, want %d", d.Preemption, 2*gang)
	}
	// Each member's filters run for each of the pods on its node, and columns follow
	// while it is placed.
	if asked, most := after.Asked-before.Asked, int64(40*nodes+20*gang*perNode); asked > most {
		t.Errorf("plugins were asked about %d nodes, at most %d are enough", asked, most)
	}
}
