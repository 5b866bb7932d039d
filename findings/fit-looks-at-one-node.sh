#!/usr/bin/env bash
# With nodeFit, descheduler evicts a pod only if another node fits it. The check includes
# required pod anti-affinity.
#
# Guess: it reads the term's topology key, so a pod that may not share a zone with another
# does not fit the other nodes of that zone. Terms of the pods on a node count as well.
# Found: only the pods of the node itself are compared, and only with the pod's own terms.
# Another node of the zone fits, and so does a node whose pod repels it. The eviction
# happens, and the scheduler finds no node, or puts the pod back.
#
# sigs.k8s.io/descheduler v0.36.0, package pkg/descheduler/node, built with k8s.io/*
# v0.37.1.
. "$(dirname "$0")/lib/go.sh"

expect fit-looks-at-one-node 'node with the other pod: false
other node of its zone: true
node whose pod repels it: true' \
	like=neighbours/descheduler sigs.k8s.io/descheduler/pkg/descheduler/node@v0.36.0 <<'GO'
package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/descheduler/pkg/descheduler/node"
	podutil "sigs.k8s.io/descheduler/pkg/descheduler/pod"
)

func newNode(name string) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelTopologyZone: "a"}},
		Status:     v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourcePods: resource.MustParse("110")}},
	}
}

// newPod returns a pod that repels pods of an app from its zone.
func newPod(app, repels, on string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: app + "-0", Namespace: "shop", Labels: map[string]string{"app": app}}}
	pod.Spec.NodeName = on
	if repels != "" {
		pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				TopologyKey:   v1.LabelTopologyZone,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": repels}},
			}},
		}}
	}
	return pod
}

func main() {
	first, second := newNode("a-1"), newNode("a-2")
	database := newPod("database", "batch", "a-1")
	pods := func(name string, _ podutil.FilterFunc) ([]*v1.Pod, error) {
		if name == database.Spec.NodeName {
			return []*v1.Pod{database}, nil
		}
		return nil, nil
	}
	fits := func(pod *v1.Pod, n *v1.Node) bool { return node.NodeFit(context.Background(), pods, pod, n) == nil }
	web := newPod("web", "database", "b-1")
	fmt.Println("node with the other pod:", fits(web, first))
	fmt.Println("other node of its zone:", fits(web, second))
	fmt.Println("node whose pod repels it:", fits(newPod("batch", "", "b-1"), first))
}
GO
