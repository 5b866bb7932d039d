package interpodaffinity_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/decide/plugins/interpodaffinity"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// bench is a cluster in three zones with ten pods on each node, from a hundred plain
// applications.
type bench struct {
	state   *state.State
	engine  *engine.Engine
	profile *plugin.Profile
	plugin  *interpodaffinity.Plugin
	nodes   int
	pods    int // number of pods made so far
}

func newBench(t testing.TB, nodes int) *bench {
	pair := pairOf(t, oracle.Cluster{}, configv1.InterPodAffinityArgs{})
	b := &bench{state: pair.State, engine: pair.Engine, profile: pair.Profile, plugin: newPlugin(t, nil), nodes: nodes}
	var changes []model.Change
	for i := range nodes {
		n := newNode(fmt.Sprint("node-", i), fmt.Sprint("zone-", i%3))
		changes = append(changes, model.Change{Kind: model.NodeSet, Node: model.NewNode(n)})
	}
	b.state.Apply(changes)
	b.run(10, func(i int) part { return wearing(fmt.Sprint("app=app-", i%100)) })
	return b
}

// run places the given number of pods on each node; shape returns the parts of the i-th
// pod.
func (b *bench) run(each int, shape func(i int) part) { b.runOn(b.nodes, each, shape) }

func (b *bench) runOn(nodes, each int, shape func(i int) part) {
	var changes []model.Change
	for i := range nodes * each {
		changes = append(changes, model.Change{Kind: model.PodSet, Pod: model.NewPod(b.object(shape(i), on(fmt.Sprint("node-", i%nodes))))})
	}
	b.state.Apply(changes)
}

func (b *bench) object(parts ...part) *v1.Pod {
	p := build.Pod(append([]part{build.Container("cpu=10m memory=10Mi")}, parts...)...)
	b.pods++
	p.Name, p.UID = fmt.Sprint("pod-", b.pods), types.UID(fmt.Sprint("uid-", b.pods))
	return p
}

func (b *bench) pending(parts ...part) *model.Pod {
	p := model.NewPod(b.object(parts...))
	b.profile.Compile(p)
	return p
}

// place decides and assumes, like a round of the loop.
func (b *bench) place(t testing.TB, pod *model.Pod) {
	d := b.engine.Decide(b.state.View(), plan.Alone(pod))
	if d.Outcome != plan.Placed {
		t.Fatalf("pod %s: %+v", pod, d)
	}
	b.state.Assume(d.Placement)
}

// shapes are the measured clusters and pods.
var shapes = []struct {
	name string
	// fill places further pods.
	fill func(b *bench)
	pod  part
}{
	{"no terms anywhere", func(*bench) {}, wearing("app=new")},
	{"required affinity zone", func(*bench) {}, both(wearing("app=new"), near(term(zone, "app=app-1")))},
	{
		"required anti-affinity host, half of the hosts",
		func(b *bench) { b.runOn(b.nodes/2, 1, func(int) part { return repelsItself }) }, repelsItself,
	},
	{
		"required anti-affinity host, all hosts",
		func(b *bench) { b.run(1, func(int) part { return repelsItself }) }, repelsItself,
	},
	{
		"required anti-affinity host, 100 hosts",
		func(b *bench) { b.runOn(min(100, b.nodes/2), 1, func(int) part { return repelsItself }) }, repelsItself,
	},
	{"preferred affinity zone", func(*bench) {}, both(wearing("app=new"), likes(10, term(zone, "app=app-1")))},
	{"preferred affinity host", func(*bench) {}, both(wearing("app=new"), likes(10, term(host, "app=app-1")))},
	{"preferred anti-affinity zone and host, carried everywhere", func(b *bench) { b.run(2, func(int) part { return dislikesItself }) }, dislikesItself},
	{"preferred affinity zone, wide span", func(*bench) {}, both(wearing("app=new"), likes(100, term(host, "app Exists")), likes(99, term(zone, "app=app-1")))},
	{
		"2,000 terms of which 2 match",
		func(b *bench) { b.run(2, func(i int) part { return selfish(fmt.Sprint("app=s-", i%2000)) }) }, selfish("app=s-7"),
	},
	{
		"2,000 terms of which all match",
		func(b *bench) {
			b.runOn(b.nodes/2, 2, func(i int) part {
				return apart(term(host, "app=new", whereNamespace(fmt.Sprint("team NotIn x", i%2000))))
			})
		}, wearing("app=new"),
	},
}

func both(parts ...part) part {
	return func(p *v1.Pod) {
		for _, change := range parts {
			change(p)
		}
	}
}

// selfish pods have anti-affinity to their own application: required by host, preferred
// by zone.
func selfish(labels string) part {
	return both(wearing(labels), apart(term(host, labels)), dislikes(10, term(zone, labels)))
}

var (
	repelsItself   = both(wearing("app=r"), apart(term(host, "app=r")))
	dislikesItself = both(wearing("app=d"), dislikes(10, term(zone, "app=d")), dislikes(1, term(host, "app=d")))
)

// BenchmarkRules makes the rules of a compiled need, with 5,000 nodes and 50,000 pods.
func BenchmarkRules(b *testing.B) {
	for _, shape := range shapes {
		b.Run(shape.name, func(b *testing.B) {
			c := newBench(b, build.Sized(5000))
			shape.fill(c)
			l := plugintest.Counting(c.plugin, c.pending(shape.pod))
			var to []plugin.CountRule
			b.ReportAllocs()
			for b.Loop() {
				to = plugintest.Rules(l, c.state, to[:0])
			}
			b.ReportMetric(float64(len(to)), "rules")
		})
	}
}

// BenchmarkScores scores all nodes for a compiled need.
func BenchmarkScores(b *testing.B) {
	for _, shape := range shapes {
		b.Run(shape.name, func(b *testing.B) {
			c := newBench(b, build.Sized(5000))
			shape.fill(c)
			s, err := plugintest.SetScores(c.plugin, c.pending(shape.pod))
			if err != nil {
				b.Fatal(err)
			}
			slots, scores := make([]int32, c.nodes), make([]int64, c.nodes)
			for i := range slots {
				slots[i] = int32(i)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Score(c.state.View(), slots, scores); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFirstSight compiles a need and makes its rules and scores from existing
// tallies.
func BenchmarkFirstSight(b *testing.B) {
	for _, shape := range shapes {
		b.Run(shape.name, func(b *testing.B) {
			c := newBench(b, build.Sized(5000))
			shape.fill(c)
			pending := c.pending(shape.pod)
			scores := make([]int64, 2)
			b.ReportAllocs()
			for b.Loop() {
				l := plugintest.Counting(c.plugin, pending)
				plugintest.Rules(l, c.state, nil)
				s, _ := plugintest.SetScores(c.plugin, pending)
				_, _ = s.Score(c.state.View(), []int32{0, 1}, scores)
			}
		})
	}
}

// BenchmarkDecision decides and assumes, one pod after the other, with the default
// profile except PodTopologySpread. Each decision follows a change of one node.
func BenchmarkDecision(b *testing.B) {
	for _, shape := range shapes {
		if shape.name == "required anti-affinity host, all hosts" {
			continue // no node is feasible
		}
		b.Run(shape.name, func(b *testing.B) {
			batch := build.Sized(2000) // fewer pods than fit
			b.ReportAllocs()
			for done := 0; done < b.N; done += batch {
				b.StopTimer()
				c := newBench(b, build.Sized(5000))
				shape.fill(c)
				c.place(b, c.pending(shape.pod))
				pods := make([]*model.Pod, min(batch, b.N-done))
				for i := range pods {
					pods[i] = c.pending(shape.pod)
				}
				b.StartTimer()
				for _, pod := range pods {
					c.place(b, pod)
				}
			}
		})
	}
}

// BenchmarkHints calls the hints of a waiting pod with two required terms for an added
// pod.
func BenchmarkHints(b *testing.B) {
	hint := newPlugin(b, nil).EventsToRegister()[0]
	waiting := model.NewPod(pod(near(term(zone, "app=db")), apart(term(host, "app=web"))))
	event := came(wearing("app=x"))
	b.ReportAllocs()
	for b.Loop() {
		hint.Helps(waiting, event)
	}
}

// BenchmarkNeeds makes both needs of a pod with terms.
func BenchmarkNeeds(b *testing.B) {
	p := newPlugin(b, nil)
	pending := model.NewPod(pod(selfish("app=s")))
	b.ReportAllocs()
	for b.Loop() {
		plugintest.FilterNeed(p, pending)
		plugintest.ScoreNeed(p, pending)
	}
}
