#!/usr/bin/env bash
# A toleration without key and with operator Exists tolerates every taint.
#
# Guess: the descheduler agrees, however many taints a node has.
# Found: its check of the destination nodes compares the numbers first. A pod with fewer
# tolerations than a node has taints does not tolerate it, although the check taint by
# taint of the same package passes. LowNodeUtilization and HighNodeUtilization use the
# first check, so they evict no such pod if each destination has two taints.
#
# sigs.k8s.io/descheduler v0.36.0, package pkg/utils, built with k8s.io/* v0.37.1.
. "$(dirname "$0")/lib/go.sh"

expect exists-tolerates-one-taint 'one taint: set of nodes true, taint by taint true
two taints: set of nodes false, taint by taint true
two taints, the toleration written twice: set of nodes true' \
	k8s.io/kube-openapi=k8s.io/kube-openapi@v0.0.0-20260721132016-d427ff9ee9ad \
	sigs.k8s.io/descheduler/pkg/utils@v0.36.0 k8s.io/client-go@v0.37.1 k8s.io/component-helpers@v0.37.1 <<'GO'
package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/descheduler/pkg/utils"
)

func main() {
	ctx := context.Background()
	taints := []v1.Taint{
		{Key: "dedicated", Value: "batch", Effect: v1.TaintEffectNoSchedule},
		{Key: "dedicated", Value: "batch", Effect: v1.TaintEffectNoExecute},
	}
	all := v1.Toleration{Operator: v1.TolerationOpExists}
	pod := &v1.Pod{Spec: v1.PodSpec{Tolerations: []v1.Toleration{all}}}
	set := func(n int) bool {
		return utils.PodToleratesTaints(ctx, pod, map[string][]v1.Taint{"node": taints[:n]})
	}
	each := func(n int) bool {
		return utils.TolerationsTolerateTaintsWithFilter(ctx, pod.Spec.Tolerations, taints[:n], nil)
	}
	fmt.Printf("one taint: set of nodes %v, taint by taint %v\n", set(1), each(1))
	fmt.Printf("two taints: set of nodes %v, taint by taint %v\n", set(2), each(2))
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, all)
	fmt.Printf("two taints, the toleration written twice: set of nodes %v\n", set(2))
}
GO
