package live

import (
	"context"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// sanitize removes from an object everything that may be confidential and that neither
// scheduling nor a simulation reads: environments, commands, probes and lifecycle hooks
// of containers, the sources of Secrets and ConfigMaps, and annotations of others than
// Kubernetes. It removes what live trims, too, and keeps the condition PodScheduled.
func sanitize(object kinds.Object, trim func(kinds.Object)) {
	switch o := object.(type) {
	case *v1.Pod:
		scheduled := slices.DeleteFunc(slices.Clone(o.Status.Conditions),
			func(c v1.PodCondition) bool { return c.Type != v1.PodScheduled })
		trimmed(o, trim)
		kept := slices.DeleteFunc(slices.Clone(o.Status.Conditions),
			func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled })
		o.Status.Conditions = append(kept, scheduled...)
		sanitizeSpec(&o.Spec)
	case *v1.Node:
		trimmed(o, trim)
	case *appsv1.ReplicaSet: // with its template, from which a simulation makes missing pods
		o.ManagedFields = nil
		sanitizeTemplate(&o.Spec.Template)
	case *appsv1.StatefulSet:
		trimmed(o, trim)
		sanitizeTemplate(&o.Spec.Template)
	case *v1.ReplicationController:
		trimmed(o, trim)
		if o.Spec.Template != nil {
			sanitizeTemplate(o.Spec.Template)
		}
	case *v1.PersistentVolume:
		trimmed(o, trim)
		if csi := o.Spec.CSI; csi != nil {
			csi.VolumeAttributes = nil
			csi.ControllerPublishSecretRef, csi.ControllerExpandSecretRef = nil, nil
			csi.NodeStageSecretRef, csi.NodePublishSecretRef, csi.NodeExpandSecretRef = nil, nil, nil
		}
	default:
		trimmed(object, trim)
	}
	object.SetAnnotations(annotationsOfKubernetes(object))
}

// annotationsOfKubernetes returns the annotations of Kubernetes itself, without the copy
// of the whole object that kubectl apply writes.
func annotationsOfKubernetes(object metav1.Object) map[string]string {
	kept := maps.Clone(object.GetAnnotations())
	maps.DeleteFunc(kept, func(key, _ string) bool {
		domain, _, _ := strings.Cut("."+key, "/")
		ours := strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io")
		return key == v1.LastAppliedConfigAnnotation || !ours
	})
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// sanitizeTemplate sanitizes a template of pods.
func sanitizeTemplate(t *v1.PodTemplateSpec) {
	t.Annotations = nil
	sanitizeSpec(&t.Spec)
}

// sanitizeSpec keeps of a pod's containers the fields that count: names, images, ports,
// resources and restart policies.
func sanitizeSpec(spec *v1.PodSpec) {
	for _, all := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range all {
			c := &all[i]
			all[i] = v1.Container{Name: c.Name, Image: c.Image, Ports: c.Ports, Resources: c.Resources,
				RestartPolicy: c.RestartPolicy}
		}
	}
	spec.EphemeralContainers, spec.ImagePullSecrets, spec.HostAliases = nil, nil, nil
	spec.SecurityContext, spec.DNSConfig = nil, nil
	spec.Volumes = slices.DeleteFunc(slices.Clone(spec.Volumes), func(v v1.Volume) bool {
		return v.Secret != nil || v.ConfigMap != nil || v.Projected != nil || v.DownwardAPI != nil || v.HostPath != nil
	})
}
