package kinds

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-scheduler/berth/internal/model"
)

// The kinds of devices reach the state compiled, like storage kinds.

func devices(resource string) schema.GroupVersionResource {
	return resourcev1.SchemeGroupVersion.WithResource(resource)
}

// trimResourceClaim keeps the metadata, controller and spec of a ResourceClaim, and its
// allocation, reservations and device conditions. It also keeps the finalizer of an
// allocated claim, and the annotation of claims that schedulers create for extended
// resources.
func (s *sharing) trimResourceClaim(c *resourcev1.ResourceClaim) {
	var finalizers []string
	if slices.Contains(c.Finalizers, resourcev1.Finalizer) {
		finalizers = []string{resourcev1.Finalizer}
	}
	s.trimMeta(&c.ObjectMeta)
	c.Finalizers, c.Labels = finalizers, nil
	c.OwnerReferences = controllerOf(c.OwnerReferences)
	keepAnnotations(&c.ObjectMeta, resourcev1.ExtendedResourceClaimAnnotation, model.LeaderAnnotation)
	for i := range c.Status.Devices {
		of := &c.Status.Devices[i]
		c.Status.Devices[i] = resourcev1.AllocatedDeviceStatus{
			Driver: model.Interned(of.Driver), Pool: model.Interned(of.Pool), Device: model.Interned(of.Device), ShareID: of.ShareID,
			Conditions: conditionsOf(of.Conditions),
		}
	}
}

func conditionsOf(conditions []metav1.Condition) []metav1.Condition {
	var kept []metav1.Condition
	for i := range conditions {
		c := &conditions[i]
		kept = append(kept, metav1.Condition{Type: model.Interned(c.Type), Status: c.Status, Reason: c.Reason, Message: c.Message})
	}
	return kept
}

func (s *sharing) trimResourceSlice(r *resourcev1.ResourceSlice) { s.trimOther(&r.ObjectMeta) }

func (s *sharing) trimDeviceClass(c *resourcev1.DeviceClass) { s.trimOther(&c.ObjectMeta) }

// trimDeviceTaintRule keeps the metadata and spec of a DeviceTaintRule.
func (s *sharing) trimDeviceTaintRule(r *resourcev1.DeviceTaintRule) {
	s.trimOther(&r.ObjectMeta)
	r.Status = resourcev1.DeviceTaintRuleStatus{}
}
