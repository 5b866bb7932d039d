// Package nodedeclaredfeatures keeps a pod off nodes that do not declare the features
// that its spec requires.
//
// It takes a pod's spec, from which it infers features, and the features that a node
// declares, and returns a verdict. It owns the list of known features, which is fixed in
// New. It never infers anything from a node's version.
package nodedeclaredfeatures

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/component-helpers/nodedeclaredfeatures/features"
	"k8s.io/component-helpers/nodedeclaredfeatures/types"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Name is the plugin's name in the configuration.
const Name = "NodeDeclaredFeatures"

const undeclared = reason.Unresolvable | 1

// Plugin rejects nodes that lack a feature.
type Plugin struct {
	library *nodedeclaredfeatures.Framework
	version *version.Version
	known   []string // names of all features, sorted
}

// New returns the plugin for a scheduler of Kubernetes 1.37. Features whose last relevant
// version is older are not required.
func New() *Plugin { return newPlugin(37, features.AllFeatures) }

// New38 returns the plugin for a scheduler of Kubernetes 1.38.
func New38() *Plugin { return newPlugin(38, slices.Concat(features.AllFeatures, newer())) }

func newPlugin(minor uint, all []types.Feature) *Plugin {
	p := &Plugin{library: nodedeclaredfeatures.New(slices.Clone(all)), version: version.MajorMinor(1, minor)}
	for _, f := range all {
		p.known = append(p.known, f.Name())
	}
	slices.Sort(p.known)
	return p
}

// Name returns "NodeDeclaredFeatures".
func (*Plugin) Name() string { return Name }

// Parts returns the plugin's parts at the extension points.
func (p *Plugin) Parts() *plugin.Parts {
	return plugin.New(plugin.Parts{
		Name:              Name,
		EnqueueExtensions: &plugin.EnqueueExtensions{Events: p.EventsToRegister()},
		Filter:            &plugin.Filter{Reads: plugin.Reads{Nodes: model.Features}, Need: p.FilterNeed},
	})
}

// FilterNeed returns the set of required features, or nil if the pod requires none.
func (p *Plugin) FilterNeed(pod *model.Pod) plugin.FilterNeed {
	set := p.required(&pod.Object.Spec)
	if set.IsEmpty() {
		return nil
	}
	return required{set, p.known}
}

// Requires returns the names of the features that a pod requires, joined.
func (p *Plugin) Requires(pod *model.Pod) string {
	set := p.required(&pod.Object.Spec)
	var names []string
	for i, name := range p.known {
		if set.Get(i) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// required infers the features that a pod's spec requires.
func (p *Plugin) required(spec *v1.PodSpec) nodedeclaredfeatures.FeatureSet {
	set, err := p.library.InferForPodScheduling(&nodedeclaredfeatures.PodInfo{Spec: spec}, p.version)
	if err != nil {
		// The only possible error is a missing version.
		panic(fmt.Sprintf("nodedeclaredfeatures: infer the features of a pod: %v", err))
	}
	return set
}

// required is the set of features that a pod requires.
type required struct {
	set   nodedeclaredfeatures.FeatureSet
	known []string
}

// AppendText writes the set as a string of bits.
func (r required) AppendText(text []byte) []byte { return append(text, r.set.String()...) }

func (r required) Compile() *plugin.Verdicts {
	f := &filter{known: r.known, required: make([]bool, len(r.known))}
	for i := range f.required {
		if f.required[i] = r.set.Get(i); f.required[i] {
			f.count++
		}
	}
	return &plugin.Verdicts{NodeVerdicts: f}
}

type filter struct {
	known    []string // sorted
	required []bool   // by position in known
	count    int      // number of required features
}

// Filter merges the declared features with the known ones. Nodes must declare features in
// sorted order. Like kube-scheduler, Filter can miss a name that is out of order.
func (f *filter) Filter(node state.Node) reason.Code {
	declared := node.Object().Status.DeclaredFeatures
	found := 0
	for i, j := 0, 0; i < len(declared) && j < len(f.known) && found < f.count; {
		switch {
		case declared[i] == f.known[j]:
			if f.required[j] {
				found++
			}
			i, j = i+1, j+1
		case declared[i] < f.known[j]:
			i++
		default:
			j++
		}
	}
	if found < f.count {
		return undeclared
	}
	return reason.None
}

func (*filter) Reasons(reason.Code) []string {
	return []string{"node(s) didn't match Pod's required features"}
}

// EventsToRegister registers for nodes whose features change, and for updates of the
// waiting pod that change its required features.
func (p *Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{
		{Resource: model.NodeEvent, Actions: model.Add | model.UpdateNodeDeclaredFeature, Hint: declaresOthers},
		{Resource: model.TargetPodEvent, Actions: model.Update, Hint: p.requiresOthers},
	}
}

// declaresOthers reports whether the list of features changed, even by features that the
// pod does not require.
func declaresOthers(_ *model.Pod, e model.Event) bool {
	return e.OldNode == nil || !slices.Equal(e.OldNode.Object.Status.DeclaredFeatures, e.Node.Object.Status.DeclaredFeatures)
}

func (p *Plugin) requiresOthers(_ *model.Pod, e model.Event) bool {
	return !p.required(&e.OldPod.Object.Spec).Equal(p.required(&e.Pod.Object.Spec))
}
