package state

import (
	"github.com/berth-scheduler/berth/internal/model"
)

// selectionIndex finds the selections that may match a pod, by their namespaces and by
// one label that each of them demands. A pod has few labels, which are looked up.
// Selections that demand no particular label are filed under their namespaces alone.
// Selections that select namespaces by label are filed under no namespace.
type selectionIndex[T filed[labelKey]] struct{ index index[labelKey, T] }

// add files an item by its term, under the demanded label with the fewest other items.
func (x *selectionIndex[T]) add(term *model.Term, item T) {
	namespaces := term.Namespaces
	if term.NamespaceSelector != nil {
		namespaces = []string{""}
	}
	var best []labelKey
	for _, some := range model.Demands(term.Selector) {
		if keys := keysOf(namespaces, some); best == nil || x.index.listed(keys) < x.index.listed(best) {
			best = keys
		}
	}
	if best == nil {
		best = keysOf(namespaces, []model.Label{{}})
	}
	x.index.add(item, best)
}

func (x *selectionIndex[T]) remove(item T) { x.index.remove(item) }

// candidates calls yield for every selection that may match the pod, once for each: an
// item is filed under values of a single key, where a pod has at most one value, and
// either under namespaces or under none.
func (x *selectionIndex[T]) candidates(pod *model.Pod, yield func(T)) {
	if x.index.under.Len() == 0 {
		return
	}
	for _, namespace := range [...]string{pod.Namespace, ""} {
		x.under(labelKey{namespace: namespace}, yield)
		for key, value := range pod.Labels {
			if key == "" {
				// The API server rejects an empty key, and no selector demands it; only
				// the bare namespace is filed under it.
				continue
			}
			x.under(labelKey{namespace, model.Label{Key: key, Value: value}}, yield)
		}
	}
}

func (x *selectionIndex[T]) under(key labelKey, yield func(T)) {
	for _, item := range x.index.under.Get(key) {
		yield(item)
	}
}
