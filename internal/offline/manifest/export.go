package manifest

import (
	"bytes"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An export is one object that holds a cluster in arrays, one for each resource, as two
// programs write it in JSON. The elements of the arrays have no kind:
//
//   - kube-scheduler-simulator: pods, nodes, pvs, pvcs, storageClasses, priorityClasses,
//     namespaces (ResourcesForSnap in its package simulator/snapshot)
//   - KAI Scheduler: the same under rawObjects, with long names (RawKubernetesObjects in
//     its package pkg/scheduler/plugins/snapshot)

// export reports whether h is the head of an export.
func (h head) export() bool {
	return h.kind == nil && h.apiVersion == nil && h.items < 0 && (h.raw || h.pods && h.nodes)
}

// exported are the kinds by the keys of exports, in lower case. Pod groups are left out,
// because KAI Scheduler has a different kind of this name.
var exported = func() map[string]schema.GroupVersionKind {
	keys := map[string]schema.GroupVersionKind{
		"pvs":  v1.SchemeGroupVersion.WithKind("PersistentVolume"),
		"pvcs": v1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
	}
	for i := range kinds {
		if gvk := kinds[i].gvk; gvk.Group != schedulingv1beta1.GroupName || gvk.Version == "v1" {
			resource, _ := apimeta.UnsafeGuessKindToResource(gvk)
			keys[resource.Resource] = gvk
		}
	}
	return keys
}()

// splitExport returns the objects of an export, and counts objects of unknown kinds by
// their keys. It returns nil if a part of the export is no JSON.
func splitExport(whole unit) (items []unit, skipped []Skipped) {
	items, broken := []unit{}, false
	s := scanner{text: whole.text}
	err := s.members(func(key []byte, first byte, start int) {
		switch {
		case string(key) == "rawObjects" && first == '{':
			inner := whole
			inner.text = s.text[start:s.at]
			inner.line += bytes.Count(whole.text[:start], []byte("\n"))
			more, unknown := splitExport(inner)
			items, skipped, broken = append(items, more...), append(skipped, unknown...), broken || more == nil
		case first == '[':
			gvk, known := exported[strings.ToLower(string(key))]
			more := elementsOf(whole, start, string(key), gvk.GroupVersion().WithKind(gvk.Kind+"List"))
			broken = broken || more == nil
			if known {
				items = append(items, more...)
			} else if len(more) > 0 {
				skipped = append(skipped, Skipped{APIVersion: "no apiVersion", Kind: string(key), Count: len(more)})
			}
		}
	})
	if err != nil || broken {
		return nil, nil
	}
	return items, skipped
}

// elementsOf returns the elements of the array at an offset of whole; nil if it is no
// array.
func elementsOf(whole unit, array int, key string, list schema.GroupVersionKind) []unit {
	items := []unit{}
	line, counted := whole.line, 0
	s := scanner{text: whole.text, at: array}
	err := s.elements(func(at int, text []byte) {
		line += bytes.Count(whole.text[counted:at], []byte("\n"))
		counted = at
		item := whole
		item.line, item.place, item.text, item.list = line, fmt.Sprintf("%s[%d]", key, len(items)), text, list
		items = append(items, item)
	})
	if err != nil {
		return nil
	}
	return items
}
