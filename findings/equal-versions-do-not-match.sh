#!/usr/bin/env bash
# Devices have attributes of type version. A claim can compare them in two ways: a CEL
# selector with a constant, and the constraint matchAttribute among the devices of the
# claim.
#
# Guess: both agree on equal versions.
# Found: the firmware versions 1.2.0+a and 1.2.0+b both equal semver("1.2.0") in CEL,
# which ignores build metadata, as Semantic Versioning does. The constraint compares
# strings, so no claim with the constraint gets both devices.
#
# k8s.io/dynamic-resource-allocation v0.37.1, packages structured, the allocator of
# kube-scheduler, and cel.
. "$(dirname "$0")/lib/go.sh"

expect equal-versions-do-not-match 'CEL selector alone: 2 devices
CEL selector and matchAttribute: 0 devices
the same with equal build metadata: 2 devices' \
	k8s.io/dynamic-resource-allocation/structured@v0.37.1 <<'GO'
package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

type classes struct{}

func (classes) List() ([]*resourcev1.DeviceClass, error) { return nil, nil }
func (classes) Get(name string) (*resourcev1.DeviceClass, error) {
	c := &resourcev1.DeviceClass{}
	c.Name = name
	return c, nil
}

func allocate(constrained bool, versions ...string) int {
	node := "n"
	slice := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: &node,
		Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1},
	}}
	for i := range versions {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{
			Name:       fmt.Sprint("gpu-", i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"firmware": {VersionValue: &versions[i]}},
		})
	}
	claim := &resourcev1.ResourceClaim{}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpus", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 2,
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
			Expression: `device.attributes["gpu.example.com"].firmware == semver("1.2.0")`,
		}}},
	}}}
	if constrained {
		name := resourcev1.FullyQualifiedName("gpu.example.com/firmware")
		claim.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: &name}}
	}
	ctx := context.Background()
	allocator, err := structured.NewAllocator(ctx, structured.Features{},
		structured.AllocatedState{AllocatedDevices: sets.New[structured.DeviceID]()}, classes{},
		[]*resourcev1.ResourceSlice{slice}, cel.NewCache(10, cel.Features{}))
	if err != nil {
		panic(err)
	}
	object := &v1.Node{}
	object.Name = node
	results, err := allocator.Allocate(ctx, object, []*resourcev1.ResourceClaim{claim})
	if err != nil {
		panic(err)
	}
	if len(results) == 0 {
		return 0
	}
	return len(results[0].Devices.Results)
}

func main() {
	fmt.Println("CEL selector alone:", allocate(false, "1.2.0+a", "1.2.0+b"), "devices")
	fmt.Println("CEL selector and matchAttribute:", allocate(true, "1.2.0+a", "1.2.0+b"), "devices")
	fmt.Println("the same with equal build metadata:", allocate(true, "1.2.0+a", "1.2.0+a"), "devices")
}
GO
