#!/usr/bin/env bash
# During a migration two DeviceClasses may carry the same extendedResourceName. The newer
# class serves the name.
#
# Guess: when the older class is deleted after the migration, the newer class keeps the
# name.
# Found: the delete of either class removes the name. The extended resource then has no
# class, although one that names it exists, until that class is updated or the process
# restarts. If the event of the older class arrives second, the older class also lacks its
# implicit name deviceclass.resource.kubernetes.io/NAME.
#
# k8s.io/dynamic-resource-allocation v0.37.1, package deviceclass/extendedresourcecache,
# which kube-scheduler and the evaluators of ResourceQuota use. Each output line gives the
# class that serves example.com/gpu.
. "$(dirname "$0")/lib/go.sh"

expect shadowed-device-class "both exist: new, implicit old: none
old deleted: none
new updated: new
new deleted while old exists: none" \
	k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache@v0.37.1 <<'GO'
package main

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/klog/v2"
)

func class(name string, created int64) *resourcev1.DeviceClass {
	resource := "example.com/gpu"
	c := &resourcev1.DeviceClass{}
	c.Name, c.CreationTimestamp, c.Spec.ExtendedResourceName = name, metav1.NewTime(time.Unix(created, 0)), &resource
	return c
}

func main() {
	older, newer := class("old", 1), class("new", 2)
	cache := extendedresourcecache.NewExtendedResourceCache(klog.Background())
	find := func(resource string) string {
		if c := cache.GetDeviceClass(v1.ResourceName(resource)); c != nil {
			return c.Name
		}
		return "none"
	}
	cache.OnAdd(newer, true)
	cache.OnAdd(older, true)
	fmt.Printf("both exist: %s, implicit old: %s\n", find("example.com/gpu"), find("deviceclass.resource.kubernetes.io/old"))
	cache.OnDelete(older)
	fmt.Println("old deleted:", find("example.com/gpu"))
	cache.OnUpdate(newer, newer)
	fmt.Println("new updated:", find("example.com/gpu"))
	cache.OnAdd(older, false)
	cache.OnDelete(newer)
	fmt.Println("new deleted while old exists:", find("example.com/gpu"))
}
GO
