package kinds

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/model"
)

// fullMeta is metadata with all fields set, including these annotations.
func fullMeta(namespace string, annotations ...string) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{
		Name: "web", Namespace: namespace, UID: "u", ResourceVersion: "7", Labels: map[string]string{"app": "web"},
		Annotations: map[string]string{"note": "long"}, Finalizers: []string{"kubernetes.io/pv-protection"},
		CreationTimestamp: metav1.NewTime(time.Unix(1, 0)), DeletionTimestamp: &metav1.Time{Time: time.Unix(2, 0)},
		OwnerReferences: []metav1.OwnerReference{{Name: "other", UID: "o"}, {Name: "owner", UID: "c", Controller: ptr(true)}},
		ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
	}
	for _, name := range annotations {
		meta.Annotations[name] = "value"
	}
	return meta
}

// keptMeta is the trimmed metadata, with labels and the controller only if scheduling
// reads them. nil annotations are for objects whose annotations are not read.
func keptMeta(namespace string, labels, owner bool, annotations ...string) metav1.ObjectMeta {
	full := fullMeta(namespace)
	meta := metav1.ObjectMeta{
		Name: "web", Namespace: namespace, UID: "u", ResourceVersion: "7", CreationTimestamp: full.CreationTimestamp, DeletionTimestamp: full.DeletionTimestamp,
	}
	if labels {
		meta.Labels = full.Labels
	}
	if owner {
		meta.OwnerReferences = []metav1.OwnerReference{{Name: "owner", UID: "c", Controller: ptr(true)}}
	}
	for _, name := range annotations {
		if meta.Annotations == nil {
			meta.Annotations = map[string]string{}
		}
		if name != "" {
			meta.Annotations[name] = "value"
		}
	}
	return meta
}

// storageOnly returns an amount of storage with another resource, and the trimmed list.
func storageOnly() (full, kept v1.ResourceList) {
	kept = v1.ResourceList{v1.ResourceStorage: resource.MustParse("10Gi")}
	return v1.ResourceList{v1.ResourceStorage: resource.MustParse("10Gi"), "example.com/iops": resource.MustParse("5")}, kept
}

// TestStorageIsTrimmed trims objects of storage, with many unread fields.
func TestStorageIsTrimmed(t *testing.T) {
	full, kept := storageOnly()
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "fast"}}
	mode, class, waits := v1.PersistentVolumeBlock, "fast", storagev1.VolumeBindingWaitForFirstConsumer
	topologies := []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: "zone", Values: []string{"a"}}}}}
	count, amount := &storagev1.VolumeNodeResources{Count: ptr(int32(25))}, resource.MustParse("1Ti")
	for _, test := range []struct{ full, want apiruntime.Object }{
		{&v1.PersistentVolumeClaim{
			ObjectMeta: fullMeta("shop", "volume.beta.kubernetes.io/storage-class", "volume.kubernetes.io/selected-node", "pv.kubernetes.io/bind-completed",
				"pv.kubernetes.io/bound-by-controller", "volume.kubernetes.io/storage-provisioner"),
			Spec: v1.PersistentVolumeClaimSpec{
				AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}, Selector: selector, VolumeName: "v", StorageClassName: &class, VolumeMode: &mode,
				VolumeAttributesClassName: ptr("gold"), Resources: v1.VolumeResourceRequirements{Requests: full, Limits: full},
				DataSource: &v1.TypedLocalObjectReference{Name: "snapshot"}, DataSourceRef: &v1.TypedObjectReference{Name: "snapshot"},
			},
			Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimLost, Capacity: full, Conditions: []v1.PersistentVolumeClaimCondition{{}}},
		}, &v1.PersistentVolumeClaim{
			ObjectMeta: keptMeta("shop", false, true, "volume.beta.kubernetes.io/storage-class", "volume.kubernetes.io/selected-node", "pv.kubernetes.io/bind-completed"),
			Spec: v1.PersistentVolumeClaimSpec{
				AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}, Selector: selector, VolumeName: "v", StorageClassName: &class, VolumeMode: &mode,
				VolumeAttributesClassName: ptr("gold"), Resources: v1.VolumeResourceRequirements{Requests: kept},
			},
			Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimLost},
		}},
		// A message depends on whether a claim has any annotations.
		{&v1.PersistentVolumeClaim{ObjectMeta: fullMeta("shop")}, &v1.PersistentVolumeClaim{ObjectMeta: withNoAnnotations(keptMeta("shop", false, true))}},
		{&storagev1.StorageClass{
			ObjectMeta: fullMeta("", "storageclass.kubernetes.io/is-default-class"), Provisioner: "d", Parameters: map[string]string{"secretName": "s"},
			ReclaimPolicy: ptr(v1.PersistentVolumeReclaimDelete), MountOptions: []string{"noatime"}, AllowVolumeExpansion: ptr(true), VolumeBindingMode: &waits,
			AllowedTopologies: topologies,
		}, &storagev1.StorageClass{ObjectMeta: keptMeta("", true, false), Provisioner: "d", VolumeBindingMode: &waits, AllowedTopologies: topologies}},
		{&storagev1.CSINode{ObjectMeta: fullMeta("", v1.MigratedPluginsAnnotationKey), Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: "d", NodeID: "i-0123", TopologyKeys: []string{"zone"}, Allocatable: count},
		}}}, &storagev1.CSINode{ObjectMeta: keptMeta("", true, false, v1.MigratedPluginsAnnotationKey),
			Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "d", Allocatable: count}}}}},
		{&storagev1.CSIDriver{ObjectMeta: fullMeta(""), Spec: storagev1.CSIDriverSpec{
			AttachRequired: ptr(true), StorageCapacity: ptr(true), PreventPodSchedulingIfMissing: ptr(true), TokenRequests: []storagev1.TokenRequest{{Audience: "a"}},
		}}, &storagev1.CSIDriver{ObjectMeta: keptMeta("", true, false), Spec: storagev1.CSIDriverSpec{StorageCapacity: ptr(true), PreventPodSchedulingIfMissing: ptr(true)}}},
		{&storagev1.CSIStorageCapacity{ObjectMeta: fullMeta("csi"), NodeTopology: selector, StorageClassName: "fast", Capacity: &amount, MaximumVolumeSize: &amount},
			&storagev1.CSIStorageCapacity{ObjectMeta: keptMeta("csi", true, false), NodeTopology: selector, StorageClassName: "fast", Capacity: &amount, MaximumVolumeSize: &amount}},
		{&storagev1.VolumeAttachment{ObjectMeta: fullMeta(""), Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "d", NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr("v")},
		}, Status: storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"device": "/dev/xvda"}}},
			&storagev1.VolumeAttachment{ObjectMeta: keptMeta("", true, false), Spec: storagev1.VolumeAttachmentSpec{
				Attacher: "d", NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr("v")},
			}}},
		{&storagev1.VolumeAttachment{ObjectMeta: fullMeta(""), Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "d", NodeName: "n", Source: storagev1.VolumeAttachmentSource{InlineVolumeSpec: &v1.PersistentVolumeSpec{StorageClassName: "c"}},
		}}, &storagev1.VolumeAttachment{ObjectMeta: keptMeta("", true, false), Spec: storagev1.VolumeAttachmentSpec{Attacher: "d", NodeName: "n"}}},
	} {
		for _, round := range []string{"once", "twice"} {
			if diff := cmp.Diff(test.want, trimmed(t, test.full)); diff != "" {
				t.Errorf("%T trimmed %s, -want +got:\n%s", test.full, round, diff)
			}
		}
	}
}

func withNoAnnotations(meta metav1.ObjectMeta) metav1.ObjectMeta {
	meta.Annotations = map[string]string{}
	return meta
}

// TestVolumesAreTrimmed trims volumes of every source that can name a secret or a server.
// The volume limits do not change: the trimmed volume compiles to an equal result.
func TestVolumesAreTrimmed(t *testing.T) {
	full, kept := storageOnly()
	mode, secret := v1.PersistentVolumeBlock, &v1.SecretReference{Name: "secret", Namespace: "secret"}
	dedicated, managed := v1.AzureDedicatedBlobDisk, v1.AzureManagedDisk
	attributes := map[string]string{"secret": "secret"}
	affinity := &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
		{MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: []string{"a"}}}},
	}}}
	for _, test := range []struct{ full, want v1.PersistentVolumeSource }{
		{v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h", FSType: "ext4", VolumeAttributes: attributes,
			ControllerPublishSecretRef: secret, NodeStageSecretRef: secret, NodePublishSecretRef: secret, NodeExpandSecretRef: secret, ControllerExpandSecretRef: secret}},
			v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}}},
		{v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1", FSType: "ext4", Partition: 1, ReadOnly: true}},
			v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}}},
		{v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://zone/nonsense"}},
			v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://zone/nonsense"}}},
		{v1.PersistentVolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "pd", FSType: "ext4", Partition: 2}},
			v1.PersistentVolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "pd"}}},
		{v1.PersistentVolumeSource{AzureDisk: &v1.AzureDiskVolumeSource{DiskName: "disk", DataDiskURI: "uri", FSType: ptr("ext4"), Kind: &managed, ReadOnly: ptr(true)}},
			v1.PersistentVolumeSource{AzureDisk: &v1.AzureDiskVolumeSource{DiskName: "disk", DataDiskURI: "uri", Kind: &managed}}},
		// This source cannot be translated.
		{v1.PersistentVolumeSource{AzureDisk: &v1.AzureDiskVolumeSource{DiskName: "disk", DataDiskURI: "uri", Kind: &dedicated}},
			v1.PersistentVolumeSource{AzureDisk: &v1.AzureDiskVolumeSource{DiskName: "disk", DataDiskURI: "uri", Kind: &dedicated}}},
		{v1.PersistentVolumeSource{Cinder: &v1.CinderPersistentVolumeSource{VolumeID: "id", FSType: "ext4", SecretRef: secret}},
			v1.PersistentVolumeSource{Cinder: &v1.CinderPersistentVolumeSource{VolumeID: "id"}}},
		{v1.PersistentVolumeSource{PortworxVolume: &v1.PortworxVolumeSource{VolumeID: "id", FSType: "ext4"}},
			v1.PersistentVolumeSource{PortworxVolume: &v1.PortworxVolumeSource{VolumeID: "id"}}},
		{v1.PersistentVolumeSource{AzureFile: &v1.AzureFilePersistentVolumeSource{SecretName: "secret", ShareName: "s", SecretNamespace: ptr("secret")}}, v1.PersistentVolumeSource{}},
		{v1.PersistentVolumeSource{VsphereVolume: &v1.VsphereVirtualDiskVolumeSource{VolumePath: "[ds] disk"}}, v1.PersistentVolumeSource{}},
		{v1.PersistentVolumeSource{FlexVolume: &v1.FlexPersistentVolumeSource{Driver: "d", SecretRef: secret, Options: attributes}}, v1.PersistentVolumeSource{}},
		{v1.PersistentVolumeSource{CephFS: &v1.CephFSPersistentVolumeSource{Monitors: []string{"m"}, SecretFile: "secret", SecretRef: secret}}, v1.PersistentVolumeSource{}},
		{v1.PersistentVolumeSource{RBD: &v1.RBDPersistentVolumeSource{RBDImage: "i", SecretRef: secret}}, v1.PersistentVolumeSource{}},
		{v1.PersistentVolumeSource{ISCSI: &v1.ISCSIPersistentVolumeSource{IQN: "iqn", SecretRef: secret}}, v1.PersistentVolumeSource{}},
		{v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "server", Path: "/"}}, v1.PersistentVolumeSource{}},
		{v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/mnt"}}, v1.PersistentVolumeSource{}},
	} {
		object := &v1.PersistentVolume{
			ObjectMeta: fullMeta("", "volume.beta.kubernetes.io/storage-class", "pv.kubernetes.io/bound-by-controller", "pv.kubernetes.io/provisioned-by",
				"openstorage.io/auth-secret-name", "openstorage.io/auth-secret-namespace"),
			Spec: v1.PersistentVolumeSpec{
				Capacity: full, PersistentVolumeSource: test.full, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}, ClaimRef: &v1.ObjectReference{Name: "c"},
				PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain, StorageClassName: "fast", MountOptions: []string{"secret"}, VolumeMode: &mode,
				NodeAffinity: affinity, VolumeAttributesClassName: ptr("gold"),
			},
			Status: v1.PersistentVolumeStatus{Phase: v1.VolumeBound, Message: "secret", Reason: "secret"},
		}
		want := &v1.PersistentVolume{
			ObjectMeta: keptMeta("", true, false, "volume.beta.kubernetes.io/storage-class", "pv.kubernetes.io/bound-by-controller"),
			Spec: v1.PersistentVolumeSpec{
				Capacity: kept, PersistentVolumeSource: test.want, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}, ClaimRef: &v1.ObjectReference{Name: "c"},
				StorageClassName: "fast", VolumeMode: &mode, NodeAffinity: affinity, VolumeAttributesClassName: ptr("gold"),
			},
			Status: v1.PersistentVolumeStatus{Phase: v1.VolumeBound},
		}
		whole := model.NewVolume(object.DeepCopy())
		for _, round := range []string{"once", "twice"} {
			if diff := cmp.Diff(want, trimmed(t, object)); diff != "" {
				t.Errorf("trimmed %s, -want +got:\n%s", round, diff)
			}
		}
		now := model.NewVolume(object)
		if now.Driver != whole.Driver || now.Handle != whole.Handle || now.InTree != whole.InTree || now.Migrated != whole.Migrated ||
			now.Affinity != whole.Affinity || (now.MigrationErr == nil) != (whole.MigrationErr == nil) {
			t.Errorf("trimmed, the volume is %+v, before %+v", now, whole)
		}
		if text := object.String(); strings.Contains(text, "secret") {
			t.Errorf("a trimmed volume names a secret: %s", text)
		}
	}
}
