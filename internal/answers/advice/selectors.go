package advice

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/berth-scheduler/berth/internal/model/spelling"
)

// selectors returns changes that replace or drop one of the pod's requirements on node
// labels.
func (t *trial) selectors() []knob {
	var knobs []knob
	for _, key := range slices.Sorted(maps.Keys(t.Pod.Spec.NodeSelector)) {
		knobs = append(knobs, t.nodeSelector(key, t.Pod.Spec.NodeSelector[key])...)
	}
	required := requiredOf(t.Pod)
	if required == nil {
		return knobs
	}
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		for j := range term.MatchExpressions {
			knobs = append(knobs, t.expression(i, &term.MatchExpressions[j])...)
		}
		for j := range term.MatchFields {
			knobs = append(knobs, t.field(i, &term.MatchFields[j]))
		}
	}
	// Dropping the only requirement of one of several terms would drop the term, and
	// select fewer nodes.
	if len(required.NodeSelectorTerms) > 1 {
		knobs = append(knobs, single("", t.ofPod(DropSelector, int64(len(required.NodeSelectorTerms)), func(p *v1.Pod) {
			p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
		}, "drop the required node affinity")))
	}
	return knobs
}

// requiredOf returns the required terms of a pod's node affinity; nil if it has none.
func requiredOf(p *v1.Pod) *v1.NodeSelector {
	if p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil {
		return nil
	}
	return p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// nodeSelector returns the changes of one label of spec.nodeSelector.
func (t *trial) nodeSelector(key, value string) []knob {
	group, kind := "nodeSelector "+key, Selector
	if valuesOf(t.Nodes, key)[value] {
		kind = Widen
	}
	var knobs []knob
	for _, w := range firstOf(t, near(value, valuesOf(t.Nodes, key))) {
		knobs = append(knobs, single(group, t.ofPod(kind, w.far, func(p *v1.Pod) { p.Spec.NodeSelector[key] = w.word },
			"change the node selector %s=%s to %s=%s", key, value, key, w.word)))
	}
	for _, w := range near(key, keysWith(t.Nodes, value)) {
		if w.far > int64(max(2, len(key)/4)) || hasKey(t.Pod.Spec.NodeSelector, w.word) {
			continue
		}
		knobs = append(knobs, single(group, t.ofPod(kind, w.far, func(p *v1.Pod) {
			delete(p.Spec.NodeSelector, key)
			p.Spec.NodeSelector[w.word] = value
		}, "change the node selector %s=%s to %s=%s", key, value, w.word, value)))
	}
	slices.SortStableFunc(knobs, func(a, b knob) int { return cmp.Compare(a.at(0).Size, b.at(0).Size) })
	return append(knobs, single("", t.ofPod(DropSelector, 1, func(p *v1.Pod) { delete(p.Spec.NodeSelector, key) }, "drop the node selector %s=%s", key, value)))
}

func hasKey(selector map[string]string, key string) bool {
	_, ok := selector[key]
	return ok
}

// expression returns the changes of one requirement in a term of the node affinity.
func (t *trial) expression(i int, e *v1.NodeSelectorRequirement) []knob {
	text := textOf(e)
	knobs := []knob{t.dropped(i, text, func(term *v1.NodeSelectorTerm) { term.MatchExpressions = without(term.MatchExpressions, e) })}
	kind := Selector
	if values := valuesOf(t.Nodes, e.Key); e.Operator != v1.NodeSelectorOpIn || slices.ContainsFunc(e.Values, func(v string) bool { return values[v] }) {
		kind = Widen
	}
	change := func(size int64, values []string, how string, value string) knob {
		return single(fmt.Sprintf("term %d %s", i, text), t.ofPod(kind, size, func(p *v1.Pod) {
			if required := requiredOf(p); required != nil && i < len(required.NodeSelectorTerms) {
				all := required.NodeSelectorTerms[i].MatchExpressions
				if at := slices.IndexFunc(all, func(o v1.NodeSelectorRequirement) bool { return equality.Semantic.DeepEqual(&o, e) }); at >= 0 {
					all[at].Values = values
				}
			}
		}, "%s %s %s the node affinity %q", how, value, map[string]string{"add": "to", "remove": "from"}[how], text))
	}
	switch e.Operator {
	case v1.NodeSelectorOpIn:
		nearest := map[string]int64{}
		for _, had := range e.Values {
			for _, w := range near(had, valuesOf(t.Nodes, e.Key)) {
				if far, ok := nearest[w.word]; !slices.Contains(e.Values, w.word) && (!ok || w.far < far) {
					nearest[w.word] = w.far
				}
			}
		}
		words := slices.SortedFunc(maps.Keys(nearest), func(a, b string) int { return cmp.Or(cmp.Compare(nearest[a], nearest[b]), cmp.Compare(a, b)) })
		for _, word := range firstOf(t, words) {
			knobs = append(knobs, change(nearest[word], append(slices.Clone(e.Values), word), "add", word))
		}
	case v1.NodeSelectorOpNotIn:
		for at, value := range e.Values {
			if len(e.Values) > 1 {
				knobs = append(knobs, change(1, slices.Delete(slices.Clone(e.Values), at, at+1), "remove", value))
			}
		}
	}
	return knobs
}

// field returns the change of a requirement on a field. The only field is the node's
// name.
func (t *trial) field(i int, e *v1.NodeSelectorRequirement) knob {
	return t.dropped(i, textOf(e), func(term *v1.NodeSelectorTerm) { term.MatchFields = without(term.MatchFields, e) })
}

// dropped returns the change that drops a requirement of a term. An empty term would
// select nothing, so if no other term exists, the affinity is dropped.
func (t *trial) dropped(i int, text string, drop func(*v1.NodeSelectorTerm)) knob {
	return single("", t.ofPod(DropSelector, 1, func(p *v1.Pod) {
		required := requiredOf(p)
		if required == nil || i >= len(required.NodeSelectorTerms) {
			return
		}
		term := &required.NodeSelectorTerms[i]
		if drop(term); len(term.MatchExpressions)+len(term.MatchFields) == 0 && len(required.NodeSelectorTerms) == 1 {
			p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
		}
	}, "drop the node affinity %q", text))
}

// textOf returns a requirement on one line, in the format of kubectl describe.
func textOf(e *v1.NodeSelectorRequirement) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, ",")))
}

// neighbour is a word with its distance from another.
type neighbour struct {
	word string
	far  int64
}

// near sorts words by their distance from a given one, which is left out.
func near(from string, words map[string]bool) []neighbour {
	var all []neighbour
	for w := range words {
		if w != from {
			all = append(all, neighbour{w, int64(spelling.Distance(from, w))})
		}
	}
	slices.SortFunc(all, func(a, b neighbour) int { return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(a.word, b.word)) })
	return all
}

// valuesOf returns the values of a label on nodes.
func valuesOf(nodes []*v1.Node, key string) map[string]bool {
	values := map[string]bool{}
	for _, node := range nodes {
		if value, ok := node.Labels[key]; ok {
			values[value] = true
		}
	}
	return values
}

// keysWith returns the labels that have the value on some node.
func keysWith(nodes []*v1.Node, value string) map[string]bool {
	keys := map[string]bool{}
	for _, node := range nodes {
		for key, has := range node.Labels {
			if has == value {
				keys[key] = true
			}
		}
	}
	return keys
}
