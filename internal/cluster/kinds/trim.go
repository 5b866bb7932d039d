package kinds

import (
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
)

// Trimming removes fields that scheduling does not read, before any cache holds the
// object. A cluster's pods are most of the scheduler's memory, and most of a pod is
// environment, commands, mounts, probes and status.
//
// Specs are trimmed field by field, so that unknown fields stay. Statuses are rebuilt
// from the fields that are read. Strings, labels and amounts that repeat across objects
// share memory. The watches trim objects once, while decoding: see wire.go.

// Trim returns a function that trims objects in place. It is for objects that do not come
// from a watch. Objects of a Watch must not be trimmed: others read them, and pods of one
// template share the fields that trimming writes.
func Trim() func(object any) (any, error) { return new(sharing).trim }

// trim trims an object. Objects of kinds outside the table are unchanged.
func (s *sharing) trim(object any) (any, error) {
	if row := byType[reflect.TypeOf(object)]; row != nil {
		row.trim(s, object.(Object))
	}
	return object, nil
}

func (s *sharing) trimNamespace(n *v1.Namespace) {
	s.trimOther(&n.ObjectMeta)
	n.Spec, n.Status = v1.NamespaceSpec{}, v1.NamespaceStatus{}
}

func (s *sharing) trimService(o *v1.Service) {
	s.trimOther(&o.ObjectMeta)
	o.Spec, o.Status = v1.ServiceSpec{Selector: s.labels(o.Spec.Selector)}, v1.ServiceStatus{}
}

// trimBudget keeps the selector of a PodDisruptionBudget, and the disruptions that it
// allows now.
func (s *sharing) trimBudget(o *policyv1.PodDisruptionBudget) {
	s.trimOther(&o.ObjectMeta)
	o.Spec = policyv1.PodDisruptionBudgetSpec{Selector: o.Spec.Selector}
	o.Status = policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: o.Status.DisruptionsAllowed, DisruptedPods: o.Status.DisruptedPods}
}

func (s *sharing) trimReplicationController(o *v1.ReplicationController) {
	s.trimOther(&o.ObjectMeta)
	o.Spec, o.Status = v1.ReplicationControllerSpec{Selector: s.labels(o.Spec.Selector)}, v1.ReplicationControllerStatus{}
}

func (s *sharing) trimReplicaSet(o *appsv1.ReplicaSet) {
	s.trimOther(&o.ObjectMeta)
	o.Spec, o.Status = appsv1.ReplicaSetSpec{Selector: o.Spec.Selector}, appsv1.ReplicaSetStatus{}
}

func (s *sharing) trimStatefulSet(o *appsv1.StatefulSet) {
	s.trimOther(&o.ObjectMeta)
	o.Spec, o.Status = appsv1.StatefulSetSpec{Selector: o.Spec.Selector}, appsv1.StatefulSetStatus{}
}

// trimOther trims the metadata of an object that is neither a pod nor a node. It keeps
// name, namespace, uid, resourceVersion, creation and deletion time, and labels
// (namespace selectors). Besides metadata only selectors are kept, which group pods.
func (s *sharing) trimOther(meta *metav1.ObjectMeta) {
	s.trimMeta(meta)
	meta.Annotations = nil
	meta.OwnerReferences = nil
}

// trimPod keeps of a pod:
//
//	metadata     name, namespace, uid, resourceVersion (events), generation
//	             (conditions), creation and deletion time, labels (topology spread,
//	             affinity), the controller (default spread constraints)
//	spec         all except the fields that trimPodSpec drops
//	status       phase, nominatedNodeName, startTime (preemption), the conditions in
//	             keptConditions, all forms of resources (amounts under in-place
//	             resize), claim statuses (dynamic resources)
//
// Annotations are removed, because no built-in plugin reads a pod's.
func (s *sharing) trimPod(pod *v1.Pod) {
	s.trimMeta(&pod.ObjectMeta)
	trimPodMeta(&pod.ObjectMeta)
	s.trimPodSpec(&pod.Spec)
	s.trimPodStatus(&pod.Status)
}

// TrimTemplate trims the template of a controller's pods, in place, like a pod.
func TrimTemplate(t *v1.PodTemplateSpec) {
	s := new(sharing)
	s.trimMeta(&t.ObjectMeta)
	trimPodMeta(&t.ObjectMeta)
	s.trimPodSpec(&t.Spec)
}

// trimPodMeta trims the metadata that only pods have.
func trimPodMeta(meta *metav1.ObjectMeta) {
	meta.Annotations = nil
	meta.OwnerReferences = controllerOf(meta.OwnerReferences)
}

func (s *sharing) trimPodStatus(status *v1.PodStatus) {
	*status = v1.PodStatus{
		ObservedGeneration:                   status.ObservedGeneration,
		Phase:                                status.Phase,
		Conditions:                           keptConditions(status.Conditions),
		NominatedNodeName:                    model.Interned(status.NominatedNodeName),
		StartTime:                            status.StartTime,
		Resize:                               status.Resize,
		Resources:                            s.requirements(status.Resources),
		AllocatedResources:                   s.list(status.AllocatedResources),
		ContainerStatuses:                    s.resourceStatuses(status.ContainerStatuses),
		InitContainerStatuses:                s.resourceStatuses(status.InitContainerStatuses),
		ResourceClaimStatuses:                status.ResourceClaimStatuses,
		ExtendedResourceClaimStatus:          status.ExtendedResourceClaimStatus,
		NodeAllocatableResourceClaimStatuses: status.NodeAllocatableResourceClaimStatuses,
	}
}

func (s *sharing) trimMeta(meta *metav1.ObjectMeta) {
	meta.ManagedFields = nil
	meta.Finalizers = nil
	meta.GenerateName = ""
	meta.SelfLink = "" //nolint:staticcheck // old objects may still have it
	meta.Namespace = model.Interned(meta.Namespace)
	meta.Labels = s.labels(meta.Labels)
}

func (s *sharing) trimPodSpec(spec *v1.PodSpec) {
	spec.NodeName = model.Interned(spec.NodeName)
	spec.SchedulerName = model.Interned(spec.SchedulerName)
	spec.PriorityClassName = model.Interned(spec.PriorityClassName)
	spec.ServiceAccountName = ""
	spec.DeprecatedServiceAccount = ""
	spec.AutomountServiceAccountToken = nil
	spec.SecurityContext = onlyOCI(spec.SecurityContext)
	spec.ImagePullSecrets = nil
	spec.Hostname = ""
	spec.Subdomain = ""
	spec.SetHostnameAsFQDN = nil
	spec.HostAliases = nil
	spec.DNSPolicy = ""
	spec.DNSConfig = nil
	spec.ReadinessGates = nil
	spec.EnableServiceLinks = nil
	spec.TerminationGracePeriodSeconds = nil
	spec.ActiveDeadlineSeconds = nil
	spec.NodeSelector = s.labels(spec.NodeSelector)
	spec.Volumes = readVolumes(spec.Volumes)
	s.trimContainers(spec.Containers)
	s.trimContainers(spec.InitContainers)
	spec.EphemeralContainers = withFeatures(spec.EphemeralContainers)
	for i := range spec.Tolerations {
		t := &spec.Tolerations[i]
		t.Key, t.Value = model.Interned(t.Key), model.Interned(t.Value)
		t.Operator, t.Effect = v1.TolerationOperator(model.Interned(string(t.Operator))), v1.TaintEffect(model.Interned(string(t.Effect)))
	}
}

// trimContainers keeps the name (to match its status), image (image locality), resources,
// restart policy and its rules (sidecars, declared features), and host ports. Of mounts
// it keeps the bind mount options (declared features), of security contexts OCI seccomp
// profiles (declared features).
func (s *sharing) trimContainers(containers []v1.Container) {
	for i := range containers {
		c := &containers[i]
		c.Name = model.Interned(c.Name)
		c.Image = model.Interned(c.Image)
		c.Command = nil
		c.Args = nil
		c.WorkingDir = ""
		c.Ports = hostPorts(c.Ports)
		c.EnvFrom = nil
		c.Env = nil
		c.VolumeMounts = mountsWithOptions(c.VolumeMounts)
		c.VolumeDevices = nil
		c.LivenessProbe = nil
		c.ReadinessProbe = nil
		c.StartupProbe = nil
		c.Lifecycle = nil
		c.TerminationMessagePath = ""
		c.TerminationMessagePolicy = ""
		c.ImagePullPolicy = ""
		c.SecurityContext = onlyOCIOf(c.SecurityContext)
		c.Resources.Limits = s.list(c.Resources.Limits)
		c.Resources.Requests = s.list(c.Resources.Requests)
	}
}

// hostPorts keeps the ports that can conflict between pods on a node.
func hostPorts(ports []v1.ContainerPort) []v1.ContainerPort {
	var kept []v1.ContainerPort
	for i := range ports {
		if ports[i].HostPort > 0 {
			kept = append(kept, ports[i])
		}
	}
	return kept
}

// mountsWithOptions keeps bind mount options, which a node must declare to support.
func mountsWithOptions(mounts []v1.VolumeMount) []v1.VolumeMount {
	var kept []v1.VolumeMount
	for i := range mounts {
		if len(mounts[i].BindMountOptions) > 0 {
			kept = append(kept, v1.VolumeMount{BindMountOptions: mounts[i].BindMountOptions})
		}
	}
	return kept
}

// withFeatures keeps only the bind mount options and OCI seccomp profiles of ephemeral
// containers, which reserve no resources.
func withFeatures(containers []v1.EphemeralContainer) []v1.EphemeralContainer {
	var kept []v1.EphemeralContainer
	for i := range containers {
		mounts, profile := mountsWithOptions(containers[i].VolumeMounts), onlyOCIOf(containers[i].SecurityContext)
		if mounts != nil || profile != nil {
			kept = append(kept, v1.EphemeralContainer{
				EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: containers[i].Name, VolumeMounts: mounts, SecurityContext: profile},
			})
		}
	}
	return kept
}

// onlyOCI keeps an OCI seccomp profile, which a node must declare to support.
func onlyOCI(of *v1.PodSecurityContext) *v1.PodSecurityContext {
	if of == nil || !model.IsOCIProfile(of.SeccompProfile) {
		return nil
	}
	return &v1.PodSecurityContext{SeccompProfile: &v1.SeccompProfile{Type: of.SeccompProfile.Type}}
}

// onlyOCIOf is onlyOCI for a container.
func onlyOCIOf(of *v1.SecurityContext) *v1.SecurityContext {
	if of == nil || !model.IsOCIProfile(of.SeccompProfile) {
		return nil
	}
	return &v1.SecurityContext{SeccompProfile: &v1.SeccompProfile{Type: of.SeccompProfile.Type}}
}

// onlyMLDSA keeps a certificate that a node must declare to support.
func onlyMLDSA(volume *v1.Volume) v1.Volume {
	kept := &v1.ProjectedVolumeSource{}
	for i := range volume.Projected.Sources {
		if c := volume.Projected.Sources[i].PodCertificate; c != nil {
			kept.Sources = append(kept.Sources, v1.VolumeProjection{PodCertificate: &v1.PodCertificateProjection{KeyType: c.KeyType}})
		}
	}
	return v1.Volume{Name: volume.Name, VolumeSource: v1.VolumeSource{Projected: kept}}
}

// readVolumes keeps the volumes that a volume plugin reads: claims, CSI volumes, the
// in-tree kinds that are compared or counted, images (image locality), and certificates
// with ML-DSA keys (declared features). Generic
// ephemeral volumes are kept empty, since their claim's name follows from the names of
// the pod and the volume.
func readVolumes(volumes []v1.Volume) []v1.Volume {
	var kept []v1.Volume
	for i := range volumes {
		s := &volumes[i].VolumeSource
		switch {
		case s.Ephemeral != nil:
			kept = append(kept, v1.Volume{
				Name:         volumes[i].Name,
				VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}},
			})
		case s.Image != nil:
			image := &v1.ImageVolumeSource{Reference: model.Interned(s.Image.Reference)}
			kept = append(kept, v1.Volume{Name: volumes[i].Name, VolumeSource: v1.VolumeSource{Image: image}})
		case model.RequestsMLDSA(&volumes[i]):
			kept = append(kept, onlyMLDSA(&volumes[i]))
		case s.PersistentVolumeClaim != nil, s.CSI != nil, s.GCEPersistentDisk != nil, s.AWSElasticBlockStore != nil, s.ISCSI != nil,
			s.RBD != nil, s.AzureDisk != nil, s.Cinder != nil, s.PortworxVolume != nil, s.AzureFile != nil, s.VsphereVolume != nil:
			kept = append(kept, volumes[i])
		}
	}
	return kept
}

// controllerOf keeps only the owner that manages the pod.
func controllerOf(owners []metav1.OwnerReference) []metav1.OwnerReference {
	for i := range owners {
		if o := &owners[i]; o.Controller != nil && *o.Controller {
			return []metav1.OwnerReference{{
				APIVersion: model.Interned(o.APIVersion),
				Kind:       model.Interned(o.Kind),
				Name:       model.Interned(o.Name),
				UID:        types.UID(model.Interned(string(o.UID))),
				Controller: o.Controller,
			}}
		}
	}
	return nil
}

// keptConditions keeps PodScheduled (to avoid repeated writes), DisruptionTarget (to
// detect preemption), and the conditions of resizes (to choose the amounts). Probe times
// are dropped.
func keptConditions(conditions []v1.PodCondition) []v1.PodCondition {
	var kept []v1.PodCondition
	for i := range conditions {
		switch c := &conditions[i]; c.Type {
		case v1.PodScheduled, v1.DisruptionTarget, v1.PodResizePending, v1.PodResizeInProgress:
			kept = append(kept, v1.PodCondition{
				Type:               v1.PodConditionType(model.Interned(string(c.Type))),
				Status:             v1.ConditionStatus(model.Interned(string(c.Status))),
				ObservedGeneration: c.ObservedGeneration,
				LastTransitionTime: c.LastTransitionTime,
				Reason:             model.Interned(c.Reason),
				Message:            c.Message,
			})
		}
	}
	return kept
}

// resourceStatuses keeps the amounts that the kubelet has allocated. Containers without a
// status use the amounts of their spec.
func (s *sharing) resourceStatuses(statuses []v1.ContainerStatus) []v1.ContainerStatus {
	var kept []v1.ContainerStatus
	for i := range statuses {
		if c := &statuses[i]; c.Resources != nil || c.AllocatedResources != nil {
			kept = append(kept, v1.ContainerStatus{
				Name:               model.Interned(c.Name),
				Resources:          s.requirements(c.Resources),
				AllocatedResources: s.list(c.AllocatedResources),
			})
		}
	}
	return kept
}

func (s *sharing) requirements(r *v1.ResourceRequirements) *v1.ResourceRequirements {
	if r != nil {
		r.Limits, r.Requests = s.list(r.Limits), s.list(r.Requests)
	}
	return r
}

// trimNode keeps of a node:
//
//	metadata     name, uid, resourceVersion, creation and deletion time, labels
//	spec         all except the pod networks and the source of the configuration
//	status       capacity and allocatable, images (image locality), types and statuses
//	             of conditions (queueing hints), declared features
//
// Annotations are removed: volume migration is recorded on the CSINode.
func (s *sharing) trimNode(node *v1.Node) {
	s.trimMeta(&node.ObjectMeta)
	node.Annotations = nil
	node.OwnerReferences = nil
	node.Spec.PodCIDR = ""
	node.Spec.PodCIDRs = nil
	node.Spec.ProviderID = ""
	node.Spec.ConfigSource = nil //nolint:staticcheck // old objects may still have it
	status := &node.Status
	kept := v1.NodeStatus{
		Capacity:         s.list(status.Capacity),
		Allocatable:      s.list(status.Allocatable),
		DeclaredFeatures: status.DeclaredFeatures,
		Images:           status.Images,
	}
	for i := range kept.DeclaredFeatures {
		kept.DeclaredFeatures[i] = model.Interned(kept.DeclaredFeatures[i])
	}
	for i := range kept.Images {
		for j, name := range kept.Images[i].Names {
			kept.Images[i].Names[j] = model.Interned(name)
		}
	}
	for i := range status.Conditions {
		kept.Conditions = append(kept.Conditions, v1.NodeCondition{
			Type:   v1.NodeConditionType(model.Interned(string(status.Conditions[i].Type))),
			Status: v1.ConditionStatus(model.Interned(string(status.Conditions[i].Status))),
		})
	}
	node.Status = kept
}
