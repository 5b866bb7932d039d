package scenario

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodeAttributes are the grammar of nodes.
var nodeAttributes = []attribute[*v1.Node]{
	{key: "cpu", value: "QUANTITY", apply: nodeAmount("cpu")},
	{key: "mem", value: "QUANTITY", apply: nodeAmount("mem")},
	{key: "ephemeral", value: "QUANTITY", apply: nodeAmount("ephemeral")},
	{key: "pods", value: "COUNT", apply: nodeAmount("pods")},
	{key: "zone", value: "NAME", apply: func(n *v1.Node, _, value string) error { setLabel(&n.Labels, "zone", value); return nil }},
	{key: "region", value: "NAME", apply: func(n *v1.Node, _, value string) error { setLabel(&n.Labels, "region", value); return nil }},
	{key: "label.", value: "VALUE", apply: func(n *v1.Node, rest, value string) error { setLabel(&n.Labels, rest, value); return nil }},
	{key: "unlabel", value: "KEY", apply: func(n *v1.Node, _, value string) error { delete(n.Labels, labelKey(value)); return nil }},
	{key: "taint", value: "KEY[=VALUE]:EFFECT or none", apply: nodeTaint},
	{key: "unschedulable", bare: true, value: "true or false", apply: func(n *v1.Node, _, value string) (err error) {
		n.Spec.Unschedulable, err = truth(value)
		return err
	}},
	{key: "images", value: "NAME:SIZE,... or none", apply: nodeImages},
	{key: "features", value: "NAME,... or none", apply: nodeFeatures},
	{key: resourceKey, value: "QUANTITY", apply: func(n *v1.Node, rest, value string) error {
		return setAmount(&n.Status.Allocatable, v1.ResourceName(rest), value)
	}},
}

// newNode returns a node for 110 pods, without other allocatable resources.
func newNode(name string) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}},
		Status:     v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourcePods: resource.MustParse("110")}},
	}
}

func nodeAmount(word string) func(*v1.Node, string, string) error {
	return func(n *v1.Node, _, value string) error {
		return setAmount(&n.Status.Allocatable, resourceNamed(word), value)
	}
}

var effects = []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute}

func effectNamed(word string) (v1.TaintEffect, error) {
	if !slices.Contains(effects, v1.TaintEffect(word)) {
		return "", fmt.Errorf("%q is not an effect: %v", word, effects)
	}
	return v1.TaintEffect(word), nil
}

func nodeTaint(n *v1.Node, _, value string) error {
	if value == none {
		n.Spec.Taints = nil
		return nil
	}
	rest, word, ok := strings.Cut(value, ":")
	if !ok {
		return fmt.Errorf("the effect is missing")
	}
	effect, err := effectNamed(word)
	if err != nil {
		return err
	}
	key, val, _ := strings.Cut(rest, "=")
	n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: key, Value: val, Effect: effect})
	return nil
}

func nodeImages(n *v1.Node, _, value string) error {
	if value == none {
		n.Status.Images = nil
		return nil
	}
	for _, word := range strings.Split(value, ",") {
		at := strings.LastIndex(word, ":")
		if at < 0 {
			return fmt.Errorf("%q has no size", word)
		}
		size, err := resource.ParseQuantity(word[at+1:])
		if err != nil {
			return fmt.Errorf("%q: %q is not a size", word, word[at+1:])
		}
		n.Status.Images = append(n.Status.Images, v1.ContainerImage{Names: []string{word[:at]}, SizeBytes: size.Value()})
	}
	return nil
}

func nodeFeatures(n *v1.Node, _, value string) error {
	if value == none {
		n.Status.DeclaredFeatures = nil
		return nil
	}
	n.Status.DeclaredFeatures = append(n.Status.DeclaredFeatures, strings.Split(value, ",")...)
	return nil
}
