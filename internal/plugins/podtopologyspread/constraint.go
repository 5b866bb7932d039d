package podtopologyspread

import (
	"fmt"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugins/compiled"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

// constraint is a spread constraint, ready to be held against the state.
type constraint struct {
	key                 string
	maxSkew, minDomains int32
	// selected are the pods it is about; all default constraints of a pod share one.
	selected *selected
	// nodes are those whose pods count.
	nodes state.NodeSet
}

// constraints are those of one action. One goroutine uses them.
type constraints struct {
	list []constraint
	// belonging says which pods default constraints are about; nil for a pod's own.
	belonging *belonging
}

// compile prepares the constraints of one action. Nodes count only if they have all keys, unless keysRequired is false.
func (p *Plugin) compile(pod *model.Pod, action v1.UnsatisfiableConstraintAction, keysRequired bool) (constraints, error) {
	specs, own := p.specs(pod.Object, action)
	var all constraints
	if !own {
		all.belonging = newBelonging(pod)
	}
	var keys []string
	if keysRequired {
		keys = keysOf(specs)
	}
	for i := range specs {
		spec := &specs[i]
		c := constraint{key: spec.TopologyKey, maxSkew: spec.MaxSkew, minDomains: minDomains(spec), nodes: p.nodeSet(pod, spec, keys)}
		if own {
			selector, err := selectorOf(spec, pod.Object.Labels)
			if err != nil {
				return constraints{}, fmt.Errorf("obtaining pod's %s topology spread constraints: %w", hardness(action), err)
			}
			c.selected = selectPods(pod, selector)
		} else {
			c.selected = &all.belonging.selected
		}
		all.list = append(all.list, c)
	}
	return all, nil
}

// hardness is what kube-scheduler calls constraints of the action.
func hardness(action v1.UnsatisfiableConstraintAction) string {
	if action == v1.DoNotSchedule {
		return "hard"
	}
	return "soft"
}

// keysOf returns the topology keys, sorted and distinct.
func keysOf(specs []v1.TopologySpreadConstraint) []string {
	var keys []string
	for i := range specs {
		keys = append(keys, specs[i].TopologyKey)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// apply brings up to date which pods the constraints are about. It reports whether there is any constraint at present.
func (c *constraints) apply(s *state.State) bool {
	if c.belonging == nil {
		return true
	}
	return c.belonging.refresh(s)
}

// selected are the pods that a constraint is about.
type selected struct {
	pods state.PodSet
	// none says that no pod is ever counted: the selector selects nothing, or everything, which is defined to count 0.
	none       bool
	everything bool
	// self is 1 if the pod itself is among them.
	self int32
}

func selectPods(pod *model.Pod, selector labels.Selector) *selected {
	s := &selected{pods: state.PodSet{
		Text:    string(appendSelector(append(strconv.AppendQuote([]byte("spread "), pod.Namespace), ' '), selector)),
		Terms:   []*model.Term{{Namespaces: []string{pod.Namespace}, Selector: selector}},
		Staying: true,
	}}
	_, selectable := selector.Requirements()
	s.everything = selector.Empty() && selectable
	s.none = s.everything || !selectable
	if selector.Matches(pod.Labels) {
		s.self = 1
	}
	return s
}

// belonging are the pods that belong together with a pod, which default constraints are about. Services and controllers decide that, so
// it is looked up again whenever one of those changed.
type belonging struct {
	pod      *model.Pod // only what decides what it belongs to
	looked   bool
	version  uint64 // of the owners, when last looked up
	selected selected
	alone    bool // the pod belongs to nothing, and no constraint applies to it
}

func newBelonging(pod *model.Pod) *belonging {
	object := &v1.Pod{}
	object.Namespace, object.Labels = pod.Namespace, pod.Object.Labels
	if owner := controllerOf(pod.Object); owner != nil {
		object.OwnerReferences = append(object.OwnerReferences, *owner)
	}
	return &belonging{pod: &model.Pod{Object: object, Namespace: pod.Namespace, Labels: pod.Labels}}
}

func (b *belonging) refresh(s *state.State) (applies bool) {
	if !b.looked || b.version != s.OwnersVersion() {
		b.looked, b.version = true, s.OwnersVersion()
		selector := s.BelongingSelector(b.pod)
		b.alone = selector.Empty()
		b.selected = *selectPods(b.pod, selector)
	}
	return !b.alone
}

// inclusion is what a constraint's policies ask of a node for its pods to count; zero where they ask nothing.
type inclusion struct{ affinity, taints model.Need }

// inclusionOf reads the policies. A soft constraint on host names ignores them: there a node counts its own pods.
func (p *Plugin) inclusionOf(pod *model.Pod, c *v1.TopologySpreadConstraint) inclusion {
	var in inclusion
	if countsOwn(c) {
		return in
	}
	if c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == v1.NodeInclusionPolicyHonor {
		in.affinity = p.affinity.FilterNeed(pod)
	}
	if c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor {
		in.taints = p.taints.FilterNeed(pod)
	}
	return in
}

// countsOwn says whether each node counts for itself alone, as in scoring by host name.
func countsOwn(c *v1.TopologySpreadConstraint) bool {
	return c.WhenUnsatisfiable == v1.ScheduleAnyway && c.TopologyKey == v1.LabelHostname
}

// nodeSet returns the nodes whose pods count for a constraint. Its own key needs no mention: a node without it is in no domain.
func (p *Plugin) nodeSet(pod *model.Pod, c *v1.TopologySpreadConstraint, keys []string) state.NodeSet {
	var m membership
	for _, key := range keys {
		if key != c.TopologyKey {
			m.keys = append(m.keys, key)
		}
	}
	in := p.inclusionOf(pod, c)
	if len(m.keys) == 0 && in == (inclusion{}) {
		return state.NodeSet{}
	}
	if !in.affinity.IsZero() {
		m.filters = append(m.filters, p.affinity.CompileFilter(pod))
	}
	if !in.taints.IsZero() {
		m.filters = append(m.filters, p.taints.CompileFilter(pod))
	}
	return state.NodeSet{Text: fmt.Sprintf("spread %q %q %q", m.keys, in.affinity, in.taints), Match: m.has}
}

// membership says whether a node's pods count.
type membership struct {
	keys    []string
	filters []compiled.Filter
}

func (m *membership) has(node state.Node) bool {
	set := node.Object().Labels
	for _, key := range m.keys {
		if _, ok := set[key]; !ok {
			return false
		}
	}
	for _, f := range m.filters {
		if f.Filter(node) != reason.None {
			return false
		}
	}
	return true
}
