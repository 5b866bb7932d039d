package podtopologyspread

import (
	"fmt"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/berth-scheduler/berth/internal/model"
)

// specs returns the constraints of one action that are asked of a pod, and whether they are its own. A pod with any constraint of its own
// gets no default ones, not even for the other action.
func (p *Plugin) specs(pod *v1.Pod, action v1.UnsatisfiableConstraintAction) (list []v1.TopologySpreadConstraint, own bool) {
	switch {
	case len(pod.Spec.TopologySpreadConstraints) > 0:
		return withAction(pod.Spec.TopologySpreadConstraints, action), true
	case action == v1.DoNotSchedule:
		return p.hardDefaults, false
	}
	return p.softDefaults, false
}

// need is the canonical text of the constraints of one action. A pod's own say which pods they select, and the pod's labels matter no
// further; for the default ones the labels and the controller decide what the pod belongs to, which may change at any time.
func (p *Plugin) need(pod *model.Pod, action v1.UnsatisfiableConstraintAction) model.Need {
	list, own := p.specs(pod.Object, action)
	if len(list) == 0 || !own && !mayBelong(pod.Object) {
		return model.Need{}
	}
	text := strconv.AppendQuote(nil, pod.Namespace)
	if !own {
		text = appendBelonging(text, pod.Object)
	}
	for i := range list {
		c := &list[i]
		text = fmt.Appendf(text, " %q %d", c.TopologyKey, c.MaxSkew)
		if own {
			selector, err := selectorOf(c, pod.Object.Labels)
			if err != nil {
				return model.NeedOf(fmt.Sprintf("error %v", err))
			}
			text = appendSelector(append(text, ' '), selector)
			if action == v1.DoNotSchedule {
				text = fmt.Appendf(text, " %t", selector.Matches(pod.Labels))
			}
		}
		if action == v1.DoNotSchedule {
			text = fmt.Appendf(text, " %d", minDomains(c))
		}
		in := p.inclusionOf(pod, c)
		text = fmt.Appendf(text, " %q %q", in.affinity, in.taints)
	}
	return model.NeedOf(string(text))
}

// mayBelong reports whether there can be a service or a controller that the pod belongs to. A service that selects a pod without labels
// selects every pod, which says nothing.
func mayBelong(pod *v1.Pod) bool { return len(pod.Labels) > 0 || controllerOf(pod) != nil }

// controllerOf returns the controller, if it is of a kind that says which pods it controls.
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

func appendBelonging(text []byte, pod *v1.Pod) []byte {
	text = model.AppendLabels(append(text, " belongs"...), pod.Labels)
	if owner := controllerOf(pod); owner != nil {
		text = fmt.Appendf(text, " %s %q", owner.Kind, owner.Name)
	}
	return text
}

// minDomains returns how many domains there should be.
func minDomains(c *v1.TopologySpreadConstraint) int32 {
	if c.MinDomains == nil {
		return 1
	}
	return *c.MinDomains
}

// selectorOf returns which pods a constraint of a pod with these labels selects. matchLabelKeys that the pod lacks are nothing.
func selectorOf(c *v1.TopologySpreadConstraint, own labels.Set) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil || len(c.MatchLabelKeys) == 0 {
		return selector, err
	}
	wanted := labels.Set{}
	for _, key := range c.MatchLabelKeys {
		if value, ok := own[key]; ok {
			wanted[key] = value
		}
	}
	requirements, _ := labels.SelectorFromSet(wanted).Requirements()
	return selector.Add(requirements...), nil
}

// appendSelector appends a selector in canonical form.
func appendSelector(text []byte, s labels.Selector) []byte {
	requirements, selectable := s.Requirements()
	if !selectable {
		return append(text, "nothing"...)
	}
	texts := make([]string, 0, len(requirements))
	for _, r := range requirements {
		operator := r.Operator()
		if operator == selection.Equals || operator == selection.DoubleEquals {
			operator = selection.In
		}
		values := slices.Sorted(slices.Values(r.ValuesUnsorted()))
		texts = append(texts, fmt.Sprintf("&%q %s %q", r.Key(), operator, slices.Compact(values)))
	}
	slices.Sort(texts)
	text = append(text, "all"...)
	for _, one := range slices.Compact(texts) {
		text = append(text, one...)
	}
	return text
}
