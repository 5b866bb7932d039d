package state_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
)

// manyTallies returns a state with nodes in three zones, and the given number of live
// tallies, one for each app, which has a pod.
func manyTallies(t testing.TB, nodes, tallies int) *state.State {
	s := state.New()
	var changes []model.Change
	for i := range nodes {
		changes = append(changes, model.Change{Kind: model.NodeSet, Node: model.NewNode(benchNode(i))})
	}
	s.Apply(changes)
	for i := range tallies {
		s.Apply([]model.Change{{Kind: model.PodSet, Pod: appPod(fmt.Sprint("first-", i), fmt.Sprintf("app-%d", i), fmt.Sprintf("node-%d", i%nodes))}})
		countApp(t, s, fmt.Sprintf("app-%d", i), state.TopologyKey{Label: v1.LabelTopologyZone})
	}
	return s
}

func benchNode(i int) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i), Labels: map[string]string{v1.LabelTopologyZone: fmt.Sprint(i % 3)}}}
}

// countApp returns the tally of the pods of an app.
func countApp(t testing.TB, s *state.State, app string, key state.TopologyKey) *state.Tally {
	term, err := model.NewTerm("default", &v1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}})
	if err != nil {
		t.Fatal(err)
	}
	return s.Tally(state.PodSet{Text: app, Terms: []*model.Term{term}}, key, state.NodeSet{})
}

func appPod(name, app, node string) *model.Pod {
	return model.NewPod(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{
			"app": app, "pod-template-hash": "5d4f8c7b9", "team": "shop", "tier": "front",
		}},
		Spec: v1.PodSpec{NodeName: node},
	})
}

// BenchmarkPodComesAndGoes adds and removes a pod that no live tally counts, or that one
// counts.
func BenchmarkPodComesAndGoes(b *testing.B) {
	for _, row := range []struct{ name, app string }{{"counted=0", "other"}, {"counted=1", "app-500"}} {
		b.Run("tallies=1000/"+row.name, func(b *testing.B) {
			s := manyTallies(b, 5000, 1000)
			pod := appPod("pod", row.app, "node-17")
			set := []model.Change{{Kind: model.PodSet, Pod: pod}}
			gone := []model.Change{{Kind: model.PodGone, Key: pod.Key()}}
			b.ReportAllocs()
			for b.Loop() {
				s.Apply(set)
				s.Apply(gone)
			}
		})
	}
}

// BenchmarkTenants adds and removes a pod beside the tallies of tenants, each of which
// demands the same label in its own namespace.
func BenchmarkTenants(b *testing.B) {
	for _, tenants := range []int{1, 5000} {
		b.Run(fmt.Sprintf("tenants=%d", tenants), func(b *testing.B) {
			s := tenantTallies(b, 5000, tenants)
			pod := tenantPod("tenant-0", "pod", "node-17")
			set := []model.Change{{Kind: model.PodSet, Pod: pod}}
			gone := []model.Change{{Kind: model.PodGone, Key: pod.Key()}}
			b.ReportAllocs()
			for b.Loop() {
				s.Apply(set)
				s.Apply(gone)
			}
		})
	}
}

// tenantTallies returns a state with a live tally of the pods app=web for each tenant's
// namespace.
func tenantTallies(t testing.TB, nodes, tenants int) *state.State {
	s := manyTallies(t, nodes, 0)
	for i := range tenants {
		term, err := model.NewTerm(fmt.Sprintf("tenant-%d", i), &v1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}})
		if err != nil {
			t.Fatal(err)
		}
		s.Apply([]model.Change{{Kind: model.PodSet, Pod: tenantPod(fmt.Sprintf("tenant-%d", i), "first", fmt.Sprintf("node-%d", i%nodes))}})
		s.Tally(state.PodSet{Text: fmt.Sprint(i), Terms: []*model.Term{term}}, state.TopologyKey{Label: v1.LabelTopologyZone}, state.NodeSet{})
	}
	return s
}

func tenantPod(namespace, name, node string) *model.Pod {
	return model.NewPod(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       v1.PodSpec{NodeName: node},
	})
}

// BenchmarkNodeChanges changes a label or a taint of a node with some pods, beside live
// tallies.
func BenchmarkNodeChanges(b *testing.B) {
	for _, tallies := range []int{0, 2400} {
		for _, row := range []struct {
			name   string
			change func(n *v1.Node, i int)
		}{
			{"label", func(n *v1.Node, i int) { n.Labels["other"] = fmt.Sprint(i % 2) }},
			{"zone", func(n *v1.Node, i int) { n.Labels[v1.LabelTopologyZone] = fmt.Sprint(i % 2) }},
			{"taint", func(n *v1.Node, i int) {
				n.Spec.Taints = []v1.Taint{{Key: "a", Value: fmt.Sprint(i % 2), Effect: v1.TaintEffectNoSchedule}}
			}},
		} {
			b.Run(fmt.Sprintf("nodes=5000/tallies=%d/%s", tallies, row.name), func(b *testing.B) {
				s := manyTallies(b, 5000, tallies)
				for i := range 30 {
					s.Apply([]model.Change{{Kind: model.PodSet, Pod: appPod(fmt.Sprint("pod-", i), fmt.Sprintf("app-%d", i), "node-17")}})
				}
				var changes [2][]model.Change
				for i := range changes {
					n := benchNode(17)
					row.change(n, i)
					changes[i] = []model.Change{{Kind: model.NodeSet, Node: model.NewNode(n)}}
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					s.Apply(changes[i%2])
				}
			})
		}
	}
}

// BenchmarkSlotsAreGivenBack measures one step of releasing slots after a cluster has
// shrunk from 6,000 nodes to 700, beside live tallies. The maximum number of nodes moves,
// with their entries in all tallies.
func BenchmarkSlotsAreGivenBack(b *testing.B) {
	for _, tallies := range []int{1, 1000} {
		b.Run(fmt.Sprintf("tallies=%d", tallies), func(b *testing.B) {
			const nodes, left = 6000, 700
			s := state.New()
			for b.Loop() {
				if s.Slots() <= 1024 || s.Slots() <= 4*left {
					b.StopTimer()
					s = manyTallies(b, nodes, tallies)
					var gone []model.Change
					for i := range nodes - left {
						gone = append(gone, model.Change{Kind: model.NodeGone, Name: fmt.Sprintf("node-%d", i)})
					}
					s.Apply(gone)
					b.StartTimer()
				}
				s.Apply(nil)
			}
		})
	}
}
