package cases

import (
	"math/rand/v2"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

// Stock draws the storage of a running cluster, and volumes for its pods.
type Stock struct {
	storage *storage
}

// NewStock draws the initial objects, and labels the nodes.
func NewStock(r *rand.Rand, nodes []*v1.Node) *Stock {
	s := newStorage(r, &Case{Cluster: oracle.Cluster{Nodes: nodes}})
	s.endless = true
	s.relabel()
	s.classes()
	s.capacities()
	s.csiNodes(12)
	stock := &Stock{storage: s}
	stock.More()
	return stock
}

// More draws volumes without claims.
func (s *Stock) More() {
	for _, class := range []string{localClass, otherClass, hybridClass} {
		s.storage.free(class)
	}
}

// Mount gives a pod volumes.
func (s *Stock) Mount(p *v1.Pod) {
	s.storage.mount(p, weighted{boundDisk, boundDisk, boundDisk, boundSomewhere, zoned, static, static, static, static, dynamic, dynamic, dynamic, ephemeral,
		oncePod, inlineDisk, inlineInTree, strictDisk, unboundImmediate, nothing})
}

// Drawn returns the objects drawn since the last call.
func (s *Stock) Drawn() []runtime.Object {
	all := (&s.storage.tc.Cluster).Others()
	nodes := s.storage.tc.Nodes
	s.storage.tc.Cluster = oracle.Cluster{Nodes: nodes}
	return all
}

// Change draws a new version or the deletion of one of the objects. Both results are nil
// if nothing can change.
func (s *Stock) Change(now []runtime.Object) (changed, gone runtime.Object) {
	now = slices.DeleteFunc(slices.Clone(now), func(o runtime.Object) bool { return !changeable(o) })
	if len(now) == 0 {
		return nil, nil
	}
	switch o := pick(s.storage.r, now...).DeepCopyObject().(type) {
	case *v1.PersistentVolume, *storagev1.VolumeAttachment:
		return nil, o
	case *storagev1.CSIStorageCapacity:
		o.Capacity = s.storage.bytes()
		limit(o)
		return o, nil
	case *storagev1.CSINode:
		for i := range o.Spec.Drivers {
			if chance(s.storage.r, 40) {
				o.Spec.Drivers[i].Allocatable = &storagev1.VolumeNodeResources{Count: ptr(int32(s.storage.r.IntN(14)))}
			}
		}
		return o, nil
	case *storagev1.StorageClass:
		o.AllowedTopologies = s.storage.topologies(v1.LabelTopologyZone)
		return o, nil
	case *storagev1.CSIDriver:
		o.Spec.StorageCapacity = ptr(chance(s.storage.r, 60))
		return o, nil
	}
	return nil, nil
}

// changeable excludes claims, and volumes that claims have or may get.
func changeable(object runtime.Object) bool {
	switch o := object.(type) {
	case *v1.PersistentVolume:
		return o.Spec.ClaimRef == nil && o.Status.Phase != v1.VolumeAvailable
	case *storagev1.CSIStorageCapacity:
		return o.Capacity != nil
	case *storagev1.StorageClass:
		return o.Name == zonalClass || o.Name == awsClass
	case *storagev1.CSIDriver:
		return o.Name == shareDriver
	case *storagev1.CSINode, *storagev1.VolumeAttachment:
		return true
	}
	return false
}
