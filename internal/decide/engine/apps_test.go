package engine_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// appPod is a pod of an app that a Service selects, so that it has the default
// constraints. Its revision is a label value of its own.
func appPod(app, revision, replica int) *v1.Pod {
	p := gridPod("app", app*appsPods, func(*v1.PodSpec, *metav1.LabelSelector) {})
	p.Name = fmt.Sprintf("app-%d-%d-%d", app, revision, replica)
	p.Labels["pod-template-hash"] = fmt.Sprint(revision)
	return p
}

// serve adds a Service for each of the apps.
func (b *bench) serve(apps int) {
	changes := make([]model.Change, apps)
	for app := range apps {
		name := fmt.Sprintf("app-%d", app)
		service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "grid", Name: name}, Spec: v1.ServiceSpec{Selector: map[string]string{"app": name}}}
		changes[app] = model.Change{Kind: model.ObjectSet, Object: service, Ref: model.Ref{Kind: model.ServiceKind, Namespace: "grid", Name: name}}
	}
	b.state.Apply(changes)
}

func (b *bench) compiled(p *v1.Pod) *model.Pod {
	pod := model.NewPod(p)
	b.profile.Compile(pod)
	return pod
}

// BenchmarkManyApps places pods of one app after the other. Each app has 30 pods with
// default constraints: 5,000 apps need 10,000 tallies.
func BenchmarkManyApps(b *testing.B) {
	nodes := build.Sized(15000)
	for _, apps := range []int{build.Sized(500), build.Sized(5000)} {
		b.Run(fmt.Sprintf("nodes=%d/apps=%d", nodes, apps), func(b *testing.B) {
			const replicas = 30
			c := newBench(b, nodes)
			c.serve(apps)
			for i := range apps * replicas {
				p := appPod(i%apps, 0, i/apps)
				p.Spec.NodeName = fmt.Sprintf("node-%05d", i*7%nodes)
				c.state.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(p)}})
			}
			for app := range apps {
				c.place(b, c.compiled(appPod(app, 0, replicas)))
			}
			pods := make([]*model.Pod, min(b.N, 20000))
			for i := range pods {
				pods[i] = c.compiled(appPod(i%apps, 0, replicas+1+i/apps))
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if i > 0 && i%len(pods) == 0 {
					b.StopTimer()
					for _, pod := range pods {
						c.state.Apply([]model.Change{{Kind: model.PodGone, Key: pod.Key()}})
					}
					b.StartTimer()
				}
				c.place(b, pods[i%len(pods)])
			}
			b.StopTimer()
			b.ReportMetric(float64(c.state.TallyBytes())/(1<<20), "tally-MiB")
		})
	}
}

// rollOut replaces the pod of an app by a pending pod of the next revision, and places
// it.
func (b *bench) rollOut(t testing.TB, app, revision int) {
	b.place(t, b.compiled(appPod(app, revision, 0)))
	b.state.Apply([]model.Change{{Kind: model.PodGone, Key: model.PodKey{Namespace: "grid", Name: fmt.Sprintf("app-%d-%d-0", app, revision-1)}}})
}

// BenchmarkAfterRollouts measures work after many rollouts of the same 100 apps of one
// pod each. The rollout places a pod of a new revision and removes the pod of the
// revision before. The other case changes a node's label.
func BenchmarkAfterRollouts(b *testing.B) {
	for _, rollouts := range []int{10, build.Sized(100_000)} {
		const apps = 100
		c, done := newBench(b, 1000), 0
		next := func() {
			c.rollOut(b, done%apps, 1+done/apps)
			done++
		}
		c.serve(apps)
		for range apps + rollouts {
			next()
		}
		heap := heapBytes()
		name := fmt.Sprintf("nodes=1000/rollouts=%d", rollouts)
		b.Run(name+"/rollout", func(b *testing.B) {
			for b.Loop() {
				next()
			}
			b.ReportMetric(float64(heap)/(1<<20), "heap-MiB")
		})
		b.Run(name+"/label", func(b *testing.B) {
			var versions [2][]model.Change
			for i := range versions {
				n := benchNode(17)
				n.Labels["other"] = fmt.Sprint(i)
				versions[i] = []model.Change{{Kind: model.NodeSet, Node: model.NewNode(n)}}
			}
			for i := 0; b.Loop(); i++ {
				c.state.Apply(versions[i%2])
			}
		})
	}
}

// TestRolloutsLeaveNothingBehind counts the cached values after many rollouts of
// hard-spread apps, whose tallies and images belong to one revision each.
func TestRolloutsLeaveNothingBehind(t *testing.T) {
	build.NotRaced(t)
	const apps = 20
	const revisions = 600
	c := newBench(t, 50)
	rollOut := func(i int) {
		app, revision := i%apps, i/apps
		p := appPod(app, revision, 0)
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.DoNotSchedule, MatchLabelKeys: []string{"pod-template-hash"},
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"], "pod-template-hash": p.Labels["pod-template-hash"]}},
		}}
		p.Spec.Containers[0].Image = fmt.Sprintf("registry.example/app:%d", revision)
		c.place(t, c.compiled(p))
		c.state.Apply([]model.Change{{Kind: model.PodGone, Key: model.PodKey{Namespace: "grid", Name: fmt.Sprintf("app-%d-%d-0", app, revision-1)}}})
	}
	most, bytes, columns := 0, 0, 0
	for i := range revisions * apps {
		rollOut(i)
		most, bytes = max(most, c.state.Tallies()), max(bytes, c.state.TallyBytes())
		columns = max(columns, c.engine.Columns())
	}
	if most > 300 || bytes > 1<<20 {
		t.Errorf("up to %d tallies of %d bytes are kept for %d apps", most, bytes, apps)
	}
	if columns > 300 { // a revision of all apps is 20 decisions
		t.Errorf("up to %d columns are kept after %d revisions", columns, revisions)
	}
}
