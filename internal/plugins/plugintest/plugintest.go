// Package plugintest builds the small clusters of plugins' test tables.
//
// It takes API objects and gives state views, through the same state that production uses. It owns nothing and is imported
// by tests only.
package plugintest

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

// Cluster returns a state that holds the nodes, and the pods on the nodes they name.
func Cluster(nodes []*v1.Node, pods ...*v1.Pod) *state.State {
	s := state.New()
	var changes []model.Change
	for _, n := range nodes {
		changes = append(changes, model.Change{Kind: model.NodeSet, Node: model.NewNode(n)})
	}
	for _, p := range pods {
		changes = append(changes, model.Change{Kind: model.PodSet, Pod: model.NewPod(p)})
	}
	s.Apply(changes)
	return s
}

// Node returns the view of a cluster's only node, with the given pods on it.
func Node(node *v1.Node, pods ...*v1.Pod) state.Node {
	placed := make([]*v1.Pod, len(pods))
	for i, p := range pods {
		on := p.DeepCopy()
		on.Spec.NodeName = node.Name
		placed[i] = on
	}
	s := Cluster([]*v1.Node{node}, placed...)
	slot, _ := s.Slot(node.Name)
	return s.Node(slot)
}

// FilterNeed returns the pod's need of a filter, interned; zero if it is nil.
func FilterNeed(p plugin.Filter, pod *model.Pod) model.Need {
	if counts, ok := p.(plugin.CountFilter); ok {
		return plugin.NeedOf(counts.CountNeed(pod))
	}
	return plugin.NeedOf(p.(plugin.NodeFilter).FilterNeed(pod))
}

// ScoreNeed returns the pod's need of a Score plugin, interned; zero if it is nil.
func ScoreNeed(p plugin.Score, pod *model.Pod) model.Need {
	if set, ok := p.(plugin.SetScore); ok {
		return plugin.NeedOf(set.SetNeed(pod))
	}
	return plugin.NeedOf(p.(plugin.NodeScore).ScoreNeed(pod))
}

// Verdicts compiles the pod's need of a filter. Without a need, every node passes.
func Verdicts(p plugin.NodeFilter, pod *model.Pod) plugin.Verdicts {
	if need := p.FilterNeed(pod); need != nil {
		return need.Compile()
	}
	return passing{}
}

type passing struct{}

func (passing) Filter(state.Node) reason.Code { return reason.None }
func (passing) Reasons(reason.Code) []string  { return nil }

// NodeScores compiles the pod's need of a Score plugin, which must not be nil.
func NodeScores(p plugin.NodeScore, pod *model.Pod) (plugin.NodeScores, error) {
	return p.ScoreNeed(pod).Compile()
}

// Counting compiles the pod's need of a CountFilter, which must not be nil.
func Counting(p plugin.CountFilter, pod *model.Pod) plugin.Counting {
	return p.CountNeed(pod).Compile()
}

// Rules returns the rules that hold in the state, after PreFilter, as in a pod's turn.
func Rules(c plugin.Counting, s *state.State, to []plugin.CountRule) []plugin.CountRule {
	if check, _, err := c.PreFilter(s.View()); !check || err != nil {
		return to
	}
	return c.Rules(s.View(), to)
}

// SetScores compiles the pod's need of a SetScore plugin, which must not be nil.
func SetScores(p plugin.SetScore, pod *model.Pod) (plugin.SetScores, error) {
	return p.SetNeed(pod).Compile()
}
