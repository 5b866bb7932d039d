package upstream_test

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// with returns a pod of a namespace and name on a node, or on none, with volumes.
func with(namespace, name, nodeName string, volumes ...v1.Volume) *v1.Pod {
	p := pod(name, "100m", nodeName)
	p.Namespace, p.UID = namespace, types.UID(namespace+"-"+name)
	for i := range volumes {
		if volumes[i].Name == "" {
			volumes[i].Name = fmt.Sprintf("v%d", i)
		}
	}
	p.Spec.Volumes = volumes
	return p
}

// uses returns a volume entry for a claim.
func uses(claim string) v1.Volume {
	return v1.Volume{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}
}

func ephemeralVolume(name string) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}
}

func gce(name string, readOnly bool) v1.Volume {
	return v1.Volume{VolumeSource: v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: name, ReadOnly: readOnly}}}
}

func ebs(id string, readOnly bool) v1.Volume {
	return v1.Volume{VolumeSource: v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: id, ReadOnly: readOnly}}}
}

func iscsi(iqn string, lun int32, readOnly bool) v1.Volume {
	return v1.Volume{VolumeSource: v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{IQN: iqn, Lun: lun, ReadOnly: readOnly}}}
}

func rbd(readOnly bool, monitors ...string) v1.Volume {
	return v1.Volume{VolumeSource: v1.VolumeSource{RBD: &v1.RBDVolumeSource{CephMonitors: monitors, RBDPool: "p", RBDImage: "i", ReadOnly: readOnly}}}
}

// claimOf returns an unbound claim of the namespace default.
func claimOf(name, class, size string, change ...func(c *v1.PersistentVolumeClaim)) *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("claim-" + name), ResourceVersion: "1", Annotations: map[string]string{}},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}},
		},
	}
	for _, change := range change {
		change(c)
	}
	return c
}

func boundTo(volume string) func(c *v1.PersistentVolumeClaim) {
	return func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName, c.Annotations[bindDone] = volume, "yes" }
}

func oncePod(c *v1.PersistentVolumeClaim) {
	c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
}

func in(namespace string) func(c *v1.PersistentVolumeClaim) {
	return func(c *v1.PersistentVolumeClaim) { c.Namespace = namespace }
}

func annotated(key, value string) func(c *v1.PersistentVolumeClaim) {
	return func(c *v1.PersistentVolumeClaim) { c.Annotations[key] = value }
}

func ownedBy(p *v1.Pod) func(c *v1.PersistentVolumeClaim) {
	yes := true
	return func(c *v1.PersistentVolumeClaim) {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: &yes}}
	}
}

// volumeOf returns an available CSI volume.
func volumeOf(name, class, size string, change ...func(v *v1.PersistentVolume)) *v1.PersistentVolume {
	v := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("volume-" + name), ResourceVersion: "1", Labels: map[string]string{}},
		Spec: v1.PersistentVolumeSpec{
			StorageClassName: class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Capacity:               v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: name}},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
	}
	for _, change := range change {
		change(v)
	}
	return v
}

// at requires a node label.
func at(key string, values ...string) func(v *v1.PersistentVolume) {
	return func(v *v1.PersistentVolume) {
		v.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
			{MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: v1.NodeSelectorOpIn, Values: values}}}}}}
	}
}

func on(nodeName string) func(v *v1.PersistentVolume) { return at(v1.LabelHostname, nodeName) }

func phase(of v1.PersistentVolumePhase) func(v *v1.PersistentVolume) {
	return func(v *v1.PersistentVolume) { v.Status.Phase = of }
}

func from(source v1.PersistentVolumeSource) func(v *v1.PersistentVolume) {
	return func(v *v1.PersistentVolume) { v.Spec.PersistentVolumeSource = source }
}

func labelled(labels ...string) func(v *v1.PersistentVolume) {
	return func(v *v1.PersistentVolume) {
		for i := 0; i < len(labels); i += 2 {
			v.Labels[labels[i]] = labels[i+1]
		}
	}
}

// lateClass returns a class with delayed binding.
func lateClass(name, provisioner string, zones ...string) *storagev1.StorageClass {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}, Provisioner: provisioner, VolumeBindingMode: &mode}
	if len(zones) > 0 {
		c.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: v1.LabelTopologyZone, Values: zones}}}}
	}
	return c
}

const static = "kubernetes.io/no-provisioner"

func driver(name string, capacity, prevent bool) *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &capacity, PreventPodSchedulingIfMissing: &prevent}}
}

// pool returns a capacity object for a zone. An empty maximum is not set.
func pool(name, class, zone, capacity, maximum string) *storagev1.CSIStorageCapacity {
	quantity := resource.MustParse(capacity)
	c := &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{Namespace: "storage", Name: name}, StorageClassName: class, Capacity: &quantity,
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelTopologyZone: zone}},
	}
	if maximum != "" {
		quantity := resource.MustParse(maximum)
		c.MaximumVolumeSize = &quantity
	}
	return c
}

// limits returns a CSINode. A negative count is not set.
func limits(nodeName string, counts map[string]int32) *storagev1.CSINode {
	n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	for _, d := range slices.Sorted(maps.Keys(counts)) {
		listed := storagev1.CSINodeDriver{Name: d, NodeID: nodeName}
		if count := counts[d]; count >= 0 {
			listed.Allocatable = &storagev1.VolumeNodeResources{Count: &count}
		}
		n.Spec.Drivers = append(n.Spec.Drivers, listed)
	}
	return n
}

func attachment(volume, nodeName string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: volume + "-" + nodeName},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: "d", NodeName: nodeName, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}},
	}
}
