package kinds

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	volume "k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/internal/model"
)

// The kinds of storage reach the state compiled. Each version counts, as in
// kube-scheduler: a volume or claim is promised to a pod in one version.

func storage(resource string) schema.GroupVersionResource {
	return storagev1.SchemeGroupVersion.WithResource(resource)
}

// compiled returns a row for a kind that reaches the state compiled.
func compiled[T Object, C model.Compiled](resource schema.GroupVersionResource, namespaced bool, trim func(*sharing, T), compile func(T) C,
	events ...model.EventResource) Row {
	return row(resource, namespaced, trim, sameVersion, compiling(compile), objectGone, events...)
}

// compiling returns the change of an object that reaches the state compiled.
func compiling[T Object, C model.Compiled](compile func(T) C) func(T) model.Change {
	return func(o T) model.Change { return model.Change{Kind: model.ObjectSet, Object: o, Compiled: compile(o)} }
}

func objectGone(ref model.Ref) model.Change { return model.Change{Kind: model.ObjectGone, Ref: ref} }

// keepAnnotations keeps the annotations that scheduling reads. If only others exist, an
// empty map remains, because a message depends on whether an object has annotations at
// all.
func keepAnnotations(meta *metav1.ObjectMeta, read ...string) {
	if meta.Annotations == nil {
		return
	}
	kept := map[string]string{}
	for _, name := range read {
		if value, ok := meta.Annotations[name]; ok {
			kept[name] = value
		}
	}
	meta.Annotations = kept
}

// trimVolume keeps the metadata and labels of a PersistentVolume (zones, claim
// selectors), its access, its claim, and the parts of the source that count towards a
// node's volume limit. A CSI driver does not identify a volume by its attributes and
// secret names, so they are dropped.
func (s *sharing) trimVolume(pv *v1.PersistentVolume) {
	s.trimMeta(&pv.ObjectMeta)
	pv.OwnerReferences = nil
	keepAnnotations(&pv.ObjectMeta, v1.BetaStorageClassAnnotation, volume.AnnBoundByController)
	spec := &pv.Spec
	pv.Spec = v1.PersistentVolumeSpec{
		Capacity: s.list(onlyStorage(spec.Capacity)), PersistentVolumeSource: onlyIdentity(&spec.PersistentVolumeSource), AccessModes: spec.AccessModes,
		ClaimRef: spec.ClaimRef, StorageClassName: model.Interned(spec.StorageClassName), VolumeMode: spec.VolumeMode, NodeAffinity: spec.NodeAffinity,
		VolumeAttributesClassName: spec.VolumeAttributesClassName,
	}
	pv.Status = v1.PersistentVolumeStatus{Phase: pv.Status.Phase}
}

// onlyIdentity keeps the part of a source that identifies the volume to a CSI driver, or
// that decides whether it can be translated. Other sources are dropped.
func onlyIdentity(of *v1.PersistentVolumeSource) (kept v1.PersistentVolumeSource) {
	switch {
	case of.CSI != nil:
		kept.CSI = &v1.CSIPersistentVolumeSource{Driver: model.Interned(of.CSI.Driver), VolumeHandle: of.CSI.VolumeHandle}
	case of.AWSElasticBlockStore != nil:
		kept.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{VolumeID: of.AWSElasticBlockStore.VolumeID}
	case of.GCEPersistentDisk != nil:
		kept.GCEPersistentDisk = &v1.GCEPersistentDiskVolumeSource{PDName: of.GCEPersistentDisk.PDName}
	case of.AzureDisk != nil:
		kept.AzureDisk = &v1.AzureDiskVolumeSource{DiskName: of.AzureDisk.DiskName, DataDiskURI: of.AzureDisk.DataDiskURI, Kind: of.AzureDisk.Kind}
	case of.Cinder != nil:
		kept.Cinder = &v1.CinderPersistentVolumeSource{VolumeID: of.Cinder.VolumeID}
	case of.PortworxVolume != nil:
		kept.PortworxVolume = &v1.PortworxVolumeSource{VolumeID: of.PortworxVolume.VolumeID}
	}
	return kept
}

func onlyStorage(list v1.ResourceList) v1.ResourceList {
	if amount, ok := list[v1.ResourceStorage]; ok {
		return v1.ResourceList{v1.ResourceStorage: amount}
	}
	return nil
}

// trimClaim keeps the metadata, controller, spec and phase of a PersistentVolumeClaim,
// and the annotations about its class, node and binding.
func (s *sharing) trimClaim(pvc *v1.PersistentVolumeClaim) {
	s.trimMeta(&pvc.ObjectMeta)
	pvc.Labels = nil
	pvc.OwnerReferences = controllerOf(pvc.OwnerReferences)
	keepAnnotations(&pvc.ObjectMeta, v1.BetaStorageClassAnnotation, volume.AnnSelectedNode, volume.AnnBindCompleted)
	spec := &pvc.Spec
	pvc.Spec = v1.PersistentVolumeClaimSpec{
		AccessModes: spec.AccessModes, Selector: spec.Selector, VolumeName: spec.VolumeName, StorageClassName: spec.StorageClassName,
		VolumeMode: spec.VolumeMode, VolumeAttributesClassName: spec.VolumeAttributesClassName,
		Resources: v1.VolumeResourceRequirements{Requests: s.list(onlyStorage(spec.Resources.Requests))},
	}
	pvc.Status = v1.PersistentVolumeClaimStatus{Phase: pvc.Status.Phase}
}

func (s *sharing) trimStorageClass(c *storagev1.StorageClass) {
	s.trimOther(&c.ObjectMeta)
	*c = storagev1.StorageClass{
		TypeMeta: c.TypeMeta, ObjectMeta: c.ObjectMeta, Provisioner: model.Interned(c.Provisioner), VolumeBindingMode: c.VolumeBindingMode,
		AllowedTopologies: c.AllowedTopologies,
	}
}

func (s *sharing) trimCSINode(n *storagev1.CSINode) {
	s.trimMeta(&n.ObjectMeta)
	n.OwnerReferences = nil
	keepAnnotations(&n.ObjectMeta, v1.MigratedPluginsAnnotationKey)
	drivers := slices.Clone(n.Spec.Drivers)
	for i := range drivers {
		drivers[i] = storagev1.CSINodeDriver{Name: model.Interned(drivers[i].Name), Allocatable: drivers[i].Allocatable}
	}
	n.Spec.Drivers = drivers
}

func (s *sharing) trimCSIDriver(d *storagev1.CSIDriver) {
	s.trimOther(&d.ObjectMeta)
	d.Spec = storagev1.CSIDriverSpec{StorageCapacity: d.Spec.StorageCapacity, PreventPodSchedulingIfMissing: d.Spec.PreventPodSchedulingIfMissing}
}

func (s *sharing) trimCapacity(c *storagev1.CSIStorageCapacity) { s.trimOther(&c.ObjectMeta) }

// trimAttachment keeps the volume and the node of a VolumeAttachment. The status is
// dropped: an attachment counts before it is attached.
func (s *sharing) trimAttachment(a *storagev1.VolumeAttachment) {
	s.trimOther(&a.ObjectMeta)
	a.Spec.Attacher, a.Spec.NodeName = model.Interned(a.Spec.Attacher), model.Interned(a.Spec.NodeName)
	a.Spec.Source.InlineVolumeSpec = nil
	a.Status = storagev1.VolumeAttachmentStatus{}
}
