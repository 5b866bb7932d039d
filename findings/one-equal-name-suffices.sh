#!/usr/bin/env bash
# Koordinator reserves capacity by Reservations. A pod may demand, with the annotation
# exact-match-reservation, that its amounts of some resources equal those of the
# reservation.
#
# Guess: every named resource is compared; one that neither side has is equal.
# Found: the first name that neither side has ends the comparison as a match. With the
# names gpu and cpu, a pod of 2 cores matches a reservation of 64 cores if both have no
# GPU. With the names in the other order it does not.
#
# github.com/koordinator-sh/koordinator v1.6.0, package apis/extension, with the k8s.io/*
# v0.28.7 of its go.mod.
. "$(dirname "$0")/lib/go.sh"

old() { for module; do echo "k8s.io/$module=k8s.io/$module@v0.28.7"; done; }
mapfile -t replaced < <(old api apimachinery apiserver client-go component-base)

expect one-equal-name-suffices 'cpu, gpu: false
gpu, cpu: true' \
	"${replaced[@]}" \
	k8s.io/kube-openapi=k8s.io/kube-openapi@v0.0.0-20230717233707-2695361300d9 \
	k8s.io/klog/v2=k8s.io/klog/v2@v2.100.1 \
	github.com/koordinator-sh/koordinator/apis/extension@v1.6.0 <<'GO'
package main

import (
	"fmt"

	"github.com/koordinator-sh/koordinator/apis/extension"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func main() {
	pod := v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")}
	reservation := v1.ResourceList{v1.ResourceCPU: resource.MustParse("64")}
	match := func(names ...v1.ResourceName) bool {
		return extension.ExactMatchReservation(pod, reservation, &extension.ExactMatchReservationSpec{ResourceNames: names})
	}
	fmt.Println("cpu, gpu:", match(v1.ResourceCPU, "nvidia.com/gpu"))
	fmt.Println("gpu, cpu:", match("nvidia.com/gpu", v1.ResourceCPU))
}
GO
