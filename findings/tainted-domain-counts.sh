#!/usr/bin/env bash
# With nodeTaintsPolicy Honor, kube-scheduler leaves nodes whose taints the pod does not
# tolerate out of a spread constraint: neither the node's domain nor its pods count.
#
# Guess: descheduler's RemovePodsViolatingTopologySpreadConstraint does the same, because
# it reads the policy.
# Found: it leaves out the empty domain, but adds it again for each pod there. Zones a and
# b have one pod each, the tainted zone c has four from before the taint. The constraint
# holds, and two pods are evicted.
#
# sigs.k8s.io/descheduler v0.36.0, built with k8s.io/* v0.37.1.
. "$(dirname "$0")/lib/go.sh"

expect tainted-domain-counts 'zone c without pods: 0 evictions
zone c with 4 pods: 2 evictions' \
	like=neighbours/descheduler \
	sigs.k8s.io/descheduler/pkg/framework/plugins/removepodsviolatingtopologyspreadconstraint@v0.36.0 \
	sigs.k8s.io/descheduler/pkg/framework/testing@v0.36.0 <<'GO'
package main

import (
	"context"
	"fmt"
	"log"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/descheduler/pkg/descheduler/evictions"
	"sigs.k8s.io/descheduler/pkg/framework/plugins/defaultevictor"
	spread "sigs.k8s.io/descheduler/pkg/framework/plugins/removepodsviolatingtopologyspreadconstraint"
	frameworktesting "sigs.k8s.io/descheduler/pkg/framework/testing"
	frameworktypes "sigs.k8s.io/descheduler/pkg/framework/types"
)

var honor = v1.NodeInclusionPolicyHonor

func newNode(zone string, taints ...v1.Taint) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: zone, Labels: map[string]string{v1.LabelTopologyZone: zone}},
		Spec:       v1.NodeSpec{Taints: taints},
		Status:     v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourcePods: resource.MustParse("110")}},
	}
}

func newPod(zone string, i int) *v1.Pod {
	name := fmt.Sprintf("web-%s-%d", zone, i)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "shop", UID: types.UID(name), Labels: map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web"}},
		},
		Spec: v1.PodSpec{
			NodeName: zone,
			TopologySpreadConstraints: []v1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule, NodeTaintsPolicy: &honor,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			}},
		},
	}
}

func evictionsWith(inC int) uint {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	nodes := []*v1.Node{newNode("a"), newNode("b"), newNode("c", v1.Taint{Key: "old", Effect: v1.TaintEffectNoSchedule})}
	objects := []runtime.Object{newPod("a", 0), newPod("b", 0)}
	for i := range inC {
		objects = append(objects, newPod("c", i))
	}
	for _, node := range nodes {
		objects = append(objects, node)
	}
	handle, evictor, err := frameworktesting.InitFrameworkHandle(ctx, fake.NewClientset(objects...), evictions.NewOptions(), defaultevictor.DefaultEvictorArgs{}, nil)
	if err != nil {
		log.Fatal(err)
	}
	args := &spread.RemovePodsViolatingTopologySpreadConstraintArgs{}
	spread.SetDefaults_RemovePodsViolatingTopologySpreadConstraintArgs(args)
	plugin, err := spread.New(ctx, args, handle)
	if err != nil {
		log.Fatal(err)
	}
	plugin.(frameworktypes.BalancePlugin).Balance(ctx, nodes)
	return evictor.TotalEvicted()
}

func main() {
	for _, pods := range []int{0, 4} {
		with := fmt.Sprintf("with %d pods", pods)
		if pods == 0 {
			with = "without pods"
		}
		fmt.Printf("zone c %s: %d evictions\n", with, evictionsWith(pods))
	}
}
GO
