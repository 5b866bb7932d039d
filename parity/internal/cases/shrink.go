package cases

import "slices"

// Shrink removes objects from a case while fails holds for the rest, and returns the
// rest. The objects themselves are not changed.
func Shrink(tc Case, fails func(tc Case) bool) Case {
	for {
		before := len(tc.Objects())
		shrink(&tc, &tc.Pods, fails)
		shrink(&tc, &tc.Nodes, fails)
		shrink(&tc, &tc.Services, fails)
		shrink(&tc, &tc.ReplicaSets, fails)
		shrink(&tc, &tc.StatefulSets, fails)
		shrink(&tc, &tc.ReplicationControllers, fails)
		shrink(&tc, &tc.Namespaces, fails)
		shrink(&tc, &tc.PersistentVolumes, fails)
		shrink(&tc, &tc.PersistentVolumeClaims, fails)
		shrink(&tc, &tc.StorageClasses, fails)
		shrink(&tc, &tc.CSINodes, fails)
		shrink(&tc, &tc.CSIDrivers, fails)
		shrink(&tc, &tc.CSIStorageCapacities, fails)
		shrink(&tc, &tc.VolumeAttachments, fails)
		shrink(&tc, &tc.Budgets, fails)
		shrink(&tc, &tc.Devices, fails)
		if len(tc.Objects()) == before {
			return tc
		}
	}
}

// shrink tries to remove parts of a list of the case, large parts first.
func shrink[T any](tc *Case, list *[]T, fails func(tc Case) bool) {
	for size := (len(*list) + 1) / 2; size > 0; size /= 2 {
		for at := 0; at < len(*list); {
			whole := *list
			*list = slices.Delete(slices.Clone(whole), at, min(at+size, len(whole)))
			if fails(*tc) {
				continue // the following elements have moved up
			}
			*list = whole
			at += size
		}
	}
}
