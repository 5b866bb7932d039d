package live

import (
	"context"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	volume "k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// Snapshot lists all kinds that the scheduler or a simulation can read, with the fields
// that these read, and without what may be confidential; see sanitize.
func Snapshot(ctx context.Context, r Request) (*Listed, error) {
	var all []model.Kind
	for kind := range model.KindCount {
		all = append(all, model.Kind(kind))
	}
	listed, err := r.find(ctx, wanted(all), sanitize)
	if err == nil { // those of earlier revisions of a Deployment
		listed.Cluster.ReplicaSets = slices.DeleteFunc(listed.Cluster.ReplicaSets, func(s *appsv1.ReplicaSet) bool {
			return s.Spec.Replicas != nil && *s.Spec.Replicas == 0 && s.Status.Replicas == 0
		})
	}
	return listed, err
}

// sanitize keeps of an object the fields that scheduling or a simulation reads.
//
// The scheduler's own trimming decides for most kinds, so a confidential field stays only
// if a decision depends on it. Fields that only a simulation reads are added again.
func sanitize(object kinds.Object, trim func(kinds.Object)) {
	annotations := object.GetAnnotations()
	switch o := object.(type) {
	case *v1.Pod:
		sanitizePod(o, trim)
	case *v1.Node: // The kubelet's version is the release to simulate.
		version := o.Status.NodeInfo.KubeletVersion
		trim(o)
		o.Status.NodeInfo.KubeletVersion, o.Spec.DoNotUseExternalID = version, ""
	case *appsv1.ReplicaSet, *appsv1.StatefulSet, *v1.ReplicationController:
		sanitizeController(o, trim)
	case *policyv1.PodDisruptionBudget:
		sanitizeBudget(o, trim)
	case *v1.PersistentVolume, *storagev1.StorageClass, *storagev1.CSINode:
		sanitizeStorage(o, trim)
	case *resourcev1.ResourceClaim, *resourcev1.ResourceClaimTemplate, *resourcev1.DeviceClass:
		sanitizeDevices(o, trim)
	case *schedulingv1.PriorityClass:
		*o = schedulingv1.PriorityClass{
			TypeMeta: o.TypeMeta, ObjectMeta: metaOf(&o.ObjectMeta), Value: o.Value, GlobalDefault: o.GlobalDefault, PreemptionPolicy: o.PreemptionPolicy,
		}
	default:
		trim(object)
	}
	object.SetAnnotations(readAnnotations(annotations))
}

// sanitizePod keeps more of a pod than trimmed does: the condition PodScheduled, and the
// claims that its generic ephemeral volumes request.
func sanitizePod(pod *v1.Pod, trim func(kinds.Object)) {
	ofType := func(of []v1.PodCondition, is bool) []v1.PodCondition {
		return slices.DeleteFunc(slices.Clone(of), func(c v1.PodCondition) bool { return (c.Type == v1.PodScheduled) != is })
	}
	scheduled, claims := ofType(pod.Status.Conditions, true), claimsOf(&pod.Spec)
	trimmed(pod, trim)
	pod.Status.Conditions = append(ofType(pod.Status.Conditions, false), scheduled...)
	pod.Spec.HostnameOverride, pod.Spec.EvictionResponders = nil, nil
	pod.Spec.Volumes = identities(pod.Spec.Volumes, claims)
}

// sanitizeTemplate is sanitizePod for a template of pods.
func sanitizeTemplate(t *v1.PodTemplateSpec) {
	pod := &v1.Pod{Spec: t.Spec}
	sanitizePod(pod, func(kinds.Object) {
		t.Spec = pod.Spec
		kinds.TrimTemplate(t)
		pod.Spec = t.Spec
	})
	t.Spec = pod.Spec
}

// sanitizeController keeps of a controller its replicas, selector and templates.
func sanitizeController(object kinds.Object, trim func(kinds.Object)) {
	switch o := object.(type) {
	case *appsv1.ReplicaSet:
		spec, replicas, owners := o.Spec, o.Status.Replicas, o.OwnerReferences
		trim(o)
		o.Spec = appsv1.ReplicaSetSpec{Replicas: spec.Replicas, Selector: spec.Selector, Template: spec.Template}
		o.Status.Replicas, o.OwnerReferences = replicas, controllers(owners)
		sanitizeTemplate(&o.Spec.Template)
	case *appsv1.StatefulSet:
		spec := o.Spec
		owners := o.OwnerReferences
		trim(o)
		o.OwnerReferences = controllers(owners)
		o.Spec = appsv1.StatefulSetSpec{
			Replicas: spec.Replicas, Selector: spec.Selector, Template: spec.Template, Ordinals: spec.Ordinals, PodManagementPolicy: spec.PodManagementPolicy,
		}
		sanitizeTemplate(&o.Spec.Template)
		for i := range spec.VolumeClaimTemplates {
			claim := &spec.VolumeClaimTemplates[i]
			annotations, labels := claim.Annotations, claim.Labels
			trim(claim)
			claim.Annotations, claim.Labels = readAnnotations(annotations), labels
			o.Spec.VolumeClaimTemplates = append(o.Spec.VolumeClaimTemplates, *claim)
		}
	case *v1.ReplicationController:
		spec, owners := o.Spec, o.OwnerReferences
		trim(o)
		o.Spec.Replicas, o.Spec.Template, o.OwnerReferences = spec.Replicas, spec.Template, controllers(owners)
		if o.Spec.Template != nil {
			sanitizeTemplate(o.Spec.Template)
		}
	}
}

// sanitizeBudget keeps the rules of a PodDisruptionBudget, and the numbers of its status.
func sanitizeBudget(o *policyv1.PodDisruptionBudget, trim func(kinds.Object)) {
	spec, status := o.Spec, o.Status
	trim(o)
	o.Spec, o.Status = spec, status
	o.Status.Conditions = nil
}

// sanitizeStorage keeps more than the scheduler reads, for the simulated provisioner.
func sanitizeStorage(object kinds.Object, trim func(kinds.Object)) {
	switch o := object.(type) {
	case *v1.PersistentVolume:
		policy := o.Spec.PersistentVolumeReclaimPolicy
		trim(o)
		o.Spec.PersistentVolumeReclaimPolicy = policy
	case *storagev1.StorageClass:
		policy := o.ReclaimPolicy
		trim(o)
		o.ReclaimPolicy = policy
	case *storagev1.CSINode:
		drivers := slices.Clone(o.Spec.Drivers)
		trim(o)
		o.Status = storagev1.CSINodeStatus{}
		for i := range drivers {
			o.Spec.Drivers[i].TopologyKeys = drivers[i].TopologyKeys
		}
	}
}

// sanitizeDevices removes the configuration of devices, which only their driver reads.
func sanitizeDevices(object kinds.Object, trim func(kinds.Object)) {
	trim(object)
	switch o := object.(type) {
	case *resourcev1.ResourceClaim:
		o.Spec.Devices.Config = nil
		if o.Status.Allocation != nil {
			o.Status.Allocation.Devices.Config = nil
		}
		for i := range o.Status.Devices {
			for j := range o.Status.Devices[i].Conditions {
				o.Status.Devices[i].Conditions[j].Message = ""
			}
		}
	case *resourcev1.ResourceClaimTemplate:
		o.ObjectMeta = metaOf(&o.ObjectMeta)
		o.Spec.ObjectMeta = metav1.ObjectMeta{Labels: o.Spec.Labels}
		o.Spec.Spec.Devices.Config = nil
	case *resourcev1.DeviceClass:
		o.Spec.Config = nil
	}
}

// metaOf returns the metadata to keep of a kind that the scheduler does not watch.
func metaOf(of *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: of.Name, Namespace: of.Namespace, UID: of.UID, ResourceVersion: of.ResourceVersion, Generation: of.Generation,
		CreationTimestamp: of.CreationTimestamp, DeletionTimestamp: of.DeletionTimestamp, Labels: of.Labels,
	}
}

// controllers keeps the owner that is the controller.
func controllers(owners []metav1.OwnerReference) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(owners), func(o metav1.OwnerReference) bool { return o.Controller == nil || !*o.Controller })
}

// read are the annotations that scheduling or a simulation reads.
var read = []string{
	v1.MirrorPodAnnotationKey, batchv1.JobCompletionIndexAnnotation, "deployment.kubernetes.io/revision",
	v1.BetaStorageClassAnnotation, volume.AnnSelectedNode, volume.AnnBindCompleted, volume.AnnBoundByController, volume.AnnDynamicallyProvisioned,
	"storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class", v1.MigratedPluginsAnnotationKey,
	resourcev1.ExtendedResourceClaimAnnotation, resourcev1.PodResourceClaimAnnotation, model.LeaderAnnotation,
}

// readAnnotations returns the annotations to keep, nil if none.
func readAnnotations(all map[string]string) map[string]string {
	kept := maps.Clone(all)
	maps.DeleteFunc(kept, func(key, _ string) bool { return !slices.Contains(read, key) })
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// claimsOf returns the claims that the generic ephemeral volumes of a pod request, by the
// volume's name.
func claimsOf(spec *v1.PodSpec) map[string]*v1.PersistentVolumeClaimTemplate {
	claims := map[string]*v1.PersistentVolumeClaimTemplate{}
	for i := range spec.Volumes {
		of := spec.Volumes[i].Ephemeral
		if of == nil || of.VolumeClaimTemplate == nil {
			continue
		}
		t := of.VolumeClaimTemplate
		claims[spec.Volumes[i].Name] = &v1.PersistentVolumeClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{Labels: t.Labels, Annotations: readAnnotations(t.Annotations)},
			Spec: v1.PersistentVolumeClaimSpec{
				AccessModes: t.Spec.AccessModes, Selector: t.Spec.Selector, Resources: t.Spec.Resources, StorageClassName: t.Spec.StorageClassName,
				VolumeMode: t.Spec.VolumeMode, VolumeAttributesClassName: t.Spec.VolumeAttributesClassName,
			},
		}
	}
	return claims
}

// identities keeps of inline volumes the driver, the identity that is compared with other
// volumes, and the claims. Volumes that no plugin reads are dropped.
func identities(volumes []v1.Volume, claims map[string]*v1.PersistentVolumeClaimTemplate) []v1.Volume {
	var kept []v1.Volume
	for i := range volumes {
		of, name := volumes[i].VolumeSource, volumes[i].Name
		var source v1.VolumeSource
		switch {
		case of.Ephemeral != nil:
			source.Ephemeral = &v1.EphemeralVolumeSource{VolumeClaimTemplate: claims[name]}
		case of.CSI != nil:
			source.CSI = &v1.CSIVolumeSource{Driver: of.CSI.Driver}
		case of.GCEPersistentDisk != nil:
			source.GCEPersistentDisk = &v1.GCEPersistentDiskVolumeSource{PDName: of.GCEPersistentDisk.PDName, ReadOnly: of.GCEPersistentDisk.ReadOnly}
		case of.AWSElasticBlockStore != nil:
			source.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{VolumeID: of.AWSElasticBlockStore.VolumeID}
		case of.ISCSI != nil:
			source.ISCSI = &v1.ISCSIVolumeSource{IQN: of.ISCSI.IQN, ReadOnly: of.ISCSI.ReadOnly}
		case of.RBD != nil:
			source.RBD = &v1.RBDVolumeSource{CephMonitors: of.RBD.CephMonitors, RBDImage: of.RBD.RBDImage, RBDPool: of.RBD.RBDPool, ReadOnly: of.RBD.ReadOnly}
		case of.AzureDisk != nil:
			source.AzureDisk = &v1.AzureDiskVolumeSource{DiskName: of.AzureDisk.DiskName, DataDiskURI: of.AzureDisk.DataDiskURI, Kind: of.AzureDisk.Kind}
		case of.Cinder != nil:
			source.Cinder = &v1.CinderVolumeSource{VolumeID: of.Cinder.VolumeID}
		case of.PortworxVolume != nil:
			source.PortworxVolume = &v1.PortworxVolumeSource{VolumeID: of.PortworxVolume.VolumeID}
		case of.AzureFile != nil, of.VsphereVolume != nil:
			continue
		default: // claims, images, certificates and the empty directory
			source = of
		}
		kept = append(kept, v1.Volume{Name: name, VolumeSource: source})
	}
	return kept
}
