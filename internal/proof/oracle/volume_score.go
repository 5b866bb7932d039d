package oracle

import (
	"math"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// lowUtilization is the default shape: the emptier the storage, the better.
var lowUtilization = []configv1.UtilizationShapePoint{{Utilization: 0, Score: 10}, {Utilization: 100, Score: 0}}

// storage is what the claims of one class request, in bytes, and what there is for them.
type storage struct{ requested, capacity int64 }

// volumeBindingScore rates the use of the volumes or the pools that the pod's claims would take. Upstream gives 0 to all nodes for a pod without
// claims to bind; here the plugin skips, which adds up to the same.
func volumeBindingScore(cy *cycle) (scores, error) {
	claims, err := cy.podClaims()
	if err != nil || cy.profile.StorageCapacityScoringOff || len(claims.delayed) == 0 {
		return scores{}, err
	}
	shape := cy.profile.VolumeBinding.Shape
	if len(shape) == 0 {
		shape = lowUtilization
	}
	raw := make([]int64, len(cy.feasible))
	for i, n := range cy.feasible {
		b, err := cy.bind(claims.delayed, n)
		if err != nil {
			return scores{}, err
		}
		raw[i] = rateStorage(b.storage(), shape)
	}
	return asTheyAre(raw), nil
}

// storage adds up by class. If any volume is there already, what is to be provisioned does not count.
func (b bindings) storage() map[string]storage {
	classes := map[string]storage{}
	for _, m := range b.static {
		s := classes[m.volume.Spec.StorageClassName]
		s.requested = plus(s.requested, storageOf(m.claim.Spec.Resources.Requests))
		s.capacity = plus(s.capacity, storageOf(m.volume.Spec.Capacity))
		classes[m.volume.Spec.StorageClassName] = s
	}
	if len(b.static) > 0 {
		return classes
	}
	for _, p := range b.provisioned {
		// Without a capacity, upstream would crash on a pool found by its maximum volume size, and so it would on a class that is only in the
		// annotation. Neither counts here.
		if p.capacity == nil || p.capacity.Capacity == nil || p.claim.Spec.StorageClassName == nil {
			continue
		}
		s := classes[*p.claim.Spec.StorageClassName]
		s.requested = plus(s.requested, storageOf(p.claim.Spec.Resources.Requests))
		s.capacity = ceiling(*p.capacity.Capacity, units) // not added up: the claims share the pool
		classes[*p.claim.Spec.StorageClassName] = s
	}
	return classes
}

func storageOf(list v1.ResourceList) int64 {
	q := list[v1.ResourceStorage]
	return ceiling(q, units)
}

// rateStorage is the mean of the classes' scores.
func rateStorage(classes map[string]storage, shape []configv1.UtilizationShapePoint) int64 {
	if len(classes) == 0 {
		return 0
	}
	var sum int64
	for _, s := range classes {
		if s.capacity == 0 {
			sum += shaped(shape, maxScore)
		} else {
			sum += shaped(shape, utilization(s.requested, s.capacity))
		}
	}
	return int64(math.Round(float64(sum) / float64(len(classes))))
}
