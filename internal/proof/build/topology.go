package build

import v1 "k8s.io/api/core/v1"

// ConstraintOption changes a new spread constraint.
type ConstraintOption func(*v1.TopologySpreadConstraint)

// Constraint makes a spread constraint with maxSkew 1 and without a selector by default.
func Constraint(action v1.UnsatisfiableConstraintAction, key string, options ...ConstraintOption) v1.TopologySpreadConstraint {
	c := v1.TopologySpreadConstraint{TopologyKey: key, WhenUnsatisfiable: action, MaxSkew: 1}
	for _, option := range options {
		option(&c)
	}
	return c
}

// DoNotSchedule adds a hard spread constraint. The selector is as in [Selector].
func DoNotSchedule(key, selector string, options ...ConstraintOption) PodOption {
	return spread(v1.DoNotSchedule, key, selector, options)
}

// ScheduleAnyway adds a soft spread constraint.
func ScheduleAnyway(key, selector string, options ...ConstraintOption) PodOption {
	return spread(v1.ScheduleAnyway, key, selector, options)
}

func spread(action v1.UnsatisfiableConstraintAction, key, selector string, options []ConstraintOption) PodOption {
	c := Constraint(action, key, options...)
	c.LabelSelector = Selector(selector)
	return func(p *v1.Pod) { p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c) }
}

// MaxSkew sets a constraint's maxSkew.
func MaxSkew(skew int32) ConstraintOption {
	return func(c *v1.TopologySpreadConstraint) { c.MaxSkew = skew }
}

// MinDomains sets a constraint's minDomains.
func MinDomains(least int32) ConstraintOption {
	return func(c *v1.TopologySpreadConstraint) { c.MinDomains = &least }
}

// NodeAffinityPolicy sets a constraint's nodeAffinityPolicy.
func NodeAffinityPolicy(policy v1.NodeInclusionPolicy) ConstraintOption {
	return func(c *v1.TopologySpreadConstraint) { c.NodeAffinityPolicy = &policy }
}

// NodeTaintsPolicy sets a constraint's nodeTaintsPolicy.
func NodeTaintsPolicy(policy v1.NodeInclusionPolicy) ConstraintOption {
	return func(c *v1.TopologySpreadConstraint) { c.NodeTaintsPolicy = &policy }
}

// MatchLabelKeys sets a constraint's matchLabelKeys.
func MatchLabelKeys(keys ...string) ConstraintOption {
	return func(c *v1.TopologySpreadConstraint) { c.MatchLabelKeys = keys }
}

// TermOption changes a new pod affinity term.
type TermOption func(*v1.PodAffinityTerm)

// Term makes a pod affinity term. The selector is as in [Selector].
func Term(key, selector string, options ...TermOption) v1.PodAffinityTerm {
	t := v1.PodAffinityTerm{TopologyKey: key, LabelSelector: Selector(selector)}
	for _, option := range options {
		option(&t)
	}
	return t
}

// Namespaces lists a term's namespaces.
func Namespaces(names ...string) TermOption {
	return func(t *v1.PodAffinityTerm) { t.Namespaces = names }
}

// NamespaceSelector selects a term's namespaces, as in [Selector].
func NamespaceSelector(selector string) TermOption {
	return func(t *v1.PodAffinityTerm) { t.NamespaceSelector = Selector(selector) }
}

// RequiredAffinity adds required pod affinity terms.
func RequiredAffinity(terms ...v1.PodAffinityTerm) PodOption {
	return func(p *v1.Pod) {
		to := &affinity(p).RequiredDuringSchedulingIgnoredDuringExecution
		*to = append(*to, terms...)
	}
}

// RequiredAntiAffinity adds required pod anti-affinity terms.
func RequiredAntiAffinity(terms ...v1.PodAffinityTerm) PodOption {
	return func(p *v1.Pod) {
		to := &antiAffinity(p).RequiredDuringSchedulingIgnoredDuringExecution
		*to = append(*to, terms...)
	}
}

// PreferredAffinity adds a preferred pod affinity term.
func PreferredAffinity(weight int32, term v1.PodAffinityTerm) PodOption {
	return func(p *v1.Pod) {
		to := &affinity(p).PreferredDuringSchedulingIgnoredDuringExecution
		*to = append(*to, v1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: term})
	}
}

// PreferredAntiAffinity adds a preferred pod anti-affinity term.
func PreferredAntiAffinity(weight int32, term v1.PodAffinityTerm) PodOption {
	return func(p *v1.Pod) {
		to := &antiAffinity(p).PreferredDuringSchedulingIgnoredDuringExecution
		*to = append(*to, v1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: term})
	}
}

func affinity(p *v1.Pod) *v1.PodAffinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{}
	}
	if p.Spec.Affinity.PodAffinity == nil {
		p.Spec.Affinity.PodAffinity = &v1.PodAffinity{}
	}
	return p.Spec.Affinity.PodAffinity
}

func antiAffinity(p *v1.Pod) *v1.PodAntiAffinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{}
	}
	if p.Spec.Affinity.PodAntiAffinity == nil {
		p.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{}
	}
	return p.Spec.Affinity.PodAntiAffinity
}
