package state

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/berth-scheduler/berth/internal/model"
)

// label is one label of a pod.
type label struct{ key, value string }

// selectionIndex finds the selections that may match a pod, by one label that each of them demands. A pod's few labels are looked
// up; selections that demand no particular label are kept in a list that every pod is held against.
type selectionIndex[T comparable] struct {
	byLabel map[label][]T
	anyway  []T
}

// demanded returns labels of which every pod that the selector matches has one; none if the selector demands nothing of the kind.
func demanded(s labels.Selector) []label {
	requirements, selectable := s.Requirements()
	if !selectable {
		return nil
	}
	for _, r := range requirements {
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			var some []label
			for _, value := range r.ValuesUnsorted() {
				some = append(some, label{r.Key(), value})
			}
			return some
		}
	}
	return nil
}

func (x *selectionIndex[T]) add(selector labels.Selector, item T) {
	if x.byLabel == nil {
		x.byLabel = map[label][]T{}
	}
	some := demanded(selector)
	for _, l := range some {
		x.byLabel[l] = append(x.byLabel[l], item)
	}
	if len(some) == 0 {
		x.anyway = append(x.anyway, item)
	}
}

func (x *selectionIndex[T]) remove(selector labels.Selector, item T) {
	is := func(other T) bool { return other == item }
	some := demanded(selector)
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

// candidates calls yield for every selection that may match the pod, each at most once: an item is listed under values of one key only,
// of which the pod has at most one.
func (x *selectionIndex[T]) candidates(pod *model.Pod, yield func(T)) {
	for _, item := range x.anyway {
		yield(item)
	}
	if len(x.byLabel) == 0 {
		return
	}
	for key, value := range pod.Labels {
		for _, item := range x.byLabel[label{key, value}] {
			yield(item)
		}
	}
}
