#!/usr/bin/env bash
# Before Kueue admits a workload it checks the pod templates against the LimitRanges of
# the namespace, because the API server would reject the pods when quota is already taken.
# From several LimitRanges it keeps the lowest max, the highest min and the lowest
# maxLimitRequestRatio.
#
# Guess: the check covers all three.
# Found: the ratio is kept and never compared. A template with limit 8 and request 1
# passes a LimitRange that permits a ratio of 2. The workload is admitted and takes its
# quota, but its Job can create no pod.
#
# sigs.k8s.io/kueue v0.19.2, package pkg/util/limitrange, built with k8s.io/* v0.37.1.
. "$(dirname "$0")/lib/go.sh"

expect ratio-is-not-checked 'max 4, limit 8: 1 error
lowest ratio of two LimitRanges: 2
ratio 2, limit 8, request 1: 0 errors' \
	sigs.k8s.io/kueue/pkg/util/limitrange@v0.19.2 k8s.io/apiserver@v0.37.1 k8s.io/component-helpers@v0.37.1 <<'GO'
package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/kueue/pkg/util/limitrange"
)

func cpu(amount string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(amount)}
}

func ranges(items ...v1.LimitRangeItem) limitrange.Summary {
	var list []v1.LimitRange
	for _, item := range items {
		item.Type = v1.LimitTypeContainer
		list = append(list, v1.LimitRange{Spec: v1.LimitRangeSpec{Limits: []v1.LimitRangeItem{item}}})
	}
	return limitrange.Summarize(list...)
}

func main() {
	spec := &v1.PodSpec{Containers: []v1.Container{{
		Name:      "main",
		Resources: v1.ResourceRequirements{Limits: cpu("8"), Requests: cpu("1")},
	}}}
	fmt.Println("max 4, limit 8:", len(ranges(v1.LimitRangeItem{Max: cpu("4")}).ValidatePodSpec(spec, nil)), "error")
	ratios := ranges(v1.LimitRangeItem{MaxLimitRequestRatio: cpu("3")}, v1.LimitRangeItem{MaxLimitRequestRatio: cpu("2")})
	lowest := ratios[v1.LimitTypeContainer].MaxLimitRequestRatio[v1.ResourceCPU]
	fmt.Println("lowest ratio of two LimitRanges:", lowest.String())
	fmt.Println("ratio 2, limit 8, request 1:", len(ratios.ValidatePodSpec(spec, nil)), "errors")
}
GO
