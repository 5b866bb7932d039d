package podtopologyspread

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// need is a pod's constraints of one action. For the pod's own constraints, the selectors
// are the only dependency on its labels. For default constraints, the labels and the
// controller determine the default selector, which can change at any time.
type need struct {
	pod    *model.Pod
	action v1.UnsatisfiableConstraintAction
	own    bool // the pod's own constraints, not the default ones
	rules  Rules
	// keysRequired means that only nodes with the keys of all constraints count.
	keysRequired bool
	list         []demand
	// nodes has the requirements of the constraints' policies. They are stored once,
	// since constraints can be many and a pod's affinity large.
	nodes inclusion
	err   error // why a selector cannot be parsed; then the list is incomplete
	// prepared is set by Prepare.
	prepared *prepared
}

// demand is a constraint from the pod's spec or the arguments.
type demand struct {
	*v1.TopologySpreadConstraint
	selector labels.Selector // for the pod's own constraints
	honors   honors
}

// honors is the set of inclusion parts that apply to a constraint.
type honors uint8

const (
	honorsAffinity honors = 1 << iota
	honorsTaints
	variants // number of combinations
)

// hard and soft are the needs of CountNeed and SetNeed.
type (
	hard struct{ *need }
	soft struct{ *need }
)

// specs returns the pod's constraints of one action, and whether they are its own. A pod
// with any constraint of its own gets no default ones, not even for the other action.
func (p *Plugin) specs(pod *v1.Pod, action v1.UnsatisfiableConstraintAction) (list []v1.TopologySpreadConstraint, own bool) {
	switch {
	case len(pod.Spec.TopologySpreadConstraints) > 0:
		return withAction(pod.Spec.TopologySpreadConstraints, action), true
	case action == v1.DoNotSchedule:
		return p.hardDefaults, false
	}
	return p.softDefaults, false
}

// need returns the constraints of one action, or nil without any.
func (p *Plugin) need(pod *model.Pod, action v1.UnsatisfiableConstraintAction) *need {
	specs, own := p.specs(pod.Object, action)
	if len(specs) == 0 || !own && !mayHaveDefaultSelector(pod.Object) {
		return nil
	}
	n := &need{
		pod: pod, action: action, own: own, rules: p.rules, keysRequired: action == v1.DoNotSchedule || own || p.keysForDefaults,
		list: make([]demand, 0, len(specs)),
	}
	for i := range specs {
		d := demand{TopologySpreadConstraint: &specs[i], honors: honored(&specs[i])}
		if own && i > 0 && selectAlike(&specs[i-1], &specs[i]) {
			d.selector = n.list[i-1].selector
		} else if own {
			if d.selector, n.err = selectorOf(d.TopologySpreadConstraint, pod.Object.Labels); n.err != nil {
				break
			}
		}
		n.list = append(n.list, d)
	}
	p.include(n)
	return n
}

// selectAlike reports whether two constraints of a pod have equal selectors. It returns
// false for selectors with expressions.
func selectAlike(a, b *v1.TopologySpreadConstraint) bool {
	x, y := a.LabelSelector, b.LabelSelector
	return x != nil && y != nil && len(x.MatchExpressions)+len(y.MatchExpressions) == 0 &&
		maps.Equal(x.MatchLabels, y.MatchLabels) && slices.Equal(a.MatchLabelKeys, b.MatchLabelKeys)
}

// demandText is the approximate length of a constraint's text.
const demandText = 64

// AppendText appends the canonical text. Needs with malformed constraints are equal
// exactly if they fail with the same error.
func (n *need) AppendText(text []byte) []byte {
	if n.err != nil {
		return fmt.Appendf(text, "error %v", n.err)
	}
	text = model.AppendQuote(slices.Grow(text, demandText*len(n.list)), n.pod.Namespace)
	if !n.own {
		text = appendDefaultSelector(text, n.pod.Object)
	}
	for i := range n.list {
		text = n.appendDemand(text, &n.list[i])
	}
	return n.nodes.appendText(text)
}

func (n *need) appendDemand(text []byte, d *demand) []byte {
	text = model.AppendQuote(append(text, ' '), d.TopologyKey)
	text = strconv.AppendInt(append(text, ' '), int64(d.MaxSkew), 10)
	if n.own {
		text = model.AppendSelector(append(text, ' '), d.LabelSelector, matchLabels(d.TopologySpreadConstraint, n.pod.Object.Labels)...)
	}
	if n.action == v1.DoNotSchedule {
		if n.own {
			text = strconv.AppendBool(append(text, ' '), d.selector.Matches(n.pod.Labels))
		}
		text = strconv.AppendInt(append(text, ' '), int64(minDomains(d.TopologySpreadConstraint)), 10)
	}
	return strconv.AppendUint(append(text, ' '), uint64(d.honors), 10)
}

// mayHaveDefaultSelector reports whether any service or controller could give the pod a
// default selector. A pod without labels matches only services that select every pod, and
// these add nothing to the selector.
func mayHaveDefaultSelector(pod *v1.Pod) bool { return len(pod.Labels) > 0 || controllerOf(pod) != nil }

// controllerOf returns the pod's controller, if it is of a kind that has a selector.
func controllerOf(pod *v1.Pod) *metav1.OwnerReference {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return nil
	}
	switch owner.APIVersion + " " + owner.Kind {
	case "v1 ReplicationController", "apps/v1 ReplicaSet", "apps/v1 StatefulSet":
		return owner
	}
	return nil
}

func appendDefaultSelector(text []byte, pod *v1.Pod) []byte {
	text = model.AppendLabels(append(text, " belongs"...), pod.Labels)
	if owner := controllerOf(pod); owner != nil {
		text = model.AppendQuote(append(append(append(text, ' '), owner.Kind...), ' '), owner.Name)
	}
	return text
}

// minDomains returns the constraint's minDomains, 1 by default.
func minDomains(c *v1.TopologySpreadConstraint) int32 {
	if c.MinDomains == nil {
		return 1
	}
	return *c.MinDomains
}

// selectorOf returns the selector of a constraint of a pod with these labels.
func selectorOf(c *v1.TopologySpreadConstraint, own labels.Set) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil || len(c.MatchLabelKeys) == 0 {
		return selector, err
	}
	wanted := labels.Set{}
	for _, l := range matchLabels(c, own) {
		wanted[l.Key] = l.Value
	}
	requirements, _ := labels.SelectorFromSet(wanted).Requirements()
	return selector.Add(requirements...), nil
}

// matchLabels returns the labels that the constraint's matchLabelKeys require of counted
// pods. Keys that the pod lacks require nothing.
func matchLabels(c *v1.TopologySpreadConstraint, own labels.Set) []model.Label {
	var wanted []model.Label
	for _, key := range c.MatchLabelKeys {
		if value, ok := own[key]; ok {
			wanted = append(wanted, model.Label{Key: key, Value: value})
		}
	}
	return wanted
}

// inclusion is the need of a constraint's policies for nodes whose pods count. A nil part
// requires nothing.
type inclusion struct{ affinity, taints plugin.FilterNeed }

// honored returns the parts of an inclusion that a constraint's policies honor. A soft
// constraint on host names ignores its policies: each node counts its own pods.
func honored(c *v1.TopologySpreadConstraint) (h honors) {
	if countsOwn(c) {
		return 0
	}
	if c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == v1.NodeInclusionPolicyHonor {
		h |= honorsAffinity
	}
	if c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor {
		h |= honorsTaints
	}
	return h
}

// include computes the requirements of the policies, once for all constraints. A
// constraint does not honor a part without requirements.
func (p *Plugin) include(n *need) {
	var some, found honors
	for i := range n.list {
		some |= n.list[i].honors
	}
	if some&honorsAffinity != 0 {
		if n.nodes.affinity = p.affinity.FilterNeed(n.pod); n.nodes.affinity != nil {
			found |= honorsAffinity
		}
	}
	if some&honorsTaints != 0 {
		if n.nodes.taints = p.taints.FilterNeed(n.pod); n.nodes.taints != nil {
			found |= honorsTaints
		}
	}
	for i := range n.list {
		n.list[i].honors &= found
	}
}

// only returns the parts that a constraint honors.
func (in inclusion) only(h honors) inclusion {
	if h&honorsAffinity == 0 {
		in.affinity = nil
	}
	if h&honorsTaints == 0 {
		in.taints = nil
	}
	return in
}

// countsOwn reports whether each node counts its own pods only, as in scoring by host
// name.
func countsOwn(c *v1.TopologySpreadConstraint) bool {
	return c.WhenUnsatisfiable == v1.ScheduleAnyway && c.TopologyKey == v1.LabelHostname
}

func (in inclusion) appendText(text []byte) []byte {
	for _, need := range [...]plugin.FilterNeed{in.affinity, in.taints} {
		text = append(text, ' ')
		if need != nil {
			text = model.AppendQuote(text, string(need.AppendText(nil)))
		}
	}
	return text
}

// prepared is the part of compiled constraints that depends on the need alone. It is
// read-only.
type prepared struct {
	// sets are the nodes whose pods count, by the parts that a constraint honors.
	sets [variants]state.NodeSet
	// own are the pod's own constraints; nil for default constraints.
	own []constraint
}

// Prepare compiles the parts that depend on the need alone.
func (n *need) Prepare() {
	if n.err != nil || n.prepared != nil {
		return
	}
	var keys []string
	if n.keysRequired {
		if keys = keysOf(n.list); len(keys) == 1 {
			keys = nil // a node without the key is in no domain
		}
	}
	n.prepared = &prepared{sets: n.nodeSets(keys)}
	if n.own {
		n.prepared.own = n.ownConstraints()
	}
}

// ownConstraints returns the pod's own constraints. Equal selectors are shared.
func (n *need) ownConstraints() []constraint {
	known := map[string]*selected{}
	list := make([]constraint, 0, len(n.list))
	for i := range n.list {
		d := &n.list[i]
		text := string(model.AppendSelector(nil, d.LabelSelector, matchLabels(d.TopologySpreadConstraint, n.pod.Object.Labels)...))
		of := known[text]
		if of == nil {
			of = selectPods(n.pod, d.selector, text, n.rules.EmptySelector)
			known[text] = of
		}
		list = append(list, n.constraint(d, of))
	}
	return list
}

// constraint returns a compiled constraint that counts the selected pods.
func (n *need) constraint(d *demand, of *selected) constraint {
	return constraint{
		key: d.TopologyKey, maxSkew: d.MaxSkew, minDomains: minDomains(d.TopologySpreadConstraint),
		selected: of, nodes: n.prepared.sets[d.honors],
	}
}

// nodeSets returns the nodes whose pods count, by the parts that a constraint honors.
// Only nodes with the given keys are included.
func (n *need) nodeSets(keys []string) (sets [variants]state.NodeSet) {
	var made [variants]bool
	for i := range n.list {
		h := n.list[i].honors
		if made[h] {
			continue
		}
		in, m := n.nodes.only(h), membership{keys: keys}
		for _, need := range [...]plugin.FilterNeed{in.affinity, in.taints} {
			if need != nil {
				m.filters = append(m.filters, need.Compile().NodeVerdicts)
			}
		}
		sets[h], made[h] = m.nodeSet(in), true
	}
	return sets
}
