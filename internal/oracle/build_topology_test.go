package oracle

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	zone = v1.LabelTopologyZone
	host = v1.LabelHostname
)

// zoned reads "a=z1 b=": node a in zone z1, node b without a zone. Each has its name as host name.
func zoned(s string) []*v1.Node {
	var all []*v1.Node
	for _, field := range strings.Fields(s) {
		name, value, _ := strings.Cut(field, "=")
		n := newNode(name, labelled(host+"="+name))
		if value != "" {
			n.Labels[zone] = value
		}
		all = append(all, n)
	}
	return all
}

// with gives one of the nodes more labels, taints and the like.
func with(all []*v1.Node, name string, parts ...nodePart) []*v1.Node {
	for _, n := range all {
		for _, part := range parts {
			if n.Name == name {
				part(n)
			}
		}
	}
	return all
}

// also reads labels that come on top: "rack=r1".
func also(s string) nodePart {
	return func(n *v1.Node) {
		for key, value := range labelsOf(s) {
			n.Labels[key] = value
		}
	}
}

func labelsOf(s string) map[string]string {
	labels := map[string]string{}
	for _, field := range strings.Fields(s) {
		key, value, _ := strings.Cut(field, "=")
		labels[key] = value
	}
	return labels
}

// fill reads "a=2 b=1": so many such pods on each node.
func fill(s string, parts ...podPart) []*v1.Pod {
	var all []*v1.Pod
	for _, field := range strings.Fields(s) {
		name, count, _ := strings.Cut(field, "=")
		n, err := strconv.Atoi(count)
		if err != nil {
			panic(err)
		}
		for range n {
			all = append(all, pod(append(slices.Clone(parts), on(name))...))
		}
	}
	return all
}

func wearing(s string) podPart { return func(p *v1.Pod) { p.Labels = labelsOf(s) } }

func in(namespace string) podPart { return func(p *v1.Pod) { p.Namespace = namespace } }

func ending(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} }

func ownedBy(apiVersion, kind, name string) podPart {
	return func(p *v1.Pod) {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, Controller: &yes}}
	}
}

// choose reads "absent", "everything", labels ("app=x tier=y"), or requirements ("app In x,y; tier Exists").
func choose(s string) *metav1.LabelSelector {
	switch {
	case s == "absent":
		return nil
	case s == "everything":
		return &metav1.LabelSelector{}
	case strings.Contains(s, "="):
		return &metav1.LabelSelector{MatchLabels: labelsOf(s)}
	}
	chosen := &metav1.LabelSelector{}
	for _, r := range parseRequirements(s) {
		chosen.MatchExpressions = append(chosen.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: r.Key, Operator: metav1.LabelSelectorOperator(r.Operator), Values: r.Values})
	}
	return chosen
}

type constraintPart func(*v1.TopologySpreadConstraint)

// hard adds a DoNotSchedule constraint with maxSkew 1, unless the parts say otherwise.
func hard(key, selector string, parts ...constraintPart) podPart {
	return spread(v1.DoNotSchedule, key, selector, parts)
}

func soft(key, selector string, parts ...constraintPart) podPart {
	return spread(v1.ScheduleAnyway, key, selector, parts)
}

func spread(action v1.UnsatisfiableConstraintAction, key, selector string, parts []constraintPart) podPart {
	c := v1.TopologySpreadConstraint{TopologyKey: key, WhenUnsatisfiable: action, MaxSkew: 1, LabelSelector: choose(selector)}
	for _, part := range parts {
		part(&c)
	}
	return func(p *v1.Pod) { p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c) }
}

func skew(most int32) constraintPart {
	return func(c *v1.TopologySpreadConstraint) { c.MaxSkew = most }
}

func domains(least int32) constraintPart {
	return func(c *v1.TopologySpreadConstraint) { c.MinDomains = &least }
}

func affinityPolicy(policy v1.NodeInclusionPolicy) constraintPart {
	return func(c *v1.TopologySpreadConstraint) { c.NodeAffinityPolicy = &policy }
}

func taintsPolicy(policy v1.NodeInclusionPolicy) constraintPart {
	return func(c *v1.TopologySpreadConstraint) { c.NodeTaintsPolicy = &policy }
}

func matchKeys(keys ...string) constraintPart {
	return func(c *v1.TopologySpreadConstraint) { c.MatchLabelKeys = keys }
}

type termPart func(*v1.PodAffinityTerm)

func term(key, selector string, parts ...termPart) v1.PodAffinityTerm {
	t := v1.PodAffinityTerm{TopologyKey: key, LabelSelector: choose(selector)}
	for _, part := range parts {
		part(&t)
	}
	return t
}

func inNamespaces(names ...string) termPart {
	return func(t *v1.PodAffinityTerm) { t.Namespaces = names }
}

func whereNamespace(selector string) termPart {
	return func(t *v1.PodAffinityTerm) { t.NamespaceSelector = choose(selector) }
}

func affinityParts(p *v1.Pod) (*v1.PodAffinity, *v1.PodAntiAffinity) {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{}
	}
	a := p.Spec.Affinity
	if a.PodAffinity == nil {
		a.PodAffinity, a.PodAntiAffinity = &v1.PodAffinity{}, &v1.PodAntiAffinity{}
	}
	return a.PodAffinity, a.PodAntiAffinity
}

func near(terms ...v1.PodAffinityTerm) podPart {
	return func(p *v1.Pod) {
		a, _ := affinityParts(p)
		a.RequiredDuringSchedulingIgnoredDuringExecution = terms
	}
}

func apart(terms ...v1.PodAffinityTerm) podPart {
	return func(p *v1.Pod) {
		_, anti := affinityParts(p)
		anti.RequiredDuringSchedulingIgnoredDuringExecution = terms
	}
}

func likes(weight int32, t v1.PodAffinityTerm) podPart {
	return func(p *v1.Pod) {
		a, _ := affinityParts(p)
		a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution, v1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: t})
	}
}

func dislikes(weight int32, t v1.PodAffinityTerm) podPart {
	return func(p *v1.Pod) {
		_, anti := affinityParts(p)
		anti.PreferredDuringSchedulingIgnoredDuringExecution = append(anti.PreferredDuringSchedulingIgnoredDuringExecution, v1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: t})
	}
}

// namespace reads labels like "team=x".
func namespace(name, labels string) *v1.Namespace {
	return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labelsOf(labels)}}
}

// service selects by labels like "app=x"; nil stands for a service without selector.
func service(selector map[string]string) *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}, Spec: v1.ServiceSpec{Selector: selector}}
}

// inShort is what happened to each node, in a word each for the reasons of the two topology plugins.
func inShort(a Answer) string {
	var words []string
	for _, n := range a.Nodes {
		words = append(words, word(n.Rejections))
	}
	return strings.Join(words, " ")
}

func word(rejections []Rejection) string {
	text := verdict(NodeAnswer{Rejections: rejections})
	for long, short := range map[string]string{
		"U node(s) didn't match pod topology spread constraints":                           "skew",
		"UU node(s) didn't match pod topology spread constraints (missing required label)": "label",
		"UU node(s) didn't match pod affinity rules":                                       "affinity",
		"U node(s) didn't match pod anti-affinity rules":                                   "anti",
		"U node(s) didn't satisfy existing pods anti-affinity rules":                       "existing",
		"UU node(s) had untolerated taint(s)":                                              "taint",
		"UU node(s) didn't match Pod's node affinity/selector":                             "selector",
		"UU node(s) were unschedulable":                                                    "cordoned",
	} {
		if text == long {
			return short
		}
	}
	return text
}

// marks is what one scorer says, raw and normalised: "13 12 6 -> 46 53 100", or "skip".
func marks(a Answer, plugin string) string {
	if a.Err != nil {
		return a.Err.Error()
	}
	raw, normalised := scored(a, plugin)
	if raw == nil {
		return "skip"
	}
	return fmt.Sprint(strings.Trim(fmt.Sprint(raw), "[]"), " -> ", strings.Trim(fmt.Sprint(normalised), "[]"))
}
