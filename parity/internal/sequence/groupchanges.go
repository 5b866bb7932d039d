package sequence

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// Properties that determine the victims, for sequences with pod groups and preemption.

// start gives a newly bound pod a unique start time, so that the order of any two is
// known.
func (p *groupPlay) start(c *simulate.Cluster, r *simulate.Round) {
	for _, bound := range r.Stored {
		pod := c.Pod(keyOf(bound))
		if pod == nil || pod.UID != bound.UID || pod.Status.StartTime != nil {
			continue
		}
		p.started++
		pod = pod.DeepCopy()
		pod.Status.Phase, pod.Status.StartTime = v1.PodRunning, &metav1.Time{Time: p.began.Add(time.Duration(p.started) * time.Second)}
		c.SetPod(pod)
	}
}

// setBudget creates, changes or deletes a PodDisruptionBudget for the pods of a group.
func (p *groupPlay) setBudget(c *simulate.Cluster) error {
	group := p.r.IntN(p.groups)
	ref := model.Ref{Kind: model.PodDisruptionBudgetKind, Namespace: "default", Name: fmt.Sprint("budget-", group)}
	if chance(p.r, 30) {
		c.DeleteObject(ref)
		return nil
	}
	return c.SetObject(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint("group-", group)}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: pick(p.r, int32(0), 0, 1, 2)},
	})
}

// disrupted draws a group's disruption mode.
func (p *groupPlay) disrupted(g *schedulingv1beta1.PodGroup) {
	switch p.r.IntN(3) {
	case 0:
		g.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
	case 1:
		g.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{Single: &schedulingv1beta1.SingleDisruptionMode{}}
	}
}

func (p *groupPlay) disruptedComposite(g *schedulingv1alpha3.CompositePodGroup) {
	if chance(p.r, 40) {
		g.Spec.DisruptionMode = &schedulingv1alpha3.CompositeDisruptionMode{All: &schedulingv1alpha3.AllCompositeDisruptionMode{}}
	}
}

// Claims for devices that members share, for sequences with pod groups.

const claimDriver = "devices.example.com"

// install creates the devices of the nodes, their class, and a claim for each group.
func (p *groupPlay) install(c *simulate.Cluster) error {
	objects := []runtime.Object{&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}}
	for i := range 5 {
		node := fmt.Sprint("node-", i)
		slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourcev1.ResourceSliceSpec{
			Driver: claimDriver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		}}
		for n := range 1 + p.r.IntN(2) {
			slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("gpu-", n)})
		}
		objects = append(objects, slice)
	}
	for group := range p.groups {
		objects = append(objects, &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("claim-", group), Finalizers: []string{resourcev1.Finalizer}}, Spec: resourcev1.ResourceClaimSpec{
			Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
				Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: int64(1 + p.r.IntN(2))},
			}}},
		}})
	}
	for _, object := range objects {
		if err := c.SetObject(object); err != nil {
			return err
		}
	}
	return nil
}

// claim makes most groups list their claim. Members of the other groups use it directly.
func (p *groupPlay) claim(g *schedulingv1beta1.PodGroup, group int) {
	if !chance(p.r, 75) {
		return
	}
	g.Spec.ResourceClaims = []schedulingv1beta1.PodGroupResourceClaim{{Name: "gpu", ResourceClaimName: ptr(fmt.Sprint("claim-", group))}}
}

// claimingMember makes most pods use the claim of their group.
func claimingMember(p *groupPlay, pod *v1.Pod) {
	if chance(p.r, 50) {
		mixedMember(p, pod)
	}
	if group := groupOf(pod); chance(p.r, 75) {
		pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr("claim-" + group.Name[len("group-"):])}}
	}
}

// strand leaves a claim with an unused allocation, as after members that could not be
// bound.
func (p *groupPlay) strand(c *simulate.Cluster) error {
	group, node := p.r.IntN(p.groups), fmt.Sprint("node-", p.r.IntN(5))
	key := model.ClaimKey{Namespace: "default", Name: fmt.Sprint("claim-", group)}
	claim := c.Object(key.DeviceRef()).(*resourcev1.ResourceClaim)
	if claim.Status.Allocation != nil || claim.Spec.Devices.Requests[0].Exactly.Count > 1 || c.Loop().State().View().Devices().IsPromised(key) {
		return nil
	}
	result := resourcev1.DeviceRequestAllocationResult{Request: "gpu", Driver: claimDriver, Pool: node, Device: "gpu-0"}
	for _, o := range c.Objects() {
		if other, ok := o.(*resourcev1.ResourceClaim); ok && other.Status.Allocation != nil {
			for _, r := range other.Status.Allocation.Devices.Results {
				if r.Pool == result.Pool && r.Device == result.Device {
					return nil
				}
			}
		}
	}
	claim = claim.DeepCopy()
	claim.Finalizers = []string{resourcev1.Finalizer}
	claim.Status.Allocation = &resourcev1.AllocationResult{
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{result}},
		NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchFields: []v1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
		}}},
	}
	if g := c.Object(model.GroupKey{Namespace: "default", Name: fmt.Sprint("group-", group)}.Ref()); g != nil && chance(p.r, 50) {
		claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{APIGroup: schedulingv1beta1.GroupName, Resource: "podgroups", Name: g.GetName(), UID: g.GetUID()}}
	}
	return c.SetObject(claim)
}
