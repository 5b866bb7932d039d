package podtopologyspread

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// constraint is a compiled spread constraint.
type constraint struct {
	key                 string
	maxSkew, minDomains int32
	// selected are the pods to count. All default constraints of a pod share one.
	selected *selected
	// nodes are the nodes whose pods count.
	nodes state.NodeSet
}

// constraints are the pod's constraints of one action. One goroutine uses them.
type constraints struct {
	list []constraint
	// defaults is the selector of default constraints; nil for a pod's own constraints.
	defaults *defaultSelector
}

// compile prepares the constraints.
func (n *need) compile() (constraints, error) {
	if n.err != nil {
		return constraints{}, fmt.Errorf("obtaining pod's %s topology spread constraints: %w", hardness(n.action), n.err)
	}
	n.Prepare()
	if n.own {
		return constraints{list: n.prepared.own}, nil
	}
	all := constraints{defaults: newDefaultSelector(n.pod), list: make([]constraint, 0, len(n.list))}
	for i := range n.list {
		all.list = append(all.list, n.constraint(&n.list[i], &all.defaults.selected))
	}
	return all, nil
}

// hardness returns kube-scheduler's word for constraints of the action.
func hardness(action v1.UnsatisfiableConstraintAction) string {
	if action == v1.DoNotSchedule {
		return "hard"
	}
	return "soft"
}

// keysOf returns the topology keys, sorted and distinct.
func keysOf(list []demand) []string {
	var keys []string
	for i := range list {
		keys = append(keys, list[i].TopologyKey)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// apply updates the default selector. It reports whether any constraint applies at
// present.
func (c *constraints) apply(v state.View) bool {
	if c.defaults == nil {
		return true
	}
	return c.defaults.refresh(v)
}

// anyAbsent reports whether no node has the key of some constraint. If nodes must have
// all keys, no node then counts for any constraint.
func (c *constraints) anyAbsent(v state.View) bool {
	return slices.ContainsFunc(c.list, func(c constraint) bool { return c.isAbsent(v) })
}

// isAbsent reports whether no node has the constraint's key.
func (c *constraint) isAbsent(v state.View) bool { return c.key != "" && !v.Carried(c.key) }

// selected are the pods that a constraint counts.
type selected struct {
	// pods are not counted if the selector selects nothing. Without Rules.EmptySelector a
	// selector of all pods counts none, too.
	pods state.PodSet
	// self is 1 if the selector selects the pod itself.
	self int32
}

// selectPods returns the pods in the pod's namespace that a selector with this canonical
// text selects. emptySelects means that an empty selector counts all pods.
func selectPods(pod *model.Pod, selector labels.Selector, text string, emptySelects bool) *selected {
	s := &selected{pods: state.PodSet{
		Text:    string(append(append(model.AppendQuote([]byte("spread "), pod.Namespace), ' '), text...)),
		Terms:   []*model.Term{{Namespaces: []string{pod.Namespace}, Selector: selector}},
		Staying: true,
	}}
	_, selectable := selector.Requirements()
	s.pods.Uncounted = !selectable || selector.Empty() && !emptySelects
	if selector.Matches(pod.Labels) {
		s.self = 1
	}
	return s
}

// defaultSelector is the selector of a pod's default constraints. It depends on services
// and the pod's controller, and is rebuilt if a relevant one has changed.
type defaultSelector struct {
	pod      *model.Pod            // only the parts that the selector depends on
	version  state.SelectorVersion // of its inputs, at the last build or check
	selected selected
	// No service or controller has a selector, so no constraint applies to the pod.
	empty bool
}

func newDefaultSelector(pod *model.Pod) *defaultSelector {
	object := &v1.Pod{}
	object.Namespace, object.Labels = pod.Namespace, pod.Object.Labels
	if owner := controllerOf(pod.Object); owner != nil {
		object.OwnerReferences = append(object.OwnerReferences, *owner)
	}
	return &defaultSelector{pod: &model.Pod{Object: object, Namespace: pod.Namespace, Labels: pod.Labels}}
}

func (d *defaultSelector) refresh(v state.View) (applies bool) {
	version, same := v.DefaultSelectorVersion(d.pod, d.version)
	if d.version = version; !same {
		selector := v.DefaultSelector(d.pod)
		d.empty = selector.Empty()
		d.selected = *selectPods(d.pod, selector, "default "+selector.String(), false)
	}
	return !d.empty
}

// membership decides whether a node's pods count.
type membership struct {
	keys    []string
	filters []plugin.NodeVerdicts
}

// nodeSet returns the nodes as a set, with a canonical text.
func (m membership) nodeSet(in inclusion) state.NodeSet {
	if len(m.keys) == 0 && len(m.filters) == 0 {
		return state.NodeSet{}
	}
	text := in.appendText(fmt.Appendf(nil, "spread %q", m.keys))
	if len(text) >= model.LongText {
		return state.NodeSet{Text: model.LongNeedOf(text).String(), Match: m.has}
	}
	return state.NodeSet{Text: string(text), Match: m.has}
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
