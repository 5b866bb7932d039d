package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

// clocked is an engine.Timing that reads the clock, like the one of the metrics.
type clocked struct {
	samples      bool
	asked, begun int
	ended        map[string]engine.Status
	since        time.Duration
	lap          time.Time
}

func (c *clocked) Sample() bool {
	c.asked++
	return c.samples
}

func (c *clocked) Begin() {
	c.begun++
	c.lap = time.Now()
}

func (c *clocked) End(point, plugin string, status engine.Status) {
	took := time.Since(c.lap)
	c.lap = c.lap.Add(took)
	c.since += took
	if c.ended != nil {
		c.ended[plugin+" "+point] = status
	}
}

func (c *clocked) points() string {
	var all []string
	for name := range c.ended {
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// timedBench is a bench whose engine has a Timing, nil for none.
func timedBench(t testing.TB, nodes int, timing engine.Timing) *bench {
	p := enginetest.Profile(t, oracle.DefaultProfile())
	e, err := engine.New(engine.Config{Profiles: []*plugin.Profile{p}, Seed: 1, Timing: timing})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{state: state.New(), engine: e, profile: p}
	var changes []model.Change
	for i := range nodes {
		changes = append(changes, model.Change{Kind: model.NodeSet, Node: model.NewNode(benchNode(i))})
	}
	b.state.Apply(changes)
	return b
}

// TestTiming expects the plugins whose code runs, and only these: an equal pod reads
// columns, so no code of their plugins runs for it.
func TestTiming(t *testing.T) {
	timing := &clocked{samples: true, ended: map[string]engine.Status{}}
	b := timedBench(t, 300, timing)
	take := func(i int, shape func(*v1.Pod)) string {
		clear(timing.ended)
		b.place(t, b.pod(i, shape))
		return timing.points()
	}
	expect := func(of, got string, want ...string) {
		t.Helper()
		for _, name := range want {
			if !strings.Contains(", "+got+",", " "+name+",") {
				t.Errorf("%s was timed at %s, want %s", of, got, name)
			}
		}
	}
	expect("the first pod", take(0, shapes["selective"]), "NodeAffinity Filter", "NodeAffinity Score",
		"TaintToleration Filter", "TaintToleration Score", "NodeResourcesFit Filter", "NodeResourcesFit Score", "NodeResourcesBalancedAllocation Score", "ImageLocality Score")
	// one node has changed in its usage
	if got := take(1, shapes["selective"]); strings.Contains(got, "NodeAffinity") || !strings.Contains(got, "NodeResourcesFit Filter") {
		t.Errorf("an equal pod was timed at %s", got)
	}
	spread := func(p *v1.Pod) {
		p.Labels = map[string]string{"app": "web"}
		build.DoNotSchedule("topology.kubernetes.io/zone", "app=web")(p)
		build.RequiredAntiAffinity(build.Term("kubernetes.io/hostname", "app=web"))(p)
	}
	expect("a pod with rules", take(2, spread), "PodTopologySpread PreFilter", "PodTopologySpread Filter", "InterPodAffinity PreFilter", "InterPodAffinity Filter")
	if timing.ended["PodTopologySpread PreFilter"] != engine.Success {
		t.Errorf("PreFilter of a rule ended with %d", timing.ended["PodTopologySpread PreFilter"])
	}
	clear(timing.ended)
	asked := timing.asked
	b.engine.Decide(b.state.View(), plan.Alone(b.pod(3, func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("1k")
	})))
	if status, timed := timing.ended["DefaultPreemption PostFilter"]; !timed || status != engine.Unschedulable {
		t.Errorf("a pod that does not fit was timed at %s, PostFilter with status %d", timing.points(), status)
	}
	if timing.asked != asked+1 {
		t.Errorf("one decision asked %d times whether it is sampled", timing.asked-asked)
	}
}

// TestTimingOutsideOfDecisions: a question about a pod runs plugins, too, and is no
// attempt. In decisions that are not sampled, no clock is read at all.
func TestTimingOutsideOfDecisions(t *testing.T) {
	timing := &clocked{samples: true}
	b := timedBench(t, 300, timing)
	pod := b.pod(0, shapes["selective"])
	b.place(t, pod)
	begun := timing.begun
	if begun == 0 {
		t.Fatal("a sampled decision was not timed")
	}
	other := b.pod(1, func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"pool": "pool-3"} })
	b.engine.Detail(b.state.View(), other, 3)
	b.engine.FitsOn(b.state.View(), other, "")
	if timing.begun != begun {
		t.Errorf("questions were timed %d times", timing.begun-begun)
	}
	timing.samples = false
	for i := range 20 {
		b.place(t, b.pod(2+i, func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"pool": fmt.Sprint("pool-", i%10)} }))
	}
	if timing.begun != begun {
		t.Errorf("decisions that are not sampled were timed %d times", timing.begun-begun)
	}
}

// TestTimingDecidesNothing places the same pods with each decision sampled, and with
// none.
func TestTimingDecidesNothing(t *testing.T) {
	run := func(timing engine.Timing) (nodes []string) {
		b := timedBench(t, 200, timing)
		for i := range 400 {
			pod := b.pod(i, func(p *v1.Pod) {
				shapes[[]string{"plain", "selective"}[i%2]](p)
				p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = *resource.NewMilliQuantity(int64(100+i%7*37+i/200*i), resource.DecimalSI)
				if i%5 == 0 {
					p.Labels = map[string]string{"app": "web"}
					build.ScheduleAnyway("topology.kubernetes.io/zone", "app=web")(p)
				}
			})
			d := b.engine.Decide(b.state.View(), plan.Alone(pod))
			assume(b.state, d)
			nodes = append(nodes, d.Placement.NodeName)
		}
		return nodes
	}
	if with, without := run(&clocked{samples: true}), run(nil); !slices.Equal(with, without) {
		t.Error("decisions that are timed differ")
	}
}

// BenchmarkTiming compares decisions without a Timing, with one that does not sample
// them, and with one that does. Each follows a change of one node.
func BenchmarkTiming(b *testing.B) {
	for _, row := range []struct {
		name   string
		timing engine.Timing
	}{{"none", nil}, {"unsampled", &clocked{}}, {"sampled", &clocked{samples: true}}} {
		b.Run(row.name, func(b *testing.B) {
			nodes := build.Sized(5000)
			c := timedBench(b, nodes, row.timing)
			pods := make([]*model.Pod, min(nodes*20, 10_000))
			for i := range pods {
				pods[i] = c.pod(i, shapes["selective"])
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if i%len(pods) == 0 && i > 0 {
					b.StopTimer()
					c = timedBench(b, nodes, row.timing)
					b.StartTimer()
				}
				c.place(b, pods[i%len(pods)])
			}
		})
	}
}
