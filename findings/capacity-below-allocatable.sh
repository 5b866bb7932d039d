#!/usr/bin/env bash
# Karpenter's kwok provider creates Node objects in place of instances, to try Karpenter
# without a cloud.
#
# Guess: as on every node, allocatable is at most the capacity.
# Found: the capacity is what the pods request for which the node was made, allocatable is
# the instance's. A node for a pod of 1 CPU has a capacity of 1, and 3900m are allocatable.
# Tools that divide usage by the capacity find such nodes over-committed.
#
# sigs.k8s.io/karpenter v1.14.0, package kwok/cloudprovider, built with k8s.io/* v0.37.1.
# The code is the same in v1.15.0, which needs Go 1.26.9.
. "$(dirname "$0")/lib/go.sh"

expect capacity-below-allocatable 'instance c-4x-amd64-linux: capacity 1, allocatable 3900m' \
	like=neighbours/karpenter sigs.k8s.io/karpenter/kwok/cloudprovider@v1.14.0 <<'GO'
package main

import (
	"context"
	"fmt"
	"log"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/karpenter/kwok/apis/v1alpha1"
	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	"sigs.k8s.io/karpenter/kwok/options"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
)

func main() {
	ctx := options.ToContext(context.Background(), &options.Options{})
	types, err := kwok.ConstructInstanceTypes(ctx)
	if err != nil {
		log.Fatal(err)
	}
	class := &v1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	client := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(class).Build()
	const instance = "c-4x-amd64-linux"
	claim, err := kwok.NewCloudProvider(ctx, client, types).Create(ctx, &karpenter.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "claim"},
		Spec: karpenter.NodeClaimSpec{
			NodeClassRef: &karpenter.NodeClassReference{Name: "default"},
			Requirements: []karpenter.NodeSelectorRequirementWithMinValues{
				{Key: v1.LabelInstanceTypeStable, Operator: v1.NodeSelectorOpIn, Values: []string{instance}},
			},
			Resources: karpenter.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	capacity, allocatable := claim.Status.Capacity[v1.ResourceCPU], claim.Status.Allocatable[v1.ResourceCPU]
	fmt.Printf("instance %s: capacity %s, allocatable %s\n", instance, capacity.String(), allocatable.String())
}
GO
