package kube

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-scheduler/berth/internal/model"
)

// Out-of-tree plugins may register events for any API resource. Resources that scheduling
// does not read are watched only for these events, and the loop does not wait for their
// first lists. If the API server does not serve a resource, or the scheduler may not list
// it, the watch retries with growing pauses, and nothing else changes. kube-scheduler
// does not start before it has listed them.

// Raiser receives changes of objects that scheduling does not read.
type Raiser interface {
	// Raise processes a change. Each resource has one goroutine that calls it.
	Raise(object types.NamespacedName, change model.OtherChange)
}

// Others also watches resources that scheduling does not read, by kube-scheduler's names.
// These are resource.k8s.io/ResourceClaim, DeviceClass and ResourceSlice, or
// <plural>.<version>.<group> of custom resources. It ignores other names; see CheckOther.
func Others(names []string, raise Raiser) WatchOption {
	return func(o *watchOptions) { o.others, o.raise = names, raise }
}

// typed are the resources whose hints get types of k8s.io/api, by kube-scheduler's name.
var typed = map[string]schema.GroupVersionResource{
	"resource.k8s.io/ResourceClaim": {Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaims"},
	"resource.k8s.io/ResourceSlice": {Group: "resource.k8s.io", Version: "v1", Resource: "resourceslices"},
	"resource.k8s.io/DeviceClass":   {Group: "resource.k8s.io", Version: "v1", Resource: "deviceclasses"},
}

// unwatched are the resources that kube-scheduler watches only with alpha or beta gates.
var unwatched = []string{"scheduling.k8s.io/PodGroup", "scheduling.k8s.io/CompositePodGroup"}

// CheckOther returns an error for an invalid name of a resource that scheduling does not
// read. kube-scheduler logs the error and continues.
func CheckOther(name string) error {
	if _, ok := typed[name]; ok || slices.Contains(unwatched, name) {
		return nil
	}
	if strings.Count(name, ".") < 2 || strings.Contains(name, "/") {
		return fmt.Errorf("resource %q of an event: must be a resource that kube-scheduler knows, or <plural>.<version>.<group> as in foos.v1.example.com", name)
	}
	for part := range strings.SplitSeq(name, ".") {
		if part == "" {
			return fmt.Errorf("resource %q of an event: must have no empty part between dots, as in foos.v1.example.com", name)
		}
	}
	return nil
}

// watchOthers sets up the watches of resources that scheduling does not read.
func (w *Watch) watchOthers(client *Client, o *watchOptions) error {
	seen := map[string]bool{}
	for _, name := range o.others {
		if seen[name] || CheckOther(name) != nil || slices.Contains(unwatched, name) {
			continue
		}
		seen[name] = true
		informer, err := w.other(client, name)
		if err == nil {
			_, err = informer.AddEventHandler(raising(name, o.raise))
		}
		if err != nil {
			return fmt.Errorf("set up the watch of %s: %w", name, err)
		}
	}
	return nil
}

// other returns the informer of a resource.
func (w *Watch) other(client *Client, name string) (cache.SharedIndexInformer, error) {
	if resource, ok := typed[name]; ok {
		generic, err := w.factory.ForResource(resource)
		if err != nil {
			return nil, err
		}
		return withoutManagedFields(generic.Informer())
	}
	resource, _ := schema.ParseResourceArg(name)
	informer := dynamicinformer.NewFilteredDynamicInformer(client.dynamic, *resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	w.others = append(w.others, informer)
	return withoutManagedFields(informer)
}

// withoutManagedFields returns an informer that drops the managedFields while decoding.
// Objects that the informer already has are not written again.
func withoutManagedFields(informer cache.SharedIndexInformer) (cache.SharedIndexInformer, error) {
	return informer, informer.SetTransform(func(object any) (any, error) {
		if o, err := meta.Accessor(object); err == nil && o.GetManagedFields() != nil {
			o.SetManagedFields(nil)
		}
		return object, nil
	})
}

// raising passes changes of objects on.
func raising(name string, to Raiser) cache.ResourceEventHandler {
	raise := func(old, object any) {
		last := object
		if last == nil {
			last = old
		}
		o, err := meta.Accessor(last)
		if err != nil {
			return
		}
		to.Raise(types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}, model.OtherChange{Resource: name, Old: old, New: object})
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { raise(nil, object) },
		UpdateFunc: func(old, object any) { raise(old, object) },
		DeleteFunc: func(object any) {
			if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = missed.Obj
			}
			if object != nil {
				raise(object, nil)
			}
		},
	}
}
