package scenario

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// podAffinity adds a required term; a node must match at least one term.
func podAffinity(p *v1.Pod, _, value string) error {
	if value == none {
		affinityOf(p).NodeAffinity = nil
		return nil
	}
	term, err := termOf(value)
	if err != nil {
		return err
	}
	affinity := nodeAffinity(p)
	if affinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{}
	}
	required := affinity.RequiredDuringSchedulingIgnoredDuringExecution
	required.NodeSelectorTerms = append(required.NodeSelectorTerms, term)
	return nil
}

// podPreference adds a preferred term.
func podPreference(p *v1.Pod, _, value string) error {
	if value == none {
		nodeAffinity(p).PreferredDuringSchedulingIgnoredDuringExecution = nil
		return nil
	}
	preference, err := preferenceOf(value)
	if err != nil {
		return err
	}
	affinity := nodeAffinity(p)
	affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(affinity.PreferredDuringSchedulingIgnoredDuringExecution, preference)
	return nil
}

func affinityOf(p *v1.Pod) *v1.Affinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{}
	}
	return p.Spec.Affinity
}

func nodeAffinity(p *v1.Pod) *v1.NodeAffinity {
	affinity := affinityOf(p)
	if affinity.NodeAffinity == nil {
		affinity.NodeAffinity = &v1.NodeAffinity{}
	}
	return affinity.NodeAffinity
}

// preferenceOf parses WEIGHT:TERM.
func preferenceOf(value string) (v1.PreferredSchedulingTerm, error) {
	number, rest, ok := strings.Cut(value, ":")
	weight, err := strconv.ParseInt(number, 10, 32)
	if !ok || err != nil {
		return v1.PreferredSchedulingTerm{}, fmt.Errorf("%q does not begin with a weight and a colon", value)
	}
	term, err := termOf(rest)
	return v1.PreferredSchedulingTerm{Weight: int32(weight), Preference: term}, err
}

// termOf parses REQUIREMENT;REQUIREMENT;... all of which must match.
func termOf(value string) (v1.NodeSelectorTerm, error) {
	var term v1.NodeSelectorTerm
	if value == "" {
		return term, nil
	}
	for _, word := range strings.Split(value, ";") {
		field := strings.HasPrefix(word, "@")
		r, err := requirementOf(strings.TrimPrefix(word, "@"))
		if err != nil {
			return term, err
		}
		if field {
			if r.Key == "name" {
				r.Key = "metadata.name"
			}
			term.MatchFields = append(term.MatchFields, r)
		} else {
			term.MatchExpressions = append(term.MatchExpressions, r)
		}
	}
	return term, nil
}

// requirementOf parses K=V,W, K!=V,W, K>N, K<N, K or !K.
func requirementOf(word string) (v1.NodeSelectorRequirement, error) {
	operators := []struct {
		text     string
		operator v1.NodeSelectorOperator
	}{
		{"!=", v1.NodeSelectorOpNotIn}, {"=", v1.NodeSelectorOpIn}, {">", v1.NodeSelectorOpGt}, {"<", v1.NodeSelectorOpLt},
	}
	for _, o := range operators {
		if key, values, ok := strings.Cut(word, o.text); ok && key != "" {
			return v1.NodeSelectorRequirement{Key: labelKey(key), Operator: o.operator, Values: strings.Split(values, ",")}, nil
		}
	}
	key, absent := strings.CutPrefix(word, "!")
	if key == "" || strings.ContainsAny(key, "!=<>") {
		return v1.NodeSelectorRequirement{}, fmt.Errorf("%q is not a requirement: K=V,W K!=V,W K>N K<N K !K", word)
	}
	operator := v1.NodeSelectorOpExists
	if absent {
		operator = v1.NodeSelectorOpDoesNotExist
	}
	return v1.NodeSelectorRequirement{Key: labelKey(key), Operator: operator}, nil
}
