#!/usr/bin/env bash
# node-feature-discovery writes node labels by rules whose operators are named as those of
# node affinity. A rule labels each node whose kernel is not of the flavour "rt".
#
# Guess: NotIn matches a node without the attribute, as in a node affinity.
# Found: NotIn is false then. The node gets no label, and pods that select the label
# cannot use it. A second matcher with DoesNotExist is needed.
#
# sigs.k8s.io/node-feature-discovery v0.18.3, package pkg/apis/nfd/nodefeaturerule; for
# comparison k8s.io/component-helpers v0.37.1, package scheduling/corev1/nodeaffinity.
. "$(dirname "$0")/lib/go.sh"

expect notin-needs-the-feature 'attribute is "generic": node-feature-discovery true, node affinity true
attribute is missing: node-feature-discovery false, node affinity true' \
	sigs.k8s.io/node-feature-discovery/api/nfd=sigs.k8s.io/node-feature-discovery/api/nfd@v0.18.3 \
	sigs.k8s.io/node-feature-discovery/pkg/apis/nfd/nodefeaturerule@v0.18.3 \
	k8s.io/component-helpers/scheduling/corev1/nodeaffinity@v0.37.1 <<'GO'
package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	nfdv1alpha1 "sigs.k8s.io/node-feature-discovery/api/nfd/v1alpha1"
	"sigs.k8s.io/node-feature-discovery/pkg/apis/nfd/nodefeaturerule"
)

func byRule(attributes map[string]string) bool {
	rule := &nfdv1alpha1.Rule{
		Name:   "no-realtime",
		Labels: map[string]string{"example.com/kernel": "standard"},
		MatchFeatures: nfdv1alpha1.FeatureMatcher{{
			Feature: "kernel.config",
			MatchExpressions: &nfdv1alpha1.MatchExpressionSet{
				"FLAVOUR": {Op: nfdv1alpha1.MatchNotIn, Value: nfdv1alpha1.MatchValue{"rt"}},
			},
		}},
	}
	features := nfdv1alpha1.NewFeatures()
	features.Attributes["kernel.config"] = nfdv1alpha1.NewAttributeFeatures(attributes)
	out, err := nodefeaturerule.Execute(rule, features, true)
	if err != nil {
		panic(err)
	}
	return out.Labels["example.com/kernel"] != ""
}

func byAffinity(labels map[string]string) bool {
	selector, err := nodeaffinity.NewNodeSelector(&v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: "FLAVOUR", Operator: v1.NodeSelectorOpNotIn, Values: []string{"rt"}}},
	}}})
	if err != nil {
		panic(err)
	}
	node := &v1.Node{}
	node.Name, node.Labels = "n", labels
	return selector.Match(node)
}

func main() {
	generic, none := map[string]string{"FLAVOUR": "generic"}, map[string]string{"OTHER": "y"}
	fmt.Printf("attribute is %q: node-feature-discovery %v, node affinity %v\n", "generic", byRule(generic), byAffinity(generic))
	fmt.Printf("attribute is missing: node-feature-discovery %v, node affinity %v\n", byRule(none), byAffinity(none))
}
GO
