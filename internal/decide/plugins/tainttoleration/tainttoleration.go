// Package tainttoleration keeps pods off nodes with taints that they do not tolerate, and
// prefers nodes without PreferNoSchedule taints.
//
// It takes a pod's tolerations and a node's taints. It returns a verdict from the taints
// that forbid (NoSchedule, NoExecute) and a raw score from those that advise
// (PreferNoSchedule). It owns nothing. It never looks at spec.unschedulable, and it never
// evicts: NoExecute counts here only for pods that are not on the node yet.
package tainttoleration

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Name is the plugin's name in the configuration.
const Name = "TaintToleration"

const untolerated = reason.Unresolvable | 1

// Plugin filters and scores nodes by their taints.
type Plugin struct{ operators Operators }

// New returns the plugin. A toleration with an operator outside the set tolerates
// nothing.
func New(operators Operators) *Plugin { return &Plugin{operators: operators} }

// Name returns "TaintToleration".
func (*Plugin) Name() string { return Name }

// Parts returns the plugin's parts at the extension points.
func (p *Plugin) Parts() *plugin.Parts {
	return plugin.New(plugin.Parts{
		Name:              Name,
		EnqueueExtensions: &plugin.EnqueueExtensions{Events: p.EventsToRegister()},
		Filter:            &plugin.Filter{Reads: plugin.Reads{Nodes: model.Taints}, Need: p.FilterNeed},
		Score:             &plugin.Score{Reads: p.ScoreReads(), Normalization: p.Normalization(), Need: p.ScoreNeed},
	})
}

// FilterNeed returns the tolerations of taints that forbid. It is nil for a pod that
// tolerates every such taint. A pod without tolerations has a need.
func (p *Plugin) FilterNeed(pod *model.Pod) plugin.FilterNeed {
	tolerated := tolerationsOf(pod.Object.Spec.Tolerations, forbids, p.operators)
	switch {
	case len(tolerated) == 0:
		return intolerant
	case tolerated.everything():
		return nil
	}
	return &filter{tolerated: tolerated}
}

// intolerant is the FilterNeed of pods without tolerations.
var intolerant = &filter{}

// filter holds the tolerations of taints that forbid.
type filter struct {
	tolerated tolerations
	many      *index // set by Prepare for many tolerations
}

func (f *filter) AppendText(text []byte) []byte {
	return f.tolerated.appendText(append(text, "filter"...))
}

// Prepare indexes the tolerations.
func (f *filter) Prepare() {
	if f.many == nil && len(f.tolerated) >= indexFrom {
		f.many = f.tolerated.index()
	}
}

// Compile prepares the tolerations for many nodes.
func (f *filter) Compile() *plugin.Verdicts {
	f.Prepare()
	return &plugin.Verdicts{NodeVerdicts: f}
}

// allow reports whether every taint that forbids is tolerated.
func (f *filter) allow(taints []v1.Taint) bool {
	for i := range taints {
		if t := &taints[i]; forbids(t.Effect) && !tolerate(f.tolerated, f.many, t) {
			return false
		}
	}
	return true
}

func (f *filter) Filter(node state.Node) reason.Code {
	if f.allow(node.Object().Spec.Taints) {
		return reason.None
	}
	return untolerated
}

func (*filter) Reasons(reason.Code) []string { return []string{"node(s) had untolerated taint(s)"} }

// ScoreNeed returns the tolerations of taints that advise. It is never nil, because
// reversed normalization gives every node points even if no node has such a taint.
func (p *Plugin) ScoreNeed(pod *model.Pod) plugin.ScoreNeed {
	if tolerated := tolerationsOf(pod.Object.Spec.Tolerations, advises, p.operators); len(tolerated) > 0 {
		return &scorer{tolerated: tolerated}
	}
	return toleratesNothing
}

// toleratesNothing is the ScoreNeed of most pods.
var toleratesNothing = &scorer{}

// ScoreReads returns the taints.
func (*Plugin) ScoreReads() model.Aspect { return model.Taints }

// Normalization maps 0 untolerated taints to a score of 100.
func (*Plugin) Normalization() model.Normalization { return model.LargestReversed }

// scorer holds the tolerations of taints that advise.
type scorer struct {
	tolerated tolerations
	many      *index // set by Prepare for many tolerations
}

func (s *scorer) AppendText(text []byte) []byte {
	return s.tolerated.appendText(append(text, "score"...))
}

// Prepare indexes the tolerations.
func (s *scorer) Prepare() {
	if s.many == nil && len(s.tolerated) >= indexFrom {
		s.many = s.tolerated.index()
	}
}

// Compile never fails.
func (s *scorer) Compile() (plugin.NodeScores, error) {
	s.Prepare()
	return plugin.NodeScores{RawScores: s}, nil
}

// tolerate reports whether the tolerations tolerate a taint. It uses the index if
// present.
func tolerate(few tolerations, many *index, taint *v1.Taint) bool {
	if many != nil {
		return many.tolerate(taint)
	}
	return few.tolerate(taint)
}

// Score counts the PreferNoSchedule taints that the pod does not tolerate.
func (s *scorer) Score(node state.Node) int32 {
	taints := node.Object().Spec.Taints
	var count int32
	for i := range taints {
		if advises(taints[i].Effect) && !tolerate(s.tolerated, s.many, &taints[i]) {
			count++
		}
	}
	return count
}

func forbids(effect v1.TaintEffect) bool {
	return effect == v1.TaintEffectNoSchedule || effect == v1.TaintEffectNoExecute
}

func advises(effect v1.TaintEffect) bool { return effect == v1.TaintEffectPreferNoSchedule }
