#!/usr/bin/env bash
# A node can be over-committed in one resource, for example after a device plugin lost a
# GPU. kube-scheduler compares only the resources that a pod requests, so a pod without
# GPU fits there.
#
# Guess: the check of Karpenter's simulation compares the same resources.
# Found: a negative amount of any resource makes every pod unfit, also a pod that does not
# request it, or requests nothing. A consolidation that kube-scheduler could carry out is
# then not found, because its pods find no place on the over-committed node.
#
# sigs.k8s.io/karpenter v1.14.0, package pkg/utils/resources, built with
# k8s.io/component-helpers v0.37.1. Fits is the same in v1.15.0, which needs Go 1.26.9.
. "$(dirname "$0")/lib/go.sh"

expect one-negative-resource-fits-nothing '0 GPUs left: pod without GPU fits: true
-1 GPUs left: pod without GPU fits: false, pod without any request fits: false' \
	sigs.k8s.io/karpenter/pkg/utils/resources@v1.14.0 k8s.io/component-helpers@v0.37.1 <<'GO'
package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/karpenter/pkg/utils/resources"
)

func left(gpus int64) v1.ResourceList {
	return v1.ResourceList{
		v1.ResourceCPU:   resource.MustParse("8"),
		"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI),
	}
}

func main() {
	pod := v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
	fmt.Printf("0 GPUs left: pod without GPU fits: %v\n", resources.Fits(pod, left(0)))
	fmt.Printf("-1 GPUs left: pod without GPU fits: %v, pod without any request fits: %v\n",
		resources.Fits(pod, left(-1)), resources.Fits(v1.ResourceList{}, left(-1)))
}
GO
