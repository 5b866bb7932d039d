package random

import (
	"math/rand/v2"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

func storage() maker {
	return maker{StorageNode, storageNodeLabels, StoragePod, StoragePlacedPod, podLabels}
}

// StorageChange draws a mutation of a cluster that StorageCluster made. In addition to
// the mutations of Change, with storage nodes and pods, it draws changes of storage
// objects.
func StorageChange(r *rand.Rand, c oracle.Cluster) Mutation {
	switch n := r.IntN(100); {
	case n < 20:
		return addStorage(r, c)
	case n < 28:
		return removeStorage(r, c)
	case n < 62:
		return changeStorage(r, c)
	case n < 70 && len(c.Nodes) > 0:
		return storage().changeNode(r, c, NodeRelabelled)
	}
	return storage().change(r, c)
}

// addStorage adds a storage object, or replaces the object of its name.
func addStorage(r *rand.Rand, c oracle.Cluster) Mutation {
	switch n := r.IntN(100); {
	case n < 30:
		return setStorage(c, StorageSet, persistentVolume(r, c))
	case n < 60:
		return setStorage(c, StorageSet, persistentVolumeClaim(r, c))
	case n < 68:
		return setStorage(c, StorageSet, storageClass(r, pick(r, classNames...)))
	case n < 80:
		return setStorage(c, StorageSet, csiNode(r, someNode(r, c)))
	case n < 84:
		return setStorage(c, StorageSet, csiDriver(r, pick(r, ownDriver, ownDriver, otherDriver, ebsDriver)))
	case n < 94:
		return setStorage(c, StorageSet, storageCapacity(r, c))
	}
	return setStorage(c, StorageSet, volumeAttachment(r, c))
}

// setStorage returns the mutation that adds an object, or replaces the object of its
// name.
func setStorage(c oracle.Cluster, kind Kind, object metav1.Object) Mutation {
	m := Mutation{Kind: kind, New: object, After: cloned(c)}
	switch o := object.(type) {
	case *v1.PersistentVolume:
		m.Old = put(&m.After.PersistentVolumes, o)
	case *v1.PersistentVolumeClaim:
		m.Old = put(&m.After.PersistentVolumeClaims, o)
	case *storagev1.StorageClass:
		m.Old = put(&m.After.StorageClasses, o)
	case *storagev1.CSINode:
		m.Old = put(&m.After.CSINodes, o)
	case *storagev1.CSIDriver:
		m.Old = put(&m.After.CSIDrivers, o)
	case *storagev1.CSIStorageCapacity:
		m.Old = put(&m.After.CSIStorageCapacities, o)
	case *storagev1.VolumeAttachment:
		m.Old = put(&m.After.VolumeAttachments, o)
	}
	return m
}

// put returns the replaced object, or nil if it adds one.
func put[T metav1.Object](all *[]T, object T) (old metav1.Object) {
	at := slices.IndexFunc(*all, func(o T) bool { return o.GetNamespace() == object.GetNamespace() && o.GetName() == object.GetName() })
	if at < 0 {
		*all = append(*all, object)
		return nil
	}
	old = (*all)[at]
	(*all)[at] = object
	return old
}

// removeStorage removes a storage object of a drawn kind. If none exists, it adds one.
func removeStorage(r *rand.Rand, c oracle.Cluster) Mutation {
	m := Mutation{Kind: StorageRemoved, After: cloned(c)}
	switch n := r.IntN(100); {
	case n < 30:
		m.Old = drop(r, &m.After.PersistentVolumes)
	case n < 60:
		m.Old = drop(r, &m.After.PersistentVolumeClaims)
	case n < 67:
		m.Old = drop(r, &m.After.StorageClasses)
	case n < 77:
		m.Old = drop(r, &m.After.CSINodes)
	case n < 80:
		m.Old = drop(r, &m.After.CSIDrivers)
	case n < 90:
		m.Old = drop(r, &m.After.CSIStorageCapacities)
	default:
		m.Old = drop(r, &m.After.VolumeAttachments)
	}
	if m.Old == nil {
		return addStorage(r, c)
	}
	return m
}

func drop[T metav1.Object](r *rand.Rand, all *[]T) metav1.Object {
	if len(*all) == 0 {
		return nil
	}
	at := r.IntN(len(*all))
	gone := (*all)[at]
	*all = slices.Delete(*all, at, at+1)
	return gone
}

// changeStorage changes a storage object as controllers and users do.
func changeStorage(r *rand.Rand, c oracle.Cluster) Mutation {
	switch n := r.IntN(100); {
	case n < 35 && len(c.PersistentVolumes) > 0:
		return changeVolume(r, c, pick(r, c.PersistentVolumes...).DeepCopy())
	case n < 70 && len(c.PersistentVolumeClaims) > 0:
		return changeClaim(r, c, pick(r, c.PersistentVolumeClaims...).DeepCopy())
	case n < 75 && len(c.StorageClasses) > 0:
		class := pick(r, c.StorageClasses...).DeepCopy()
		if class.AllowedTopologies = nil; chance(r, 60) {
			class.AllowedTopologies = allowedTopologies(r)
		}
		return newer(c, class)
	case n < 85 && len(c.CSINodes) > 0:
		old := pick(r, c.CSINodes...)
		n := csiNode(r, old.Name)
		n.UID, n.ResourceVersion = old.UID, old.ResourceVersion
		return newer(c, n)
	case n < 88 && len(c.CSIDrivers) > 0:
		driver := pick(r, c.CSIDrivers...).DeepCopy()
		driver.Spec.StorageCapacity = pick(r, nil, ptr(true), ptr(false))
		driver.Spec.PreventPodSchedulingIfMissing = pick(r, nil, ptr(true), ptr(false))
		return newer(c, driver)
	case len(c.CSIStorageCapacities) > 0:
		pool := pick(r, c.CSIStorageCapacities...).DeepCopy()
		pool.Capacity = pick(r, nil, ptr(storageSize(r)), ptr(storageSize(r)))
		return newer(c, pool)
	}
	return addStorage(r, c)
}

func newer(c oracle.Cluster, object metav1.Object) Mutation {
	object.SetResourceVersion(next(object.GetResourceVersion()))
	return setStorage(c, StorageChanged, object)
}

func changeVolume(r *rand.Rand, c oracle.Cluster, v *v1.PersistentVolume) Mutation {
	switch r.IntN(8) {
	case 0, 1:
		v.Spec.ClaimRef, v.Status.Phase = nil, v1.VolumeAvailable
	case 2:
		v.Spec.ClaimRef = claimRef(r, c)
	case 3:
		if v.Spec.ClaimRef != nil {
			v.Spec.ClaimRef = v.Spec.ClaimRef.DeepCopy()
			v.Spec.ClaimRef.UID = claimUID(c, v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name)
		}
	case 4:
		v.Status.Phase = pick(r, v1.VolumeAvailable, v1.VolumeAvailable, v1.VolumeBound, v1.VolumeReleased)
	case 5:
		v.Labels = volumeLabels(r)
	case 6:
		v.Spec.NodeAffinity = volumeAffinity(r, c)
	case 7:
		v.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: storageSize(r)}
	}
	return newer(c, v)
}

func changeClaim(r *rand.Rand, c oracle.Cluster, claim *v1.PersistentVolumeClaim) Mutation {
	switch r.IntN(8) {
	case 0, 1:
		bindClaim(r, c, claim)
	case 2, 3:
		claim.Spec.VolumeName, claim.Annotations, claim.Status.Phase = "", nil, v1.ClaimPending
	case 4:
		setAnnotation(claim, annSelectedNode, someNode(r, c))
	case 5:
		delete(claim.Annotations, annSelectedNode)
	case 6:
		claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse(pick(r, "1Gi", "2Gi", "4Gi"))}
	case 7:
		claim.Labels = podLabels(r) // scheduling does not read it
	}
	return newer(c, claim)
}

// StorageProfile returns a profile like Profile, with any arguments of VolumeBinding.
// Some of the volume plugins may be disabled.
func StorageProfile(r *rand.Rand) oracle.Profile {
	p := Profile(r)
	for _, name := range some(r, 6, "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone") {
		p.Disabled[name] = true
	}
	if p.Weights != nil && chance(r, 50) {
		p.Weights["VolumeBinding"] = pick(r, int64(1), 2, 3, 100)
	}
	switch n := r.IntN(10); {
	case n < 4:
		p.VolumeBinding.Shape = shape(r)
	case n < 5:
		p.StorageCapacityScoringOff = true
	}
	return p
}

// Newer returns the mutation that replaces a storage object of the cluster by a newer
// version.
func Newer(c oracle.Cluster, object metav1.Object) Mutation {
	switch o := object.(type) {
	case *v1.PersistentVolume:
		return newer(c, o.DeepCopy())
	case *v1.PersistentVolumeClaim:
		return newer(c, o.DeepCopy())
	}
	panic("random: a newer version of an object that nobody writes")
}

// Place returns the mutation that binds the i-th pod of the cluster to a node.
func Place(c oracle.Cluster, i int, node string) Mutation {
	return replacePod(c, PodPlaced, i, func(p *v1.Pod) { p.Spec.NodeName, p.Status.NominatedNodeName = node, "" })
}
