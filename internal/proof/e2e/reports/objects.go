package main

import (
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// kind is how the API serves the objects of a kind.
type kind struct {
	schema.GroupVersionResource
	namespaced bool
}

func of(group, version, resource string, namespaced bool) kind {
	return kind{schema.GroupVersionResource{Group: group, Version: version, Resource: resource}, namespaced}
}

var kinds = map[string]kind{
	"Namespace": of("", "v1", "namespaces", false), "Node": of("", "v1", "nodes", false),
	"Pod": of("", "v1", "pods", true), "Service": of("", "v1", "services", true),
	"PersistentVolume":      of("", "v1", "persistentvolumes", false),
	"PersistentVolumeClaim": of("", "v1", "persistentvolumeclaims", true),
	"ReplicaSet":            of("apps", "v1", "replicasets", true),
	"PodDisruptionBudget":   of("policy", "v1", "poddisruptionbudgets", true),
	"PriorityClass":         of("scheduling.k8s.io", "v1", "priorityclasses", false),
	"PodGroup":              of("scheduling.k8s.io", "v1beta1", "podgroups", true),
	"StorageClass":          of("storage.k8s.io", "v1", "storageclasses", false),
	"CSIDriver":             of("storage.k8s.io", "v1", "csidrivers", false),
	"CSINode":               of("storage.k8s.io", "v1", "csinodes", false),
	"CSIStorageCapacity":    of("storage.k8s.io", "v1", "csistoragecapacities", true),
	"VolumeAttachment":      of("storage.k8s.io", "v1", "volumeattachments", false),
	"DeviceClass":           of("resource.k8s.io", "v1", "deviceclasses", false),
	"ResourceSlice":         of("resource.k8s.io", "v1", "resourceslices", false),
	"ResourceClaim":         of("resource.k8s.io", "v1", "resourceclaims", true),
}

// reportLabel is the label on the nodes of a report that is not alone. Its value is the
// report's name.
const reportLabel = "report"

// expand completes an object of a file. Name, namespace, labels and annotations may be at
// its top level, and so may the allocatable resources of a Node and the requests of a
// Pod.
//
// ownerPod names a previously created pod in uids as the object's controller.
func (r *Report) expand(raw json.RawMessage, uids map[string]any) (*unstructured.Unstructured, error) {
	object := map[string]any{}
	if err := utiljson.Unmarshal(raw, &object); err != nil {
		return nil, err
	}
	name, _ := object["kind"].(string)
	k, ok := kinds[name]
	if !ok {
		return nil, fmt.Errorf("kind %q is unknown", name)
	}
	meta := map[string]any{}
	for _, key := range []string{"name", "namespace", "labels", "annotations", "finalizers"} {
		if value, ok := object[key]; ok {
			meta[key] = value
			delete(object, key)
		}
	}
	if owner, ok := object["ownerPod"].(string); ok {
		meta["ownerReferences"] = []any{map[string]any{
			"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": uids[owner], "controller": true,
		}}
		delete(object, "ownerPod")
	}
	if k.namespaced && meta["namespace"] == nil {
		meta["namespace"] = r.Name
	}
	object["apiVersion"], object["metadata"] = k.GroupVersion().String(), meta
	switch name {
	case "Node":
		r.expandNode(object, meta)
	case "Pod":
		r.expandPod(object)
	}
	return &unstructured.Unstructured{Object: object}, nil
}

func (r *Report) expandNode(node, meta map[string]any) {
	room := map[string]any{"cpu": "4", "memory": "8Gi", "pods": "20"}
	take(node, "allocatable", room)
	node["status"] = map[string]any{"allocatable": room, "capacity": maps.Clone(room)}
	labels := map[string]any{"kubernetes.io/hostname": meta["name"]}
	if !r.Alone {
		labels[reportLabel] = r.Name
	}
	take(meta, "labels", labels)
	meta["labels"] = labels
}

func (r *Report) expandPod(pod map[string]any) {
	spec := map[string]any{}
	take(pod, "spec", spec)
	requests := map[string]any{}
	take(pod, "requests", requests)
	if spec["containers"] == nil {
		resources := map[string]any{"requests": requests}
		if extended := limits(requests); len(extended) > 0 {
			resources["limits"] = extended
		}
		spec["containers"] = []any{map[string]any{"name": "main", "image": "registry.example/main:1", "resources": resources}}
	}
	if r.Profile != nil && spec["schedulerName"] == nil {
		spec["schedulerName"] = r.Name
	}
	if !r.Alone {
		selector := map[string]any{reportLabel: r.Name}
		take(spec, "nodeSelector", selector)
		spec["nodeSelector"] = selector
	}
	pod["spec"] = spec
}

// limits returns the limits of extended resources, which the API requires with requests.
func limits(requests map[string]any) map[string]any {
	extended := maps.Clone(requests)
	for _, native := range []string{"cpu", "memory", "ephemeral-storage"} {
		delete(extended, native)
	}
	return extended
}

// take moves the entries of a map into another one.
func take(from map[string]any, key string, into map[string]any) {
	if values, ok := from[key].(map[string]any); ok {
		maps.Copy(into, values)
	}
	delete(from, key)
}
