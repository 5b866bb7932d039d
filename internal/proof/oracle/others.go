package oracle

import (
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Others returns the objects that are neither nodes nor pods.
func (c *Cluster) Others() []runtime.Object {
	var all []runtime.Object
	for _, o := range c.Namespaces {
		all = append(all, o)
	}
	for _, o := range c.Services {
		all = append(all, o)
	}
	for _, o := range c.ReplicationControllers {
		all = append(all, o)
	}
	for _, o := range c.ReplicaSets {
		all = append(all, o)
	}
	for _, o := range c.StatefulSets {
		all = append(all, o)
	}
	for _, o := range c.PersistentVolumes {
		all = append(all, o)
	}
	for _, o := range c.PersistentVolumeClaims {
		all = append(all, o)
	}
	for _, o := range c.StorageClasses {
		all = append(all, o)
	}
	for _, o := range c.CSINodes {
		all = append(all, o)
	}
	for _, o := range c.CSIDrivers {
		all = append(all, o)
	}
	for _, o := range c.CSIStorageCapacities {
		all = append(all, o)
	}
	for _, o := range c.VolumeAttachments {
		all = append(all, o)
	}
	for _, o := range c.DisruptionBudgets {
		all = append(all, o)
	}
	return all
}

// Add adds an object that is neither a node nor a pod to the cluster. Kinds that Others
// does not list are ignored.
func (c *Cluster) Add(object runtime.Object) {
	switch o := object.(type) {
	case *v1.Namespace:
		c.Namespaces = append(c.Namespaces, o)
	case *v1.Service:
		c.Services = append(c.Services, o)
	case *v1.ReplicationController:
		c.ReplicationControllers = append(c.ReplicationControllers, o)
	case *appsv1.ReplicaSet:
		c.ReplicaSets = append(c.ReplicaSets, o)
	case *appsv1.StatefulSet:
		c.StatefulSets = append(c.StatefulSets, o)
	case *v1.PersistentVolume:
		c.PersistentVolumes = append(c.PersistentVolumes, o)
	case *v1.PersistentVolumeClaim:
		c.PersistentVolumeClaims = append(c.PersistentVolumeClaims, o)
	case *storagev1.StorageClass:
		c.StorageClasses = append(c.StorageClasses, o)
	case *storagev1.CSINode:
		c.CSINodes = append(c.CSINodes, o)
	case *storagev1.CSIDriver:
		c.CSIDrivers = append(c.CSIDrivers, o)
	case *storagev1.CSIStorageCapacity:
		c.CSIStorageCapacities = append(c.CSIStorageCapacities, o)
	case *storagev1.VolumeAttachment:
		c.VolumeAttachments = append(c.VolumeAttachments, o)
	case *Budget:
		c.DisruptionBudgets = append(c.DisruptionBudgets, o)
	}
}
