package random

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

const (
	annBindCompleted = "pv.kubernetes.io/bind-completed"
	annSelectedNode  = "volume.kubernetes.io/selected-node"
	annBetaClass     = v1.BetaStorageClassAnnotation

	ownDriver, otherDriver = "d.csi", "e.csi"
	ebsDriver, gceDriver   = "ebs.csi.aws.com", "pd.csi.storage.gke.io"
	ebsPlugin, gcePlugin   = "kubernetes.io/aws-ebs", "kubernetes.io/gce-pd"
	noProvisioner          = "kubernetes.io/no-provisioner"
	awsZoneKey             = "topology.ebs.csi.aws.com/zone"
	gkeZoneKey             = "topology.gke.io/zone"
)

// Names of the objects, few enough to coincide.
const (
	claimNames  = 10
	volumeNames = 16
	poolNames   = 8
	attachments = 6
)

// StorageCluster returns a cluster like Cluster, with nodes in zones, storage objects,
// and pods with volumes. Pods have few other fields that reject a node.
func StorageCluster(r *rand.Rand, size Size) oracle.Cluster {
	var c oracle.Cluster
	for i := range size.Nodes {
		c.Nodes = append(c.Nodes, StorageNode(r, i))
	}
	for range size.Placed {
		if size.Nodes > 0 {
			c.Pods = append(c.Pods, StoragePlacedPod(r, len(c.Pods), pick(r, c.Nodes...).Name))
		}
	}
	for range size.Pending {
		c.Pods = append(c.Pods, StoragePod(r, len(c.Pods)))
	}
	return withStorage(r, c)
}

// withStorage adds most kinds of storage objects to a cluster.
func withStorage(r *rand.Rand, c oracle.Cluster) oracle.Cluster {
	add := func(object metav1.Object) { c = setStorage(c, StorageSet, object).After }
	for _, name := range some(r, 95, classNames...) {
		add(storageClass(r, name))
	}
	for _, name := range some(r, 75, ownDriver, otherDriver, ebsDriver) {
		add(csiDriver(r, name))
	}
	for _, n := range some(r, 80, c.Nodes...) {
		add(csiNode(r, n.Name))
	}
	for range poolNames {
		add(storageCapacity(r, c))
	}
	for range volumeNames * 2 {
		add(persistentVolume(r, c))
	}
	for range claimNames * 3 {
		add(persistentVolumeClaim(r, c))
	}
	for range r.IntN(2 * attachments) {
		add(volumeAttachment(r, c))
	}
	return c
}

// StorageNode returns a node like Node, in a zone and large enough for every pod.
func StorageNode(r *rand.Rand, i int) *v1.Node {
	n := Node(r, i)
	n.Labels = storageNodeLabels(r, n.Name)
	n.Spec.Taints, n.Spec.Unschedulable = nil, false
	n.Status.Allocatable = v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("64"), v1.ResourceMemory: resource.MustParse("64Gi"), v1.ResourcePods: resource.MustParse("110"),
	}
	return n
}

func storageNodeLabels(r *rand.Rand, name string) map[string]string {
	labels := map[string]string{hostKey: name}
	if chance(r, 90) {
		labels[zoneKey] = pick(r, "za", "za", "zb", "zb", "zc")
	}
	if chance(r, 50) {
		labels[v1.LabelTopologyRegion] = pick(r, "ra", "rb")
	}
	for _, key := range some(r, 15, awsZoneKey, gkeZoneKey, v1.LabelFailureDomainBetaZone) {
		labels[key] = pick(r, "za", "zb")
	}
	if chance(r, 50) {
		labels["disk"] = pick(r, "ssd", "hdd")
	}
	return labels
}

// StoragePod is a pending pod with one small container and up to three volumes.
func StoragePod(r *rand.Rand, i int) *v1.Pod {
	p := Pod(r, i)
	p.Spec.Volumes = nil
	simplify(r, p)
	p.Spec.NodeSelector, p.Spec.Affinity, p.Spec.Tolerations = nil, nil, nil
	p.Namespace = pick(r, "default", "default", "default", "default", "default", "default", "default", "other")
	for range pick(r, 0, 1, 1, 1, 2, 2, 3) {
		name := fmt.Sprintf("v%d", len(p.Spec.Volumes))
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: podVolume(r)})
	}
	return p
}

// StoragePlacedPod returns a StoragePod on a node, like PlacedPod.
func StoragePlacedPod(r *rand.Rand, i int, nodeName string) *v1.Pod {
	p := StoragePod(r, i)
	settle(r, p, nodeName)
	return p
}

func podVolume(r *rand.Rand) v1.VolumeSource {
	switch n := r.IntN(100); {
	case n < 70:
		return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(r)}}
	case n < 78:
		return v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{}}}
	}
	readOnly := chance(r, 40)
	switch pick(r, "gce", "aws", "aws", "iscsi", "rbd", "azure", "cinder", "csi", "empty") {
	case "gce":
		return v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: pick(r, "disk-0", "disk-1"), ReadOnly: readOnly}}
	case "aws":
		id := pick(r, "vol-0", "vol-1", "vol-1", "aws://za/vol-1")
		if chance(r, 3) {
			id = "aws://za/none"
		}
		return v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: id, ReadOnly: readOnly}}
	case "iscsi":
		return v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{TargetPortal: "portal", IQN: pick(r, "iqn-0", "iqn-1"), ReadOnly: readOnly}}
	case "rbd":
		return v1.VolumeSource{RBD: &v1.RBDVolumeSource{
			CephMonitors: some(r, 60, "m0", "m1"), RBDPool: pick(r, "pool-0", "pool-1"), RBDImage: "image", ReadOnly: readOnly,
		}}
	case "azure":
		return v1.VolumeSource{AzureDisk: &v1.AzureDiskVolumeSource{DiskName: "disk", DataDiskURI: pick(r, "uri-0", "uri-1"), ReadOnly: &readOnly}}
	case "cinder":
		return v1.VolumeSource{Cinder: &v1.CinderVolumeSource{VolumeID: pick(r, "c-0", "c-1"), ReadOnly: readOnly}}
	case "csi":
		return v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: ownDriver}}
	}
	return v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}
}

// claimName is often a name of the first claims, so that pods share claims.
func claimName(r *rand.Rand) string {
	return fmt.Sprintf("claim-%d", r.IntN(pick(r, 2, claimNames, claimNames)))
}

func volumeName(r *rand.Rand) string { return fmt.Sprintf("pv-%d", r.IntN(volumeNames)) }
func className(r *rand.Rand) string {
	return pick(r, "np", "np", "np", "dp", "dp", "dp", "dz", "dz", "ebs", "ebs", "now", "other", "")
}

// storageMeta gives each object its own resource version, as an API server does, although
// names are used again.
func storageMeta(r *rand.Rand, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, UID: uid(r), ResourceVersion: fmt.Sprint(1000 * (1 + r.IntN(1_000_000))), CreationTimestamp: epoch}
}

var classNames = []string{"np", "dp", "dz", "ebs", "now", "other"}

func storageClass(r *rand.Rand, name string) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: storageMeta(r, name), Provisioner: ownDriver, VolumeBindingMode: ptr(storagev1.VolumeBindingWaitForFirstConsumer)}
	switch name {
	case "np":
		c.Provisioner = noProvisioner
	case "other":
		c.Provisioner = pick(r, noProvisioner, otherDriver, "")
	case "ebs":
		c.Provisioner = pick(r, ebsPlugin, ebsPlugin, ebsDriver, gcePlugin, "kubernetes.io/vsphere-volume")
	case "dz":
		c.AllowedTopologies = allowedTopologies(r)
	case "now":
		c.VolumeBindingMode = ptr(storagev1.VolumeBindingImmediate)
	}
	if chance(r, 3) {
		c.VolumeBindingMode = nil
	}
	return c
}

func allowedTopologies(r *rand.Rand) []v1.TopologySelectorTerm {
	var terms []v1.TopologySelectorTerm
	for range 1 + r.IntN(2) {
		var term v1.TopologySelectorTerm
		for _, key := range some(r, 60, zoneKey, "disk") {
			values := some(r, 50, "za", "zb", "zc")
			if key == "disk" {
				values = []string{"ssd"}
			}
			term.MatchLabelExpressions = append(term.MatchLabelExpressions, v1.TopologySelectorLabelRequirement{Key: key, Values: values})
		}
		terms = append(terms, term)
	}
	return terms
}

func csiDriver(r *rand.Rand, name string) *storagev1.CSIDriver {
	d := &storagev1.CSIDriver{ObjectMeta: storageMeta(r, name)}
	if chance(r, 70) {
		d.Spec.StorageCapacity = ptr(chance(r, 70))
	}
	if chance(r, 50) {
		d.Spec.PreventPodSchedulingIfMissing = ptr(chance(r, 50))
	}
	return d
}

func csiNode(r *rand.Rand, name string) *storagev1.CSINode {
	n := &storagev1.CSINode{ObjectMeta: storageMeta(r, name)}
	for _, driver := range some(r, 60, ownDriver, otherDriver, ebsDriver, gceDriver) {
		d := storagev1.CSINodeDriver{Name: driver, NodeID: name}
		if chance(r, 80) {
			d.Allocatable = &storagev1.VolumeNodeResources{Count: pick(r, nil, ptr(int32(0)), ptr(int32(1)), ptr(int32(1)), ptr(int32(2)), ptr(int32(3)), ptr(int32(20)))}
		}
		n.Spec.Drivers = append(n.Spec.Drivers, d)
	}
	if migrated := some(r, 50, ebsPlugin, gcePlugin, "kubernetes.io/azure-disk"); len(migrated) > 0 {
		n.Annotations = map[string]string{v1.MigratedPluginsAnnotationKey: strings.Join(migrated, ",")}
	}
	return n
}

func storageCapacity(r *rand.Rand, c oracle.Cluster) *storagev1.CSIStorageCapacity {
	s := &storagev1.CSIStorageCapacity{ObjectMeta: storageMeta(r, fmt.Sprintf("pool-%d", r.IntN(poolNames))), StorageClassName: pick(r, "dp", "dp", "dz", "other", "ebs")}
	s.Namespace = pick(r, "default", "other")
	switch n := r.IntN(10); {
	case n < 1:
	case n < 3:
		s.NodeTopology = &metav1.LabelSelector{}
	case n < 4:
		s.NodeTopology = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: zoneKey, Operator: pick(r, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpIn), Values: []string{"za", "zc"}},
		}}
	case n < 7:
		s.NodeTopology = &metav1.LabelSelector{MatchLabels: map[string]string{zoneKey: pick(r, "za", "zb", "zc")}}
	default:
		s.NodeTopology = &metav1.LabelSelector{MatchLabels: map[string]string{hostKey: someNode(r, c)}}
	}
	if chance(r, 85) {
		s.Capacity = ptr(storageSize(r))
	}
	if chance(r, 40) {
		s.MaximumVolumeSize = ptr(storageSize(r))
	}
	return s
}

func storageSize(r *rand.Rand) resource.Quantity {
	return resource.MustParse(pick(r, "1Gi", "2Gi", "3Gi", "4Gi", "4Gi", "8Gi", "8192Mi", "10G", "0"))
}

// someNode returns the name of a node of the cluster, or sometimes of none.
func someNode(r *rand.Rand, c oracle.Cluster) string {
	if len(c.Nodes) == 0 || chance(r, 5) {
		return "node-999"
	}
	return pick(r, c.Nodes...).Name
}

// persistentVolume makes a volume. Most are free; others are meant for a claim, bound or
// released.
func persistentVolume(r *rand.Rand, c oracle.Cluster) *v1.PersistentVolume {
	v := &v1.PersistentVolume{ObjectMeta: storageMeta(r, volumeName(r)), Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable}}
	v.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: storageSize(r)}
	v.Spec.StorageClassName = className(r)
	v.Spec.AccessModes = accessModes(r)
	if chance(r, 5) {
		v.Annotations = map[string]string{annBetaClass: className(r)}
	}
	if chance(r, 10) {
		v.Spec.VolumeMode = ptr(pick(r, v1.PersistentVolumeBlock, v1.PersistentVolumeFilesystem))
	}
	if chance(r, 10) {
		v.Spec.VolumeAttributesClassName = ptr(pick(r, "", "gold"))
	}
	v.Labels = volumeLabels(r)
	v.Spec.NodeAffinity = volumeAffinity(r, c)
	setSource(r, v)
	if chance(r, 25) {
		v.Spec.ClaimRef = claimRef(r, c)
		v.Status.Phase = pick(r, v1.VolumeAvailable, v1.VolumeAvailable, v1.VolumeBound, v1.VolumeReleased)
	}
	if chance(r, 4) {
		v.Status.Phase = pick(r, v1.VolumeReleased, v1.VolumePending, v1.VolumeFailed)
	}
	if chance(r, 3) {
		v.DeletionTimestamp = ptr(epoch)
	}
	return v
}

func volumeLabels(r *rand.Rand) map[string]string {
	labels := map[string]string{}
	if chance(r, 40) {
		labels["disk"] = pick(r, "ssd", "hdd")
	}
	if chance(r, 12) {
		labels[pick(r, zoneKey, v1.LabelFailureDomainBetaZone)] = pick(r, "za", "zb", "za__zb", "za__", "")
	}
	if chance(r, 4) {
		labels[pick(r, v1.LabelTopologyRegion, v1.LabelFailureDomainBetaRegion)] = pick(r, "ra", "rb")
	}
	return labels
}

func setSource(r *rand.Rand, v *v1.PersistentVolume) {
	switch n := r.IntN(100); {
	case n < 45:
		v.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: pick(r, ownDriver, ownDriver, otherDriver, ebsDriver), VolumeHandle: pick(r, "h-0", "h-1", "h-2", v.Name)}
	case n < 60:
		id := pick(r, "vol-0", "vol-1", "aws://za/vol-2")
		if chance(r, 5) {
			id = "aws://za/none"
		}
		v.Spec.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{VolumeID: id}
	case n < 70:
		v.Spec.GCEPersistentDisk = &v1.GCEPersistentDiskVolumeSource{PDName: pick(r, "disk-0", "disk-1")}
	case n < 75:
		v.Spec.VsphereVolume = &v1.VsphereVirtualDiskVolumeSource{VolumePath: "path"}
	default:
		v.Spec.Local = &v1.LocalVolumeSource{Path: "/disk"}
	}
}

// volumeAffinity often names one node, or a zone. Some terms select nothing or are
// malformed.
func volumeAffinity(r *rand.Rand, c oracle.Cluster) *v1.VolumeNodeAffinity {
	in := func(key string, values ...string) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: v1.NodeSelectorOpIn, Values: values}}}
	}
	var terms []v1.NodeSelectorTerm
	switch n := r.IntN(100); {
	case n < 20:
		return nil
	case n < 60:
		terms = append(terms, in(hostKey, someNode(r, c)))
	case n < 75:
		terms = append(terms, in(zoneKey, pick(r, "za", "zb", "zc")))
	case n < 80:
		terms = append(terms, in(zoneKey, "za", "zb"), in(hostKey, someNode(r, c)))
	case n < 84:
		terms = append(terms, in(pick(r, awsZoneKey, gkeZoneKey, v1.LabelFailureDomainBetaZone), "za"))
	case n < 90:
		term := in(zoneKey, "za", "za")
		term.MatchExpressions = append(term.MatchExpressions, v1.NodeSelectorRequirement{Key: "disk", Operator: v1.NodeSelectorOpNotIn, Values: []string{"ssd"}})
		terms = append(terms, term)
	case n < 94:
		terms = append(terms, v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "disk", Operator: pick(r, v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist)}}})
	case n < 96:
		terms = append(terms, v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{someNode(r, c)}}}})
	case n < 98:
		terms = append(terms, v1.NodeSelectorTerm{})
	case n < 99:
		terms = append(terms, v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{brokenBound()}}, in(zoneKey, "zb"))
	}
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: terms}}
}

// claimRef names a claim of the cluster, with or without its UID, or with another UID.
func claimRef(r *rand.Rand, c oracle.Cluster) *v1.ObjectReference {
	ref := &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "default", Name: claimName(r)}
	if len(c.PersistentVolumeClaims) > 0 && chance(r, 90) {
		claim := pick(r, c.PersistentVolumeClaims...)
		ref.Namespace, ref.Name, ref.UID = claim.Namespace, claim.Name, claim.UID
	}
	if chance(r, 40) {
		ref.UID = ""
	} else if chance(r, 10) {
		ref.UID = uid(r)
	}
	return ref
}

func accessModes(r *rand.Rand) []v1.PersistentVolumeAccessMode {
	modes := some(r, 20, v1.ReadOnlyMany, v1.ReadWriteMany)
	if chance(r, 80) {
		modes = append(modes, v1.ReadWriteOnce)
	}
	if chance(r, 12) {
		modes = append(modes, v1.ReadWriteOncePod)
	}
	return modes
}

// persistentVolumeClaim makes a claim that pods name, or a claim for an ephemeral volume
// of a pod.
func persistentVolumeClaim(r *rand.Rand, c oracle.Cluster) *v1.PersistentVolumeClaim {
	claim := &v1.PersistentVolumeClaim{ObjectMeta: storageMeta(r, claimName(r)), Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending}}
	claim.Namespace = pick(r, "default", "default", "default", "default", "other")
	if chance(r, 25) {
		becomeEphemeral(r, c, claim)
	}
	if chance(r, 95) {
		claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse(pick(r, "1Gi", "2Gi", "3Gi", "4Gi", "8Gi", "0"))}
	}
	if chance(r, 95) {
		claim.Spec.StorageClassName = ptr(className(r))
	}
	claim.Spec.AccessModes = pick(r, nil, []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, accessModes(r))
	if chance(r, 5) {
		claim.Spec.VolumeMode = ptr(pick(r, v1.PersistentVolumeBlock, v1.PersistentVolumeFilesystem))
	}
	if chance(r, 5) {
		claim.Spec.VolumeAttributesClassName = ptr(pick(r, "", "gold"))
	}
	switch {
	case chance(r, 12):
		claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "ssd"}}
	case chance(r, 2):
		claim.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "disk", Operator: metav1.LabelSelectorOpIn}}}
	}
	if chance(r, 5) {
		setAnnotation(claim, annBetaClass, className(r))
	}
	switch {
	case chance(r, 40):
		bindClaim(r, c, claim)
	case chance(r, 3):
		claim.Spec.VolumeName = volumeName(r)
	case chance(r, 15):
		setAnnotation(claim, annSelectedNode, someNode(r, c))
	}
	if chance(r, 2) {
		claim.Status.Phase = v1.ClaimLost
	}
	if chance(r, 1) {
		claim.DeletionTimestamp = ptr(epoch)
	}
	return claim
}

// becomeEphemeral makes the claim belong to an ephemeral volume of a pod. Sometimes the
// claim has no owner, or its owner is another pod of that name.
func becomeEphemeral(r *rand.Rand, c oracle.Cluster, claim *v1.PersistentVolumeClaim) {
	pods := indexes(c.Pods, func(p *v1.Pod) bool {
		return slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool { return v.Ephemeral != nil })
	})
	if len(pods) == 0 {
		return
	}
	pod := c.Pods[pick(r, pods...)]
	at := slices.IndexFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Ephemeral != nil })
	claim.Namespace, claim.Name = pod.Namespace, pod.Name+"-"+pod.Spec.Volumes[at].Name
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr(true)}
	if chance(r, 8) {
		owner.UID = uid(r)
	}
	if !chance(r, 4) {
		claim.OwnerReferences = []metav1.OwnerReference{owner}
	}
}

// bindClaim binds a claim to a volume of the cluster, or to a missing volume.
func bindClaim(r *rand.Rand, c oracle.Cluster, claim *v1.PersistentVolumeClaim) {
	claim.Spec.VolumeName, claim.Status.Phase = volumeName(r), v1.ClaimBound
	if len(c.PersistentVolumes) > 0 && chance(r, 95) {
		claim.Spec.VolumeName = pick(r, c.PersistentVolumes...).Name
	}
	setAnnotation(claim, annBindCompleted, "yes")
}

func setAnnotation(object metav1.Object, key, value string) {
	annotations := map[string]string{key: value}
	for k, v := range object.GetAnnotations() {
		if k != key {
			annotations[k] = v
		}
	}
	object.SetAnnotations(annotations)
}

func volumeAttachment(r *rand.Rand, c oracle.Cluster) *storagev1.VolumeAttachment {
	a := &storagev1.VolumeAttachment{ObjectMeta: storageMeta(r, fmt.Sprintf("attachment-%d", r.IntN(attachments)))}
	a.Spec.Attacher, a.Spec.NodeName = pick(r, ownDriver, ownDriver, otherDriver, ebsDriver), someNode(r, c)
	if chance(r, 95) {
		a.Spec.Source.PersistentVolumeName = ptr(volumeName(r))
	}
	return a
}

// claimUID returns the UID of a claim of the cluster, or "".
func claimUID(c oracle.Cluster, namespace, name string) types.UID {
	for _, claim := range c.PersistentVolumeClaims {
		if claim.Namespace == namespace && claim.Name == name {
			return claim.UID
		}
	}
	return ""
}
