// Package nodeaffinity limits a pod to the nodes that its node selector and node affinity
// allow, and prefers the nodes that the pod prefers.
//
// It takes a pod's spec, the configured affinity that is added to every pod's, and a
// node's labels and name. It returns a verdict, a raw score and, if the pod names nodes,
// the only nodes to check. It owns the compiled added affinity. It never fails because of
// an invalid required term: such a term matches nothing.
package nodeaffinity

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	affinity "k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Name is the plugin's name in the configuration.
const Name = "NodeAffinity"

const (
	addedMismatch = reason.Unresolvable | 1
	podMismatch   = reason.Unresolvable | 2
)

// Plugin filters and scores nodes by their labels and names.
type Plugin struct {
	// The configured affinity that is added to every pod's. addedRequired is nil if
	// nothing is added; a selector without terms matches no node.
	addedRequired  *matching
	addedPreferred []weightedTerm
	// addedKeys are the keys of the labels in the added affinity, for hints.
	addedKeys []model.Key
}

// New returns the plugin. Args may be nil. The error names the invalid field of the added
// affinity.
func New(args *configv1.NodeAffinityArgs) (*Plugin, error) {
	if args == nil || args.AddedAffinity == nil {
		return &Plugin{}, nil
	}
	added := args.AddedAffinity
	if err := check(added); err != nil {
		return nil, err
	}
	p := &Plugin{
		addedPreferred: weightedTermsOf(added.PreferredDuringSchedulingIgnoredDuringExecution),
	}
	if required := added.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		s := selectorOf(required)
		p.addedRequired, p.addedKeys = s.matching(), labelsNamed(nil, required)
	}
	return p, nil
}

// check validates the added affinity.
func check(added *v1.NodeAffinity) error {
	path := field.NewPath("addedAffinity")
	var errs []error
	if required := added.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		_, err := affinity.NewNodeSelector(required, field.WithPath(path.Child("requiredDuringSchedulingIgnoredDuringExecution")))
		errs = append(errs, err)
	}
	_, err := affinity.NewPreferredSchedulingTerms(added.PreferredDuringSchedulingIgnoredDuringExecution,
		field.WithPath(path.Child("preferredDuringSchedulingIgnoredDuringExecution")))
	errs = append(errs, err)
	if all := utilerrors.NewAggregate(errs); all != nil {
		return utilerrors.Flatten(all)
	}
	return nil
}

// Name returns "NodeAffinity".
func (*Plugin) Name() string { return Name }

// Parts returns the plugin's parts at the extension points.
func (p *Plugin) Parts() *plugin.Parts {
	return plugin.New(plugin.Parts{
		Name:              Name,
		EnqueueExtensions: &plugin.EnqueueExtensions{Events: p.EventsToRegister()},
		PreFilter:         &plugin.PreFilter{Run: p.PreFilter, Skips: p.Skips},
		Filter:            &plugin.Filter{Reads: plugin.Reads{Nodes: model.Labels}, Need: p.FilterNeed},
		Score:             &plugin.Score{Reads: p.ScoreReads(), Normalization: p.Normalization(), Need: p.ScoreNeed},
	})
}

// required returns the pod's required node affinity, or nil.
func required(pod *v1.Pod) *v1.NodeSelector {
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// preferred returns the pod's preferred terms.
func preferred(pod *v1.Pod) []v1.PreferredSchedulingTerm {
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		return a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// FilterNeed returns the pod's node selector and required terms. It is nil if the pod has
// neither and nothing is added.
func (p *Plugin) FilterNeed(pod *model.Pod) plugin.FilterNeed {
	need := requirements{added: p.addedRequired, labels: pod.Object.Spec.NodeSelector, terms: required(pod.Object)}
	if len(need.labels) == 0 && need.terms == nil && need.added == nil {
		return nil
	}
	if prepared, _, ok := plugin.Prepared[*requirements](pod); ok {
		// Also for plugins that count nodes by the affinity.
		need.compiled = prepared.compiled
	}
	return &need
}

// requirements are the node requirements of a pod.
type requirements struct {
	added  *matching // equal for all pods, so not in the text
	labels map[string]string
	terms  *v1.NodeSelector // may be nil
	// compiled is set by Prepare from terms.
	compiled *selector
}

// Prepare compiles the terms.
func (r *requirements) Prepare() {
	if r.terms != nil && r.compiled == nil {
		s := selectorOf(r.terms)
		r.compiled = &s
	}
}

func (r *requirements) AppendText(text []byte) []byte { return appendFilter(text, r.labels, r.terms) }

func (r *requirements) Compile() *plugin.Verdicts {
	f := &filter{added: r.added, labels: labelsOf(r.labels)}
	if r.Prepare(); r.compiled != nil {
		f.terms = r.compiled.matching()
	}
	f.verdicts.NodeVerdicts = f
	return &f.verdicts
}

type filter struct {
	added  *matching // nil if nothing is added
	labels []label
	terms  *matching // nil if the pod has none

	verdicts plugin.Verdicts
}

func (f *filter) Filter(node state.Node) reason.Code {
	object := node.Object()
	if f.added != nil && !f.added.matches(object) {
		return addedMismatch
	}
	if !haveAll(object.Labels, f.labels) || f.terms != nil && !f.terms.matches(object) {
		return podMismatch
	}
	return reason.None
}

func (*filter) Reasons(code reason.Code) []string {
	if code == addedMismatch {
		return []string{"node(s) didn't match scheduler-enforced node affinity"}
	}
	return []string{"node(s) didn't match Pod's node affinity/selector"}
}

// ScoreNeed returns the pod's preferred terms. It is nil without any, if none are added
// either. As in kube-scheduler, terms without effect, such as terms of weight 0, make the
// plugin score every node 0 instead of skipping.
func (p *Plugin) ScoreNeed(pod *model.Pod) plugin.ScoreNeed {
	need := &preferences{added: p.addedPreferred, terms: preferred(pod.Object)}
	if len(need.terms) == 0 && len(need.added) == 0 {
		return nil
	}
	if len(need.terms) > 0 {
		need.err = preferredErr(need.terms)
	}
	return need
}

// preferences are the node preferences of a pod.
type preferences struct {
	added []weightedTerm // equal for all pods, so not in the text
	terms []v1.PreferredSchedulingTerm
	err   error // why the terms cannot be parsed
	// compiled is set by Prepare from the added terms and the pod's terms.
	compiled *rated
}

// AppendText appends the terms. Needs with malformed terms are equal exactly if they fail
// with the same error.
func (p *preferences) AppendText(text []byte) []byte {
	if p.err != nil {
		return fmt.Appendf(text, "error %v", p.err)
	}
	return append(append(text, "score"...), scoreText(p.terms)...)
}

// Compile prepares the added and the pod's preferred terms. It fails if a term of the pod
// is malformed.
func (p *preferences) Compile() (plugin.NodeScores, error) {
	if p.err != nil {
		return plugin.NodeScores{}, p.err
	}
	p.Prepare()
	if p.compiled.many != nil {
		return plugin.NodeScores{RawScores: &manyScorer{matcherOf(p.compiled.many)}}, nil
	}
	return plugin.NodeScores{RawScores: &scorer{p.compiled.terms}}, nil
}

// Prepare compiles the terms.
func (p *preferences) Prepare() {
	if p.err == nil && p.compiled == nil {
		p.compiled = ratedOf(append(slices.Clone(p.added), weightedTermsOf(p.terms)...))
	}
}

// rated holds weighted terms, compiled.
type rated struct {
	terms []weightedTerm
	many  *index // instead of terms, if they are many
}

func ratedOf(weighted []weightedTerm) *rated {
	terms, weights := make([]term, len(weighted)), make([]int32, len(weighted))
	for i := range weighted {
		terms[i], weights[i] = weighted[i].term, weighted[i].weight
	}
	if sizeOf(terms) < indexFrom {
		return &rated{terms: weighted}
	}
	return &rated{many: indexOf(terms, weights)}
}

// manyScorer is a scorer with many terms.
type manyScorer struct{ terms *matcher }

// Score returns the sum of the weights of the terms that the node meets.
func (s *manyScorer) Score(node state.Node) int32 { return s.terms.weight(node.Object()) }

// ScoreReads returns the labels.
func (*Plugin) ScoreReads() model.Aspect { return model.Labels }

// Normalization scales the highest sum of weights to 100.
func (*Plugin) Normalization() model.Normalization { return model.Largest }

type scorer struct{ terms []weightedTerm }

// Score returns the sum of the weights of the terms that the node meets.
func (s *scorer) Score(node state.Node) int32 {
	object := node.Object()
	var sum int32
	for i := range s.terms {
		if s.terms[i].matches(object) {
			sum += s.terms[i].weight
		}
	}
	return sum
}
