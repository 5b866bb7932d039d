package state_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/state"
)

// manyTallies returns a state with nodes in three zones, and the given number of live tallies, one for each app.
func manyTallies(b *testing.B, nodes, tallies int) *state.State {
	s := state.New()
	var changes []model.Change
	for i := range nodes {
		changes = append(changes, model.Change{Kind: model.NodeSet, Node: model.NewNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("node-%d", i), Labels: map[string]string{v1.LabelTopologyZone: fmt.Sprint(i % 3)},
		}})})
	}
	s.Apply(changes)
	for i := range tallies {
		app := fmt.Sprintf("app-%d", i)
		term, err := model.NewTerm("default", &v1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}})
		if err != nil {
			b.Fatal(err)
		}
		s.Tally(state.PodSet{Text: app, Terms: []*model.Term{term}}, state.TopologyKey{Label: v1.LabelTopologyZone}, state.NodeSet{})
	}
	return s
}

// BenchmarkPodComesAndGoes adds and removes a pod that none of the live tallies counts, or that one counts.
func BenchmarkPodComesAndGoes(b *testing.B) {
	for _, row := range []struct{ name, app string }{{"counted=0", "other"}, {"counted=1", "app-500"}} {
		b.Run("tallies=1000/"+row.name, func(b *testing.B) {
			s := manyTallies(b, 5000, 1000)
			pod := model.NewPod(&v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", Labels: map[string]string{
					"app": row.app, "pod-template-hash": "5d4f8c7b9", "team": "shop", "tier": "front",
				}},
				Spec: v1.PodSpec{NodeName: "node-17"},
			})
			set := []model.Change{{Kind: model.PodSet, Pod: pod}}
			gone := []model.Change{{Kind: model.PodGone, Key: pod.Key()}}
			b.ReportAllocs()
			for range b.N {
				s.Apply(set)
				s.Apply(gone)
			}
		})
	}
}

// BenchmarkSlotsAreGivenBack measures one part of giving slots back after a cluster of 6,000 nodes has shrunk to 700, beside live tallies: as many
// nodes move, with their places in all tallies, as may move before one decision.
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
