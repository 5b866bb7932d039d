#!/usr/bin/env bash
# LeaderWorkerSet computes the minResources of a gang from its pod templates, so that a
# gang scheduler starts the gang only if all of it fits. In a pod the API server sets a
# missing request to the limit, and GPUs are usually given as limits alone.
#
# Guess: a template with limits alone counts as its pods will.
# Found: it counts as nothing. The default is set in pods, not in templates, and only
# requests are added. A group of 4 pods with a limit of 8 GPUs each has no GPU in its
# minResources.
#
# sigs.k8s.io/lws v0.7.0, package pkg/utils, built with k8s.io/* v0.37.1.
. "$(dirname "$0")/lib/go.sh"

expect limits-count-as-nothing 'requests and limits: 32 GPUs
limits alone: 0 GPUs' \
	sigs.k8s.io/lws/pkg/utils@v0.7.0 k8s.io/apiserver@v0.37.1 <<'GO'
package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	leaderworkerset "sigs.k8s.io/lws/api/leaderworkerset/v1"
	"sigs.k8s.io/lws/pkg/utils"
)

func gpus(r v1.ResourceRequirements) int64 {
	size := int32(4)
	set := &leaderworkerset.LeaderWorkerSet{}
	set.Spec.LeaderWorkerTemplate.Size = &size
	set.Spec.LeaderWorkerTemplate.WorkerTemplate.Spec.Containers = []v1.Container{{Name: "main", Resources: r}}
	sum := utils.CalculatePGMinResources(set)["nvidia.com/gpu"]
	return sum.Value()
}

func main() {
	eight := v1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
	fmt.Println("requests and limits:", gpus(v1.ResourceRequirements{Requests: eight, Limits: eight}), "GPUs")
	fmt.Println("limits alone:", gpus(v1.ResourceRequirements{Limits: eight}), "GPUs")
}
GO
