// Package tainttoleration keeps pods off nodes whose taints they do not tolerate, and away from nodes that would rather
// not have them.
//
// It takes a pod's tolerations and a node's taints; it gives a verdict from the taints that forbid (NoSchedule, NoExecute)
// and a raw score from those that advise (PreferNoSchedule). It owns nothing. It never looks at spec.unschedulable, and it
// never evicts: NoExecute counts here only for pods that are not on the node yet.
package tainttoleration

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugins/compiled"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

// Name is the plugin's name in the configuration.
const Name = "TaintToleration"

const untolerated = reason.Unresolvable | 1

// Plugin judges nodes by their taints.
type Plugin struct{ operators Operators }

// New returns the plugin. Tolerations with an operator outside the given set tolerate nothing.
func New(operators Operators) *Plugin { return &Plugin{operators: operators} }

// Name returns "TaintToleration".
func (*Plugin) Name() string { return Name }

// FilterNeed lists the tolerations of taints that forbid. It is zero for a pod that tolerates every such taint; a pod
// without tolerations has a need.
func (p *Plugin) FilterNeed(pod *model.Pod) model.Need {
	tolerated := tolerationsOf(pod.Object.Spec.Tolerations, forbids, p.operators)
	if tolerated.everything() {
		return model.Need{}
	}
	return tolerated.need("filter")
}

// FilterReads names the taints.
func (*Plugin) FilterReads() model.Aspect { return model.Taints }

// CompileFilter prepares the tolerations of taints that forbid.
func (p *Plugin) CompileFilter(pod *model.Pod) compiled.Filter {
	return &filter{tolerated: tolerationsOf(pod.Object.Spec.Tolerations, forbids, p.operators)}
}

type filter struct{ tolerated tolerations }

func (f *filter) Filter(node state.Node) reason.Code {
	if f.tolerated.allow(node.Object().Spec.Taints) {
		return reason.None
	}
	return untolerated
}

func (*filter) Reasons(reason.Code) []string { return []string{"node(s) had untolerated taint(s)"} }

// ScoreNeed lists the tolerations of taints that advise. It is never zero: reversed normalisation gives every node points
// even where no node has such a taint.
func (p *Plugin) ScoreNeed(pod *model.Pod) model.Need {
	return tolerationsOf(pod.Object.Spec.Tolerations, advises, p.operators).need("score")
}

// ScoreReads names the taints.
func (*Plugin) ScoreReads() model.Aspect { return model.Taints }

// CompileScore prepares the tolerations of taints that advise. It never fails.
func (p *Plugin) CompileScore(pod *model.Pod) (compiled.Scorer, error) {
	return &scorer{tolerated: tolerationsOf(pod.Object.Spec.Tolerations, advises, p.operators)}, nil
}

// Normalization gives the fewest untolerated taints the most points.
func (*Plugin) Normalization() model.Normalization { return model.LargestReversed }

type scorer struct{ tolerated tolerations }

// Score counts the PreferNoSchedule taints that the pod does not tolerate.
func (s *scorer) Score(node state.Node) int32 {
	taints := node.Object().Spec.Taints
	var count int32
	for i := range taints {
		if advises(taints[i].Effect) && !s.tolerated.tolerate(&taints[i]) {
			count++
		}
	}
	return count
}

func forbids(effect v1.TaintEffect) bool {
	return effect == v1.TaintEffectNoSchedule || effect == v1.TaintEffectNoExecute
}

func advises(effect v1.TaintEffect) bool { return effect == v1.TaintEffectPreferNoSchedule }

// Interests registers for nodes that lose their untolerated taints and for tolerations that the waiting pod gains or loses.
func (p *Plugin) Interests() []model.Interest {
	return []model.Interest{
		{Resource: model.NodeEvent, Actions: model.Add | model.UpdateNodeTaint, Hint: p.becomesTolerated},
		{Resource: model.TargetPodEvent, Actions: model.UpdatePodToleration},
	}
}

// Cause is the tolerations: pods that tolerate the same hear of the same nodes.
func (p *Plugin) Cause(pod *model.Pod) model.Cause { return model.Cause{Alike: p.FilterNeed(pod)} }

func (p *Plugin) becomesTolerated(waiting *model.Pod, e model.Event) bool {
	tolerated := tolerationsOf(waiting.Object.Spec.Tolerations, forbids, p.operators)
	return tolerated.allow(e.Node.Object.Spec.Taints) &&
		(e.OldNode == nil || !tolerated.allow(e.OldNode.Object.Spec.Taints))
}
