package model

import (
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Replica returns the result of compiling an object, if p was compiled from a replica of
// it.
//
// Pods of one template share memory. An object is a replica if it has the same namespace,
// and if its labels, annotations and spec are identical in memory except for the node.
// Only a few pointers are therefore compared.
//
// ok is false if the object may differ in more, or if it has no containers. It is also
// false if the compiled pod depends on the pod's name or status, as with volumes and
// claims.
func (p *Pod) Replica(object *v1.Pod) (replica *Pod, ok bool) {
	of := p.Object
	if p.Malformed != "" || of.Namespace != object.Namespace || (of.Spec.NodeName == "") != (object.Spec.NodeName == "") ||
		len(of.Spec.Containers) == 0 || len(of.Spec.Volumes)+len(of.Spec.ResourceClaims) > 0 || !sameSpec(&of.Spec, &object.Spec) ||
		!sameMap(of.Labels, object.Labels) || !sameMap(of.Annotations, object.Annotations) ||
		!slices.EqualFunc(of.OwnerReferences, object.OwnerReferences, sameOwner) || isResized(of) || isResized(object) {
		return nil, false
	}
	r := *p
	r.Object, r.UID, r.Name = object, object.UID, object.Name
	r.NodeName, r.NominatedNode, r.Terminating = Interned(object.Spec.NodeName), object.Status.NominatedNodeName, object.DeletionTimestamp != nil
	return &r, true
}

func sameOwner(a, b metav1.OwnerReference) bool {
	return a.UID == b.UID && a.Name == b.Name && a.Kind == b.Kind && a.APIVersion == b.APIVersion && isTrue(a.Controller) == isTrue(b.Controller)
}

func isTrue(b *bool) bool { return b != nil && *b }

// sameSpec reports whether two specs are identical in memory, except for the node.
func sameSpec(a, b *v1.PodSpec) bool {
	return sameSlice(a.Containers, b.Containers) && // most likely to differ
		sameSlice(a.InitContainers, b.InitContainers) && sameSlice(a.EphemeralContainers, b.EphemeralContainers) &&
		sameSlice(a.Volumes, b.Volumes) && sameSlice(a.ResourceClaims, b.ResourceClaims) && a.Affinity == b.Affinity &&
		sameSlice(a.TopologySpreadConstraints, b.TopologySpreadConstraints) && sameSlice(a.Tolerations, b.Tolerations) &&
		sameMap(a.NodeSelector, b.NodeSelector) && sameMap(a.Overhead, b.Overhead) && a.Resources == b.Resources &&
		a.SchedulerName == b.SchedulerName && a.Priority == b.Priority && a.PriorityClassName == b.PriorityClassName && a.PreemptionPolicy == b.PreemptionPolicy &&
		sameSlice(a.SchedulingGates, b.SchedulingGates) && a.SchedulingGroup == b.SchedulingGroup && sameSlice(a.EvictionResponders, b.EvictionResponders) &&
		a.HostNetwork == b.HostNetwork && a.HostPID == b.HostPID && a.HostIPC == b.HostIPC && a.ShareProcessNamespace == b.ShareProcessNamespace && a.HostUsers == b.HostUsers &&
		a.SecurityContext == b.SecurityContext && a.OS == b.OS && a.RuntimeClassName == b.RuntimeClassName && a.RestartPolicy == b.RestartPolicy &&
		a.TerminationGracePeriodSeconds == b.TerminationGracePeriodSeconds && a.ActiveDeadlineSeconds == b.ActiveDeadlineSeconds && a.DNSPolicy == b.DNSPolicy &&
		a.DNSConfig == b.DNSConfig && a.ServiceAccountName == b.ServiceAccountName && a.DeprecatedServiceAccount == b.DeprecatedServiceAccount &&
		a.AutomountServiceAccountToken == b.AutomountServiceAccountToken && sameSlice(a.ImagePullSecrets, b.ImagePullSecrets) && a.Hostname == b.Hostname &&
		a.Subdomain == b.Subdomain && a.SetHostnameAsFQDN == b.SetHostnameAsFQDN && a.HostnameOverride == b.HostnameOverride && sameSlice(a.HostAliases, b.HostAliases) &&
		sameSlice(a.ReadinessGates, b.ReadinessGates) && a.EnableServiceLinks == b.EnableServiceLinks
}

// sameSlice reports whether two slices are identical in memory.
func sameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (a == nil) == (b == nil) && (len(a) == 0 || &a[0] == &b[0])
}

// sameMap reports whether two maps are identical in memory.
func sameMap[K comparable, V any](a, b map[K]V) bool {
	return len(a) == len(b) && (a == nil) == (b == nil) && (len(a) == 0 || reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer())
}
