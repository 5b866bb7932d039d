package podtopologyspread_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// shapes are the pods for which work is measured. Each has the label app=x, by which a
// service selects it.
var shapes = map[string][]podPart{
	"defaults":  nil,
	"hard-zone": {hard(zone, "app=x")},
	"hard-host": {hard(host, "app=x")},
	"soft-zone": {soft(zone, "app=x")},
	"all":       {hard(zone, "app=x", taintsPolicy("Honor")), hard(host, "app=x", skew(2)), soft(zone, "app=x"), soft(host, "app=x")},
}

// large is a cluster of three zones with ten pods on each node, one in a hundred of them
// app=x.
func large(t testing.TB, nodes int) *bench {
	var c oracle.Cluster
	c.Services = append(c.Services, service("x", "app=x"))
	for i := range nodes {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%05d", i)}}
		n.Labels = map[string]string{host: n.Name, zone: fmt.Sprintf("zone-%c", 'a'+i%3)}
		n.Status.Allocatable = v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("320"), v1.ResourceMemory: resource.MustParse("1280Gi"), v1.ResourcePods: resource.MustParse("1000"),
		}
		c.Nodes = append(c.Nodes, n)
		for k := range 10 {
			c.Pods = append(c.Pods, pod(on(n.Name), wearing(fmt.Sprintf("app=a%d", (10*i+k)%99))))
			if (10*i+k)%100 == 0 {
				c.Pods[len(c.Pods)-1].Labels["app"] = "x"
			}
		}
	}
	return newBench(t, c, spreadAlone())
}

func (b *bench) shaped(i int, shape string) *model.Pod {
	p := pod(append(shapes[shape], wearing("app=x"))...)
	p.Name = fmt.Sprintf("new-%d", i)
	return b.compile(p)
}

func (b *bench) place(t testing.TB, p *model.Pod) {
	d := b.engine.Decide(b.state.View(), plan.Alone(p))
	if d.Outcome != plan.Placed {
		t.Fatalf("pod %s: %+v", p, d)
	}
	b.state.Assume(d.Placement)
}

// TestSeenNeedCostsWhatChanged measures the work of placing pods with a compiled need.
// Each pod is added once to each tally that counts it, and nothing is counted again,
// whatever the size of the cluster.
func TestSeenNeedCostsWhatChanged(t *testing.T) {
	// Host names score by the pods of each node. Hard and soft constraints on zones share
	// a tally, unless a policy distinguishes them.
	tallies := map[string]int64{"defaults": 2, "hard-zone": 1, "hard-host": 1, "soft-zone": 1, "all": 4}
	for shape := range shapes {
		for _, nodes := range []int{100, 2000} {
			b := large(t, nodes)
			b.place(t, b.shaped(0, shape))
			updatesBefore, builtBefore := b.state.TallyWork()
			if builtBefore != tallies[shape] {
				t.Errorf("%s: %d tallies were built, want %d", shape, builtBefore, tallies[shape])
			}
			const placed = 20
			for i := range placed {
				b.place(t, b.shaped(i+1, shape))
			}
			updates, built := b.state.TallyWork()
			if updates-updatesBefore != placed*tallies[shape] || built != builtBefore {
				t.Errorf("%s, %d nodes: %d pods took %d updates and %d new tallies, want %d and 0",
					shape, nodes, placed, updates-updatesBefore, built-builtBefore, placed*tallies[shape])
			}
		}
	}
}

// TestDefaultsShareTallies gives each pod its own labels, as a StatefulSet does: the
// needs differ, the tallies do not.
func TestDefaultsShareTallies(t *testing.T) {
	b := large(t, 100)
	for i := range 50 {
		p := pod(wearing(fmt.Sprintf("app=x pod=%d", i)))
		p.Name = fmt.Sprintf("new-%d", i)
		b.place(t, b.compile(p))
	}
	if _, built := b.state.TallyWork(); built != 2 {
		t.Errorf("%d tallies were built, want 2", built)
	}
}

// Equal pods over equal nodes are counted once. The nodes that count for a constraint are
// those with all keys, in any order of the constraints. Two constraints on one key have
// the same nodes.
func TestConstraintsShareTallies(t *testing.T) {
	b := large(t, 30)
	app, tier := hard(zone, "app=x"), hard(host, "app=x", skew(100))
	for i, parts := range [][]podPart{{app, tier}, {tier, app}, {app, tier, hard(zone, "app=x", skew(7))}, {hard(zone, "app=x", domains(2)), tier}} {
		p := pod(append(parts, wearing("app=x"))...)
		p.Name = fmt.Sprintf("new-%d", i)
		b.place(t, b.compile(p))
		if _, built := b.state.TallyWork(); built != 2 {
			t.Errorf("after %d pods %d tallies were built, want one by zone and one by host", i+1, built)
		}
	}
	// Another key excludes the nodes that lack it. If these are all, nothing is counted;
	// otherwise these are other tallies.
	for _, want := range []int64{2, 4, 4} {
		p := pod(app, hard("rack", "app=x"), wearing("app=x"))
		b.engine.Decide(b.state.View(), plan.Alone(b.compile(p)))
		if _, built := b.state.TallyWork(); built != want {
			t.Errorf("%d tallies were built, want %d", built, want)
		}
		if want == 2 {
			n := b.state.Node(0).Object().DeepCopy()
			n.Labels["rack"] = "r"
			b.state.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(n)}})
		}
	}
}

func TestAllocatesNothing(t *testing.T) {
	for shape := range shapes {
		b := large(t, 500)
		b.place(t, b.shaped(0, shape))
		again := b.shaped(1, shape)
		work := plan.Alone(again)
		for range 12 { // until the nodes are ranked
			b.engine.Decide(b.state.View(), work)
		}
		if allocs := testing.AllocsPerRun(100, func() { b.engine.Decide(b.state.View(), work) }); allocs != 0 {
			t.Errorf("%s: a decision allocates %v times", shape, allocs)
		}
	}
}

const benchNodes = 5000

func BenchmarkRules(b *testing.B) {
	for _, shape := range []string{"hard-zone", "hard-host", "all"} {
		b.Run(shape, func(b *testing.B) {
			c := large(b, benchNodes)
			// So that no domain is empty, which would end the search for the smallest.
			for i := range benchNodes {
				p := pod(wearing("app=x"), on(fmt.Sprintf("node-%05d", i)))
				p.Name = fmt.Sprintf("on-%d", i)
				c.state.Apply(pods(p))
			}
			need := plugintest.Counting(newPlugin(b, spreadAlone()), c.shaped(0, shape))
			var to []plugin.CountRule
			to = plugintest.Rules(need, c.state, to)
			b.ReportAllocs()
			for b.Loop() {
				to = plugintest.Rules(need, c.state, to[:0])
			}
		})
	}
}

func BenchmarkScore(b *testing.B) {
	for _, shape := range []string{"defaults", "soft-zone", "all"} {
		b.Run(shape, func(b *testing.B) {
			c := large(b, benchNodes)
			need, err := plugintest.SetScores(newPlugin(b, spreadAlone()), c.shaped(0, shape))
			if err != nil {
				b.Fatal(err)
			}
			slots, scores := make([]int32, benchNodes), make([]int64, benchNodes)
			for i := range slots {
				slots[i] = int32(i)
			}
			b.ReportAllocs()
			for b.Loop() {
				if ok, err := need.Score(c.state.View(), slots, scores); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
}

// BenchmarkFirstSight decides for a new need, with pods to count.
func BenchmarkFirstSight(b *testing.B) {
	c := large(b, benchNodes)
	p := newPlugin(b, spreadAlone())
	var to []plugin.CountRule
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		need := plugintest.Counting(p, c.compile(pod(hard(host, fmt.Sprintf("app=y%d", i)))))
		to = plugintest.Rules(need, c.state, to[:0])
	}
}

// BenchmarkDecision places pods with a compiled need, one after the other.
func BenchmarkDecision(b *testing.B) {
	for _, shape := range []string{"defaults", "hard-zone", "all"} {
		b.Run(shape, func(b *testing.B) {
			c := large(b, benchNodes)
			c.place(b, c.shaped(0, shape))
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				b.StopTimer()
				p := c.shaped(i+1, shape)
				b.StartTimer()
				c.place(b, p)
			}
		})
	}
}

func BenchmarkNeeds(b *testing.B) {
	for _, shape := range []string{"defaults", "hard-zone", "all"} {
		b.Run(shape, func(b *testing.B) {
			p, waiting := newPlugin(b, spreadAlone()), model.NewPod(pod(append(shapes[shape], wearing("app=x"))...))
			b.ReportAllocs()
			for b.Loop() {
				plugintest.FilterNeed(p, waiting)
				plugintest.ScoreNeed(p, waiting)
			}
		})
	}
}

func BenchmarkHint(b *testing.B) {
	waiting := model.NewPod(pod(wearing("app=x"), hard(zone, "app=x"), hard(host, "app=x")))
	registration := newPlugin(b, spreadAlone()).EventsToRegister()[0]
	event := podEvent(model.Add, nil, pod(wearing("app=y"), on("n")))
	b.ReportAllocs()
	for b.Loop() {
		registration.Helps(waiting, event)
	}
}

// withServices returns a cluster with services in one namespace, each for one app, and a
// pod of the app "x" with default constraints.
func withServices(t testing.TB, services int) (*bench, *model.Pod) {
	c := oracle.Cluster{Nodes: zoned("a=z1 b=z2 c=z3")}
	for i := range services {
		c.Services = append(c.Services, service(fmt.Sprint("s", i), fmt.Sprintf("app=a%d,part-of=shop", i)))
	}
	c.Services = append(c.Services, service("x", "app=x,part-of=shop"))
	b := newBench(t, c, spreadAlone())
	return b, b.compile(pod(wearing("app=x,part-of=shop"), ownedBy("apps/v1", "ReplicaSet", "r")))
}

// unrelated returns the i-th version of a ReplicaSet of another app.
func unrelated(i int) []model.Change {
	return []model.Change{set(&appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}, Spec: appsv1.ReplicaSetSpec{Selector: choose(fmt.Sprintf("app In a%d", i))},
	})}
}

// TestUnrelatedServicesAreNotAsked places pods beside 5,000 services while a ReplicaSet
// of another app changes.
func TestUnrelatedServicesAreNotAsked(t *testing.T) {
	b, p := withServices(t, 5000)
	b.decide(t, p)
	before := b.state.ServicesAsked()
	if before > 8 {
		t.Errorf("the first decision matched %d services against its pod", before)
	}
	for i := range 20 {
		b.state.Apply(unrelated(i))
		b.decide(t, p)
	}
	if asked := b.state.ServicesAsked() - before; asked != 0 {
		t.Errorf("%d services were matched against pods that nothing has changed for", asked)
	}
}

func (b *bench) decide(t testing.TB, p *model.Pod) {
	if d := b.engine.Decide(b.state.View(), plan.Alone(p)); d.Outcome != plan.Placed {
		t.Fatalf("pod %s: %+v", p, d)
	}
}

// BenchmarkDefaultSelectorBesideServices decides about a pod with default constraints on
// three nodes: after a change of another app's ReplicaSet, after a change of a service
// that selects the pod, and for the first time.
func BenchmarkDefaultSelectorBesideServices(b *testing.B) {
	for _, services := range []int{10, 5000} {
		for _, row := range []struct {
			name    string
			changes [2][]model.Change // which alternate
		}{
			{"changed=unrelated", [2][]model.Change{unrelated(0), unrelated(1)}},
			{"changed=related", [2][]model.Change{{set(service("x", "app=x,part-of=shop"))}, {set(service("x", "app=x"))}}},
			{"changed=none", [2][]model.Change{}},
		} {
			b.Run(fmt.Sprintf("services=%d/%s", services, row.name), func(b *testing.B) {
				bench, p := withServices(b, services)
				bench.decide(b, p)
				b.ResetTimer()
				for i := range b.N {
					bench.state.Apply(row.changes[i%2])
					bench.decide(b, p)
				}
			})
		}
		b.Run(fmt.Sprintf("services=%d/first", services), func(b *testing.B) {
			bench, p := withServices(b, services)
			view := bench.state.View()
			b.ResetTimer()
			for range b.N {
				view.DefaultSelector(p)
			}
		})
	}
}
