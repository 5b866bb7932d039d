package preempt_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/decide/plugins/defaultpreemption"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// fragile is a filter that fails on some nodes at a number of pods. Its reads decide
// between dry runs and sums of resource usage.
type fragile struct {
	on    map[string]int
	reads model.Aspect
}

func (*fragile) Name() string                              { return "Fragile" }
func (f *fragile) FilterReads() model.Aspect               { return f.reads }
func (f *fragile) FilterNeed(*model.Pod) plugin.FilterNeed { return f }
func (*fragile) AppendText(text []byte) []byte             { return append(text, "fragile"...) }
func (f *fragile) Compile() *plugin.Verdicts               { return &plugin.Verdicts{NodeVerdicts: f, Failures: f} }
func (*fragile) Reasons(reason.Code) []string              { panic("asked for the reasons of a failure") }
func (*fragile) Err(_ state.View, _ *model.Pod, code reason.Code) error {
	return fmt.Errorf("broken by %d", code&^reason.Failed)
}
func (f *fragile) Filter(node state.Node) (code reason.Code) {
	if pods, fails := f.on[node.Name()]; fails && node.PodCount() == pods {
		code = reason.Failed | reason.Code(node.Name()[1]-'0')
	}
	return code
}

// TestFailuresInDryRuns has a filter fail while pods of lower priority are removed or
// returned. The failures are reported by node, unless another node has a candidate.
func TestFailuresInDryRuns(t *testing.T) {
	const all = `keep preemption: [running "Fragile" filter plugin: broken by 1, running "Fragile" filter plugin: broken by 2, running "Fragile" filter plugin: broken by 3]`
	for _, row := range []struct {
		name  string
		fails map[string]int
		want  string
		// only there: a filter that reads only resource usage does not fail
		inDryRuns bool
	}{
		{"none", nil, "n3: e", false},
		{"without pods, on the best node", map[string]int{"n3": 0}, "n2: c", false},
		{"with one pod, on the best node", map[string]int{"n3": 1}, "n2: c", true},
		{"without pods, on all", map[string]int{"n1": 0, "n2": 0, "n3": 0}, all, false},
		{"with one pod, on all", map[string]int{"n1": 1, "n2": 1, "n3": 1}, all, true},
	} {
		for what, reads := range map[string]model.Aspect{"by what pods occupy": model.Usage, "in dry runs": model.Usage | model.Ports} {
			if reads == model.Usage && row.inDryRuns {
				continue
			}
			defaults, err := config.Default()
			if err != nil {
				t.Fatal(err)
			}
			defaults.Profiles[0].Filters = append(defaults.Profiles[0].Filters, plugintest.Filters(&fragile{row.fails, reads})...)
			e, err := engine.New(engine.Config{Profiles: defaults.Profiles, Seed: 1, Audit: true})
			if err != nil {
				t.Fatal(err)
			}
			c := &cluster{state.New(), e, defaults}
			c.set(nodes("n1= n2= n3="))
			for i, text := range []string{"a(30,2) b(29,2)", "c(20,2) d(21,2)", "e(10,2) f(11,2)"} {
				c.set(on(fmt.Sprint("n", i+1), text))
			}
			pod := preemptor("2")
			plugintest.Set(c.state, pod)
			for range 2 {
				if got := outcome(c.decide(pod)); got != row.want {
					t.Errorf("%s, %s:\ngot  %s\nwant %s", row.name, what, got, row.want)
				}
			}
		}
	}
}

// TestManyKinds has a pod request more kinds of resources than bounds distinguish. Nodes
// that lack one of the others are tried one by one.
func TestManyKinds(t *testing.T) {
	const kinds = 40
	c := newCluster(t, 1)
	all, request := "cpu=4 pods=9", "cpu=1"
	for i := range kinds {
		one := fmt.Sprintf(" example.com/d%02d=1", i)
		all, request = all+one, request+one
	}
	for i, lacks := range []int{2, 30, 35, 35, 2} { // a pod that stays uses it
		name := fmt.Sprint("n", i)
		c.set(nodes(name+"=", build.Allocatable(all)))
		c.set(on(name, fmt.Sprintf("v%d(1,1)", i)))
		c.set([]runtime.Object{build.Pod(build.Named(fmt.Sprint("stays", i)), build.NodeName(name), priority(200), build.Container(fmt.Sprintf("example.com/d%02d=1", lacks)))})
	}
	const want = "0/5 nodes are available: 1 Insufficient example.com/d30, 2 Insufficient example.com/d02, 2 Insufficient example.com/d35."
	if got := outcome(c.decide(build.Pod(priority(100), build.Container(request)))); got != "keep preemption: "+want && got != "clear preemption: "+want {
		t.Errorf("%s", got)
	}
}

// TestEqualsAfterTheFirst has a node whose bound is better than its candidate, and others
// whose bounds equal that candidate. Among all of these the tie decides.
func TestEqualsAfterTheFirst(t *testing.T) {
	for seed := range uint64(12) {
		c := newCluster(t, seed)
		found := map[bool]int{}
		for i, p := range c.config.Profiles[0].PostFilters {
			if p.Name == defaultpreemption.Name {
				c.config.Profiles[0].PostFilters[i] = (&compared{p, t, seed, found}).part()
			}
		}
		for _, name := range []string{"n1", "n2", "n3"} {
			plugintest.Set(c.state, build.NodesInZones(name+"=z1", build.Allocatable("cpu=4 memory=4Gi pods=10"))[0])
			first, second := "cpu=3", "memory=3Gi"
			if name != "n1" {
				first, second = "cpu=1500m", "cpu=1500m memory=3Gi"
			}
			for i, requests := range []string{first, second} {
				plugintest.Set(c.state, build.Pod(build.Named(fmt.Sprint(name, i)), build.NodeName(name), build.Container(requests), priority(1), started(9, 0)))
			}
		}
		c.decide(build.Pod(priority(10), build.Container("cpu=3 memory=2Gi")))
		if found[true] != 2 {
			t.Errorf("seed %d: found victims or not: %v", seed, found)
		}
	}
}

// TestFewestPods has candidates that differ only in the number of victims. The highest
// priority and the sum are the same, since the sum counts from the lowest priority.
func TestFewestPods(t *testing.T) {
	c := newCluster(t, 1)
	c.set(nodes("n1= n2="))
	c.set(on("n1", "a(10,2) b(-1000000000,2)"))
	c.set(on("n2", "c(10,2) d(-1573741824,1) e(-1573741824,1)", started(10, 0)))
	before := c.engine.Counters().Rated
	if got := outcome(c.decide(preemptor("4"))); got != "n1: a b" {
		t.Errorf("got %s", got)
	}
	if got := c.engine.Counters().Rated - before; got != 2 {
		t.Errorf("%d nodes are rated, want 2", got)
	}
}

// TestAnEqualThatLeaves: while a pod of lower priority leaves the nominated node, no
// other is evicted. A pod of the same priority leaves for another reason and does not
// count.
func TestAnEqualThatLeaves(t *testing.T) {
	for prio, want := range map[int]string{99: "keep preemption: not eligible due to a terminating pod on the nominated node.", 100: "n2: b"} {
		c := newCluster(t, 1)
		c.set(nodes("n1= n2="))
		c.set(on("n1", fmt.Sprintf("a(%d,4)", prio), preempted))
		c.set(on("n2", "b(10,4)"))
		pod := preemptor("4", build.NominatedNodeName("n1"))
		plugintest.Set(c.state, pod)
		if got := outcome(c.decide(pod)); got != want {
			t.Errorf("priority %d: %s, want %s", prio, got, want)
		}
	}
}
