package world

import "slices"

// Shrink takes objects away from a world as long as what still fails holds of it, and returns what is left. The objects themselves stay
// as they are.
func Shrink(w World, fails func(w World) bool) World {
	for {
		before := len(w.Objects())
		shrink(&w, &w.Pods, fails)
		shrink(&w, &w.Nodes, fails)
		shrink(&w, &w.Services, fails)
		shrink(&w, &w.ReplicaSets, fails)
		shrink(&w, &w.StatefulSets, fails)
		shrink(&w, &w.ReplicationControllers, fails)
		shrink(&w, &w.Namespaces, fails)
		if len(w.Objects()) == before {
			return w
		}
	}
}

// shrink tries to do without parts of a list of the world, large parts first.
func shrink[T any](w *World, list *[]T, fails func(w World) bool) {
	for size := (len(*list) + 1) / 2; size > 0; size /= 2 {
		for at := 0; at < len(*list); {
			whole := *list
			*list = slices.Delete(slices.Clone(whole), at, min(at+size, len(whole)))
			if fails(*w) {
				continue // what follows has moved up
			}
			*list = whole
			at += size
		}
	}
}
