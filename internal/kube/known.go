package kube

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
)

// Known returns the pods and nodes in the informers' caches, in no particular order. They
// must not be changed.
func (w *Watch) Known() (pods []*v1.Pod, nodes []*v1.Node) {
	return known[*v1.Pod](w, model.PodKind), known[*v1.Node](w, model.NodeKind)
}

func known[T any](w *Watch, kind model.Kind) []T {
	var objects []T
	for _, object := range w.informers[kind].GetStore().List() {
		if o, ok := object.(T); ok {
			objects = append(objects, o)
		}
	}
	return objects
}

// Pod returns the pod from the informer's cache; nil if it does not exist or has
// finished.
func (w *Watch) Pod(namespace, name string) *v1.Pod {
	object, _, err := w.informers[model.PodKind].GetStore().GetByKey(namespace + "/" + name)
	if err != nil {
		return nil
	}
	pod, _ := object.(*v1.Pod)
	return pod
}
