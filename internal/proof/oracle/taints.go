package oracle

import v1 "k8s.io/api/core/v1"

func taintTolerationFilter(cy *cycle, n node) *Rejection {
	if !toleratesAll(cy.pod, n) {
		return &Rejection{Unresolvable: true, Reasons: []string{"node(s) had untolerated taint(s)"}}
	}
	return nil
}

// toleratesAll reports whether the pod tolerates all NoSchedule and NoExecute taints.
func toleratesAll(p *v1.Pod, n node) bool {
	for _, taint := range n.Spec.Taints {
		hard := taint.Effect == v1.TaintEffectNoSchedule || taint.Effect == v1.TaintEffectNoExecute
		if hard && !tolerated(p.Spec.Tolerations, taint) {
			return false
		}
	}
	return true
}

// taintTolerationScore counts the PreferNoSchedule taints that the pod does not tolerate;
// fewer is better.
func taintTolerationScore(cy *cycle) (scores, error) {
	var soft []v1.Toleration
	for _, t := range cy.pod.Spec.Tolerations {
		if t.Effect == "" || t.Effect == v1.TaintEffectPreferNoSchedule {
			soft = append(soft, t)
		}
	}
	raw := make([]int64, len(cy.feasible))
	for i, n := range cy.feasible {
		for _, taint := range n.Spec.Taints {
			if taint.Effect == v1.TaintEffectPreferNoSchedule && !tolerated(soft, taint) {
				raw[i]++
			}
		}
	}
	return byLargest(raw, true), nil
}

func tolerated(tolerations []v1.Toleration, taint v1.Taint) bool {
	for _, t := range tolerations {
		if tolerates(t, taint) {
			return true
		}
	}
	return false
}

// tolerates compares effect, key and value. Lt and Gt never tolerate: their feature gate
// (TaintTolerationComparisonOperators) is off.
func tolerates(t v1.Toleration, taint v1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect {
		return false
	}
	if t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case "", v1.TolerationOpEqual:
		return t.Value == taint.Value
	case v1.TolerationOpExists:
		return true
	}
	return false
}
