package scenario

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file has the short forms of topology spread constraints and pod affinity.

// topologyKey parses a topology key: a node label, or the short word for a well-known
// one.
func topologyKey(word string) (string, error) {
	switch word {
	case "":
		return "", errors.New("the topology key is missing")
	case "host":
		return v1.LabelHostname, nil
	}
	return labelKey(word), nil
}

// labelSelector parses REQUIREMENT;REQUIREMENT;... on labels of pods or namespaces. "*"
// selects everything; "none" is an absent selector.
func labelSelector(value string) (*metav1.LabelSelector, error) {
	switch value {
	case none:
		return nil, nil
	case "*":
		return &metav1.LabelSelector{}, nil
	}
	operators := map[v1.NodeSelectorOperator]metav1.LabelSelectorOperator{
		v1.NodeSelectorOpIn: metav1.LabelSelectorOpIn, v1.NodeSelectorOpNotIn: metav1.LabelSelectorOpNotIn,
		v1.NodeSelectorOpExists: metav1.LabelSelectorOpExists, v1.NodeSelectorOpDoesNotExist: metav1.LabelSelectorOpDoesNotExist,
	}
	selector := &metav1.LabelSelector{}
	for _, word := range strings.Split(value, ";") {
		r, err := requirementOf(word)
		if err != nil {
			return nil, err
		}
		operator, ok := operators[r.Operator]
		if !ok {
			return nil, fmt.Errorf("%q: labels are not compared as numbers here", word)
		}
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{Key: r.Key, Operator: operator, Values: r.Values})
	}
	return selector, nil
}

const (
	spreadForm     = "KEY:SKEW[:soft][:min=N][:select=SELECTOR][:keys=KEY,...][:affinity=POLICY][:taints=POLICY] or none"
	termForm       = "KEY:SELECTOR[:ns=NAME,...][:nsselect=SELECTOR] or none"
	preferenceForm = "KEY:SELECTOR:WEIGHT[:ns=NAME,...][:nsselect=SELECTOR] or none"
)

// podSpread adds a topology spread constraint.
func podSpread(p *v1.Pod, _, value string) error {
	if value == none {
		p.Spec.TopologySpreadConstraints = nil
		return nil
	}
	// By default a pod spreads among the pods of its own app.
	var own *metav1.LabelSelector
	app, labelled := p.Labels[appLabel]
	if labelled {
		own = &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: app}}
	}
	c, err := spreadConstraint(value, own)
	switch {
	case err != nil:
		return err
	case !labelled && !strings.Contains(value, ":select="):
		return fmt.Errorf("the pod has no label %s, so the constraint needs a selector, as in select=tier=front", appLabel)
	}
	p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
	return nil
}

func spreadConstraint(value string, selector *metav1.LabelSelector) (v1.TopologySpreadConstraint, error) {
	c := v1.TopologySpreadConstraint{WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: selector}
	words := strings.Split(value, ":")
	if len(words) < 2 {
		return c, errors.New("the skew is missing")
	}
	var err error
	if c.TopologyKey, err = topologyKey(words[0]); err != nil {
		return c, err
	}
	skew, err := strconv.ParseInt(words[1], 10, 32)
	if err != nil || skew < 1 {
		return c, fmt.Errorf("%q is not a skew of 1 or more", words[1])
	}
	c.MaxSkew = int32(skew)
	for _, word := range words[2:] {
		if err := spreadOption(&c, word); err != nil {
			return c, err
		}
	}
	return c, nil
}

func spreadOption(c *v1.TopologySpreadConstraint, word string) (err error) {
	key, value, _ := strings.Cut(word, "=")
	switch key {
	case "soft":
		c.WhenUnsatisfiable = v1.ScheduleAnyway
	case "min":
		domains, err := strconv.ParseInt(value, 10, 32)
		if err != nil || domains < 1 {
			return fmt.Errorf("%q is not a number of domains", value)
		}
		number := int32(domains)
		c.MinDomains = &number
	case "select":
		c.LabelSelector, err = labelSelector(value)
	case "keys":
		c.MatchLabelKeys = strings.Split(value, ",")
	case "affinity":
		c.NodeAffinityPolicy, err = inclusionPolicy(value)
	case "taints":
		c.NodeTaintsPolicy, err = inclusionPolicy(value)
	default:
		return fmt.Errorf("unknown option %q", word)
	}
	return err
}

func inclusionPolicy(word string) (*v1.NodeInclusionPolicy, error) {
	for _, policy := range []v1.NodeInclusionPolicy{v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore} {
		if strings.EqualFold(word, string(policy)) {
			return &policy, nil
		}
	}
	return nil, fmt.Errorf("%q is not a policy: honor or ignore", word)
}

// podTerm parses KEY:SELECTOR and options. Only preferred terms have a weight.
func podTerm(value string, preferred bool) (term v1.PodAffinityTerm, weight int32, err error) {
	words := strings.Split(value, ":")
	if len(words) < 2 {
		return term, 0, errors.New("the selector is missing")
	}
	if term.TopologyKey, err = topologyKey(words[0]); err != nil {
		return term, 0, err
	}
	if term.LabelSelector, err = labelSelector(words[1]); err != nil {
		return term, 0, err
	}
	for _, word := range words[2:] {
		key, option, valued := strings.Cut(word, "=")
		switch {
		case key == "ns" && valued:
			term.Namespaces = strings.Split(option, ",")
		case key == "nsselect" && valued:
			if term.NamespaceSelector, err = labelSelector(option); err != nil {
				return term, 0, err
			}
		case preferred && !valued && weight == 0:
			number, err := strconv.ParseInt(word, 10, 32)
			if err != nil || number < 1 || number > 100 {
				return term, 0, fmt.Errorf("%q is not a weight from 1 to 100", word)
			}
			weight = int32(number)
		default:
			return term, 0, fmt.Errorf("unknown option %q", word)
		}
	}
	if preferred && weight == 0 {
		return term, 0, errors.New("the weight is missing")
	}
	return term, weight, nil
}

// podRequires adds a required term to the list in a stanza.
func podRequires(list func(*v1.Pod) *[]v1.PodAffinityTerm) func(*v1.Pod, string, string) error {
	return func(p *v1.Pod, _, value string) error {
		if value == none {
			*list(p) = nil
			return nil
		}
		term, _, err := podTerm(value, false)
		*list(p) = append(*list(p), term)
		return err
	}
}

// podPreferences adds a preferred term to the list in a stanza.
func podPreferences(list func(*v1.Pod) *[]v1.WeightedPodAffinityTerm) func(*v1.Pod, string, string) error {
	return func(p *v1.Pod, _, value string) error {
		if value == none {
			*list(p) = nil
			return nil
		}
		term, weight, err := podTerm(value, true)
		*list(p) = append(*list(p), v1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: term})
		return err
	}
}

func towards(p *v1.Pod) *v1.PodAffinity {
	affinity := affinityOf(p)
	if affinity.PodAffinity == nil {
		affinity.PodAffinity = &v1.PodAffinity{}
	}
	return affinity.PodAffinity
}

func awayFrom(p *v1.Pod) *v1.PodAntiAffinity {
	affinity := affinityOf(p)
	if affinity.PodAntiAffinity == nil {
		affinity.PodAntiAffinity = &v1.PodAntiAffinity{}
	}
	return affinity.PodAntiAffinity
}

func required(p *v1.Pod) *[]v1.PodAffinityTerm {
	return &towards(p).RequiredDuringSchedulingIgnoredDuringExecution
}

func preferred(p *v1.Pod) *[]v1.WeightedPodAffinityTerm {
	return &towards(p).PreferredDuringSchedulingIgnoredDuringExecution
}

func forbidden(p *v1.Pod) *[]v1.PodAffinityTerm {
	return &awayFrom(p).RequiredDuringSchedulingIgnoredDuringExecution
}

func avoided(p *v1.Pod) *[]v1.WeightedPodAffinityTerm {
	return &awayFrom(p).PreferredDuringSchedulingIgnoredDuringExecution
}

// podOwner sets the controller of a pod. Kinds that the scheduler does not treat as
// controllers are copied literally.
func podOwner(p *v1.Pod, _, value string) error {
	if value == none {
		p.OwnerReferences = nil
		return nil
	}
	word, name, ok := strings.Cut(value, "/")
	if !ok || name == "" {
		return errors.New("the name of the owner is missing")
	}
	owner := metav1.OwnerReference{Name: name, UID: "00000000-0000-4000-8000-000000000000"}
	switch word {
	case "replicaset":
		owner.APIVersion, owner.Kind = "apps/v1", "ReplicaSet"
	case "statefulset":
		owner.APIVersion, owner.Kind = "apps/v1", "StatefulSet"
	case "daemonset":
		owner.APIVersion, owner.Kind = "apps/v1", "DaemonSet"
	case "replicationcontroller":
		owner.APIVersion, owner.Kind = "v1", "ReplicationController"
	case "job":
		owner.APIVersion, owner.Kind = "batch/v1", "Job"
	default:
		return fmt.Errorf("%q is not a kind of owner: replicaset, statefulset, daemonset, replicationcontroller or job", word)
	}
	controls := true
	owner.Controller = &controls
	p.OwnerReferences = []metav1.OwnerReference{owner}
	return nil
}
