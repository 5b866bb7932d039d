package cases

import (
	"fmt"
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// stoodFor are the extended resources of classes.
var stoodFor = []string{"example.com/gpu", "example.com/nic", "example.com/other", resourcev1.ResourceDeviceClassPrefix + "gpu", resourcev1.ResourceDeviceClassPrefix + "no-class"}

// extend adds extended resources to classes. Some nodes have these from a device plugin.
// Many pods request them instead of claims.
func extend(h *hardware) {
	for _, o := range h.tc.Devices {
		if class, ok := o.(*resourcev1.DeviceClass); ok && class.Name != "broken" && chance(h.r, 50) {
			class.Spec.ExtendedResourceName = ptr(pick(h.r, stoodFor[:2]...))
			class.CreationTimestamp = metav1.NewTime(time.Unix(1_700_000_000+int64(h.r.IntN(3)), 0).UTC())
		}
	}
	for _, n := range h.tc.Nodes {
		for _, name := range stoodFor[:3] {
			if chance(h.r, 25) {
				n.Status.Allocatable[v1.ResourceName(name)] = *resource.NewQuantity(int64(h.r.IntN(4)), resource.DecimalSI)
			}
		}
	}
	for _, p := range h.tc.Pods {
		if len(p.Spec.Containers) == 0 || !chance(h.r, 80) {
			continue
		}
		if isPending(p) && chance(h.r, 75) {
			p.Spec.ResourceClaims, p.Status.ResourceClaimStatuses = nil, nil
			for i := range p.Spec.Containers {
				p.Spec.Containers[i].Resources.Claims = nil
			}
		}
		h.requestExtended(p)
		if isPending(p) && chance(h.r, 8) {
			h.left(p)
		}
	}
	if chance(h.r, 60) {
		h.tc.Config = configText(ratingProfile(h.r))
	}
}

// ratingProfile draws a profile that scores extended resources.
// NodeResourcesBalancedAllocation is not used: kube-scheduler's cannot evaluate the
// selectors of a class.
func ratingProfile(r *rand.Rand) configv1.KubeSchedulerProfile {
	strategy := &configv1.ScoringStrategy{Type: pick(r, configv1.LeastAllocated, configv1.MostAllocated, configv1.RequestedToCapacityRatio)}
	for _, name := range append([]string{"cpu", "memory"}, stoodFor...) {
		if chance(r, 60) {
			strategy.Resources = append(strategy.Resources, configv1.ResourceSpec{Name: name, Weight: int64(1 + r.IntN(9))})
		}
	}
	if strategy.Type == configv1.RequestedToCapacityRatio {
		strategy.RequestedToCapacityRatio = &configv1.RequestedToCapacityRatioParam{Shape: []configv1.UtilizationShapePoint{
			{Utilization: 0, Score: int32(r.IntN(11))}, {Utilization: int32(1 + r.IntN(99)), Score: int32(r.IntN(11))}, {Utilization: 100, Score: int32(r.IntN(11))},
		}}
	}
	args := configv1.NodeResourcesFitArgs{ScoringStrategy: strategy}
	if chance(r, 20) {
		args.IgnoredResources = []string{pick(r, stoodFor[:3]...)}
	}
	p := configv1.KubeSchedulerProfile{SchedulerName: ptr(v1.DefaultSchedulerName)}
	untimed := configv1.DynamicResourcesArgs{FilterTimeout: &metav1.Duration{}}
	p.PluginConfig = []configv1.PluginConfig{arguments("NodeResourcesFit", &args, &args.TypeMeta), arguments("DynamicResources", &untimed, &untimed.TypeMeta)}
	return p
}

// requestExtended makes containers of a pod request extended resources, including init
// containers and sidecars.
func (h *hardware) requestExtended(p *v1.Pod) {
	for range h.r.IntN(3) {
		c := v1.Container{Name: fmt.Sprintf("init-%d", h.number()), Image: "image"}
		if chance(h.r, 40) {
			c.RestartPolicy = ptr(v1.ContainerRestartPolicyAlways)
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	if chance(h.r, 40) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: fmt.Sprintf("more-%d", h.number()), Image: "image"})
	}
	names := stoodFor
	if isPending(p) && chance(h.r, 70) {
		names = []string{pick(h.r, stoodFor...)}
	}
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			for _, name := range names {
				if !chance(h.r, 55) {
					continue
				}
				amount := *resource.NewQuantity(int64(pick(h.r, 0, 1, 1, 1, 2, 3)), resource.DecimalSI)
				for _, of := range []*v1.ResourceList{&list[i].Resources.Requests, &list[i].Resources.Limits} {
					if *of == nil {
						*of = v1.ResourceList{}
					}
					(*of)[v1.ResourceName(name)] = amount
				}
			}
		}
	}
}

// left adds a claim that was created for the pod's extended resources in an earlier turn.
func (h *hardware) left(p *v1.Pod) {
	c := h.claim(p.Namespace)
	if chance(h.r, 50) {
		unreserved(h, p, c)
	}
	c.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: ptr(true)}}
}
