package kinds

import (
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func groups(resource string) schema.GroupVersionResource {
	return schedulingv1beta1.SchemeGroupVersion.WithResource(resource)
}

// trimPodGroup keeps the metadata and spec of a PodGroup, the conditions that a scheduler
// writes, and the names of the claims that were created for it.
func (s *sharing) trimPodGroup(g *schedulingv1beta1.PodGroup) {
	s.trimOther(&g.ObjectMeta)
	var kept []metav1.Condition
	for _, c := range g.Status.Conditions {
		if c.Type == schedulingv1beta1.PodGroupInitiallyScheduled {
			kept = append(kept, c)
		}
	}
	g.Status = schedulingv1beta1.PodGroupStatus{Conditions: kept, ResourceClaimStatuses: g.Status.ResourceClaimStatuses}
}

// trimComposite keeps the metadata and spec of a CompositePodGroup. A scheduler writes
// nothing to it.
func (s *sharing) trimComposite(g *schedulingv1alpha3.CompositePodGroup) {
	s.trimOther(&g.ObjectMeta)
	g.Status = schedulingv1alpha3.CompositePodGroupStatus{}
}
