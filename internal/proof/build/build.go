// Package build makes API objects for the tables of tests, short enough for a row to fit
// on a line.
//
// It takes short texts and options in Kubernetes' words. It returns pods, nodes, storage
// objects and related objects. It also has their protobuf encoding, the sizes of
// benchmarks, and switches for the race detector. It owns nothing, has no expectations
// about scheduling, and is imported by tests only.
//
// Texts are lists separated by spaces: labels and selectors "app=x tier=y", resources
// "cpu=500m memory=1Gi", taints "a=b:NoSchedule".
package build

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LabelSet reads "app=x tier=y". Without a pair the set is empty, not nil.
func LabelSet(text string) map[string]string {
	set := map[string]string{}
	for _, field := range strings.Fields(text) {
		key, value, _ := strings.Cut(field, "=")
		set[key] = value
	}
	return set
}

// Resources reads "cpu=500m memory=256Mi".
func Resources(text string) v1.ResourceList {
	list := v1.ResourceList{}
	for _, field := range strings.Fields(text) {
		name, quantity, _ := strings.Cut(field, "=")
		list[v1.ResourceName(name)] = resource.MustParse(quantity)
	}
	return list
}

// Requirements reads "zone In a,b; disk Exists".
func Requirements(text string) []v1.NodeSelectorRequirement {
	var all []v1.NodeSelectorRequirement
	for _, one := range strings.Split(text, "; ") {
		words := strings.Fields(one)
		r := v1.NodeSelectorRequirement{Key: words[0], Operator: v1.NodeSelectorOperator(words[1])}
		if len(words) > 2 {
			r.Values = strings.Split(words[2], ",")
		}
		all = append(all, r)
	}
	return all
}

// Selector reads "absent" (nil), "everything" (empty), labels ("app=x tier=y") or
// requirements ("app In x,y; tier Exists").
func Selector(text string) *metav1.LabelSelector {
	switch {
	case text == "absent":
		return nil
	case text == "everything":
		return &metav1.LabelSelector{}
	case strings.Contains(text, "="):
		return &metav1.LabelSelector{MatchLabels: LabelSet(text)}
	}
	selector := &metav1.LabelSelector{}
	for _, r := range Requirements(text) {
		selector.MatchExpressions = append(selector.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: r.Key, Operator: metav1.LabelSelectorOperator(r.Operator), Values: r.Values})
	}
	return selector
}

// Namespace makes a namespace with labels such as "team=x".
func Namespace(name, labels string) *v1.Namespace {
	return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: LabelSet(labels)}}
}

// Service makes a service in the namespace default. A nil selector is absent.
func Service(name string, selector map[string]string) *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}, Spec: v1.ServiceSpec{Selector: selector}}
}
