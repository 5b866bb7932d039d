package oracle

import (
	"math"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// lowUtilization is the default utilization shape: low utilization of storage is best.
var lowUtilization = []configv1.UtilizationShapePoint{{Utilization: 0, Score: 10}, {Utilization: 100, Score: 0}}

// storage is the requests of one class's claims and the capacity for them, in bytes.
type storage struct{ requested, capacity int64 }

// volumeBindingScore rates the use of the volumes or capacities that the pod's claims
// would take. Upstream scores all nodes 0 for a pod without claims to bind. Here the
// plugin skips, with the same total.
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

// storage adds up by class. If any volume was found, claims to provision do not count.
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
		// Upstream would crash on a capacity with only a maximum volume size, and on a
		// class that is only in the annotation. Neither counts here.
		if p.capacity == nil || p.capacity.Capacity == nil || p.claim.Spec.StorageClassName == nil {
			continue
		}
		s := classes[*p.claim.Spec.StorageClassName]
		s.requested = plus(s.requested, storageOf(p.claim.Spec.Resources.Requests))
		// Not added up: the claims share the capacity.
		s.capacity = ceiling(*p.capacity.Capacity, units)
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
