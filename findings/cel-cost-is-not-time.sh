#!/usr/bin/env bash
# Two observations about Kubernetes' allocator of devices and CEL, without Berth. The script fails if either changes.
#
# 1. k8s.io/dynamic-resource-allocation v0.37.1 looks at its context once for each device that it tries to allocate. Between two such
#    looks it may evaluate selectors of any number of devices; an evaluation looks at the context's channel only inside of
#    comprehensions. So a deadline is noticed late where selectors select nothing.
# 2. github.com/google/cel-go v0.29.2: the time of a unit of runtime cost grows with the length of a list literal, because the elements
#    stay on a stack that the cost tracker walks at each step. Two expressions of similar cost differ more than threefold.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
go mod init finding >/dev/null 2>&1
go get k8s.io/dynamic-resource-allocation@v0.37.1 github.com/google/cel-go@v0.29.2 >/dev/null 2>&1
cat >main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

type looks struct {
	context.Context
	n int
}

func (l *looks) Err() error { l.n++; return nil }

type classes struct{}

func (classes) List() ([]*resourcev1.DeviceClass, error) { return nil, nil }
func (classes) Get(name string) (*resourcev1.DeviceClass, error) {
	c := &resourcev1.DeviceClass{}
	c.Name = name
	return c, nil
}

func search(devices int, expression string) int {
	node := "n"
	slice := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: "d", NodeName: &node, Pool: resourcev1.ResourcePool{Name: "p", Generation: 1, ResourceSliceCount: 1}}}
	for i := range devices {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("d", i)})
	}
	claim := &resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
		Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "c", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
			Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}},
	}}}}}
	ctx := &looks{Context: context.Background()}
	a, err := structured.NewAllocator(ctx, structured.Features{}, structured.AllocatedState{AllocatedDevices: sets.New[structured.DeviceID]()}, classes{}, []*resourcev1.ResourceSlice{slice}, cel.NewCache(10, cel.Features{}))
	if err == nil {
		object := &v1.Node{}
		object.Name = node
		_, err = a.Allocate(ctx, object, []*resourcev1.ResourceClaim{claim})
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	return ctx.n
}

func perCost(expression string) float64 {
	c := cel.GetCompiler(cel.Features{}).CompileCELExpression(expression, cel.Options{})
	best := time.Hour
	var cost uint64
	for range 5 {
		began := time.Now()
		_, details, err := c.DeviceMatches(context.Background(), cel.Device{Driver: "d"})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		best, cost = min(best, time.Since(began)), *details.ActualCost()
	}
	fmt.Printf("a list of %d literals: cost %d, %v\n", strings.Count(expression, "1"), cost, best)
	return float64(best) / float64(cost)
}

func list(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]" }

func main() {
	few, many := search(1, "false"), search(100, "false")
	fmt.Printf("looks at the context: %d with 1 device that is not selected, %d with 100\n", few, many)
	short, long := perCost(list(50)+".all(x, "+list(50)+".all(y, true))"), perCost(list(2000)+".all(x, true)")
	if few != many || long < 3*short {
		fmt.Println("this has changed")
		os.Exit(1)
	}
}
GO
go mod tidy >/dev/null 2>&1
echo "k8s.io/dynamic-resource-allocation v0.37.1, github.com/google/cel-go v0.29.2"
go run .
