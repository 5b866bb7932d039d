package state

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/model"
)

// selectionIndex finds the selections that may match a pod, by one label that each of them requires. A pod has few labels, which are looked up;
// selections that require no particular label are in a list, all of which is checked for every pod.
type selectionIndex[T comparable] struct {
	byLabel map[model.Label][]T
	anyway  []T
}

func (x *selectionIndex[T]) add(selector labels.Selector, item T) {
	if x.byLabel == nil {
		x.byLabel = map[model.Label][]T{}
	}
	some := model.Demanded(selector)
	for _, l := range some {
		x.byLabel[l] = append(x.byLabel[l], item)
	}
	if len(some) == 0 {
		x.anyway = append(x.anyway, item)
	}
}

func (x *selectionIndex[T]) remove(selector labels.Selector, item T) {
	is := func(other T) bool { return other == item }
	some := model.Demanded(selector)
	for _, l := range some {
		if left := slices.DeleteFunc(x.byLabel[l], is); len(left) > 0 {
			x.byLabel[l] = left
		} else {
			delete(x.byLabel, l)
		}
	}
	if len(some) == 0 {
		x.anyway = slices.DeleteFunc(x.anyway, is)
	}
}

// candidates calls yield for every selection that may match the pod, each at most once: an item is listed under values of one key only, and a
// pod has at most one value of a key.
func (x *selectionIndex[T]) candidates(pod *model.Pod, yield func(T)) {
	for _, item := range x.anyway {
		yield(item)
	}
	if len(x.byLabel) == 0 {
		return
	}
	for key, value := range pod.Labels {
		for _, item := range x.byLabel[model.Label{Key: key, Value: value}] {
			yield(item)
		}
	}
}
