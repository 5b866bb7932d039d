#!/usr/bin/env bash
# Controllers build the Workloads of gang scheduling with package workloadbuilder. Fields
# that the user leaves unset fall back to the default configuration of the controller.
#
# Guess: a user who writes `gang: {}` gets the default minCount of the controller.
# Found: the fall-back ends at the policy. An empty gang replaces the whole default, and
# the build fails. An empty policy keeps the default. A controller must give its default a
# second time, in a callback.
#
# k8s.io/component-helpers v0.37.1, package scheduling/schedulingv1/workloadbuilder.
. "$(dirname "$0")/lib/go.sh"

expect gang-without-count 'policy: {}: minCount 8
policy: {gang: {}}: gang scheduling requires minCount to be set after resolution
policy: {gang: {}} with a callback: minCount 8' \
	k8s.io/component-helpers/scheduling/schedulingv1/workloadbuilder@v0.37.1 <<'GO'
package main

import (
	"fmt"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/schedulingv1/workloadbuilder"
)

func build(title string, policy schedulingv1alpha3.WorkloadPodGroupSchedulingPolicy, callbacks ...workloadbuilder.SchedulingConfigFunc) {
	eight := int32(8)
	item := &workloadbuilder.WorkloadItem{
		Name: "workers",
		DefaultConfig: &workloadbuilder.SchedulingConfig{
			Policy: &workloadbuilder.SchedulingPolicy{Gang: &workloadbuilder.GangSchedulingPolicy{MinCount: &eight}},
		},
		Input:     workloadbuilder.WorkloadInput{Policy: workloadbuilder.PolicyInput{PodGroupData: &policy}},
		Callbacks: callbacks,
	}
	builder := workloadbuilder.NewBuilder(item, workloadbuilder.BuildOptions{
		Name: "train", Namespace: "default",
		Owner: &metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Training", Name: "train", UID: "1"},
	})
	workload, err := builder.BuildWorkload()
	if err != nil {
		fmt.Printf("%s: %v\n", title, err)
		return
	}
	fmt.Printf("%s: minCount %d\n", title, workload.Spec.PodGroupTemplates[0].SchedulingPolicy.Gang.MinCount)
}

func main() {
	gang := schedulingv1alpha3.WorkloadPodGroupSchedulingPolicy{Gang: &schedulingv1alpha3.WorkloadPodGroupGangSchedulingPolicy{}}
	build("policy: {}", schedulingv1alpha3.WorkloadPodGroupSchedulingPolicy{})
	build("policy: {gang: {}}", gang)
	build("policy: {gang: {}} with a callback", gang, func(c *workloadbuilder.SchedulingConfig) {
		if eight := int32(8); c.Policy.Gang != nil && c.Policy.Gang.MinCount == nil {
			c.Policy.Gang.MinCount = &eight
		}
	})
}
GO
