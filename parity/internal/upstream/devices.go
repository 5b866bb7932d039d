package upstream

import (
	"context"
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	resourceclients "k8s.io/client-go/kubernetes/typed/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
)

// deallocatable returns namespace/name of the claims that DynamicResources may deallocate
// because they block some node. Its PostFilter takes any of them. The plugin does not
// export this state.
func (c *cycle) deallocatable() []string {
	data, err := c.state.Read(fwk.StateKey(dynamicresources.Name))
	if err != nil {
		return nil
	}
	found := reflect.ValueOf(data).Elem().FieldByName("unavailableClaims")
	var names []string
	claims := c.claims()
	for _, index := range found.MapKeys() {
		claim := claims[index.Int()]
		others := slices.ContainsFunc(claim.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID != c.pod.UID })
		if !others {
			names = append(names, claim.Namespace+"/"+claim.Name)
		}
	}
	slices.Sort(names)
	return names
}

// claims returns the pod's existing claims, in the order of its spec.
func (c *cycle) claims() []*resourcev1.ResourceClaim {
	var claims []*resourcev1.ResourceClaim
	for i := range c.pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(c.pod, &c.pod.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue
		}
		if claim, err := c.manager.ResourceClaims().Get(c.pod.Namespace, *name); err == nil {
			claims = append(claims, claim)
		}
	}
	return claims
}

// deviceWrites returns the claims of a reserved pod as DynamicResources will write them:
// with a finalizer, an allocation and a reservation. It follows the plugin's bindClaim.
// The plugin itself would wait for devices to be prepared. It would also add a time to an
// allocation without one, which the API server refuses. Claims with a reservation for the
// pod are left out. The claim for extended resources comes last, followed by the pod,
// whose status has the containers' use of that claim.
func (s *Scheduler) deviceWrites(c *cycle, placed *v1.Pod, nodeName string) []runtime.Object {
	var written []runtime.Object
	for _, claim := range c.claims() {
		if resourceclaim.IsReservedForPod(placed, claim, false) || slices.ContainsFunc(written, func(o runtime.Object) bool { return o.(*resourcev1.ResourceClaim).UID == claim.UID }) {
			continue
		}
		fresh := claim.DeepCopy()
		if fresh.Status.Allocation == nil {
			fresh.Status.Allocation = s.manager.ResourceClaims().GetPendingAllocation(claim.UID).DeepCopy()
			if !slices.Contains(fresh.Finalizers, resourcev1.Finalizer) {
				fresh.Finalizers = append(fresh.Finalizers, resourcev1.Finalizer)
			}
			if a := fresh.Status.Allocation; a != nil && a.AllocationTimestamp == nil {
				now := metav1.Now()
				a.AllocationTimestamp = &now
			}
		}
		fresh.Status.ReservedFor = append(fresh.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: placed.Name, UID: placed.UID})
		written = append(written, fresh)
	}
	if made, uses := c.made(nodeName); made != nil {
		made.Finalizers = []string{resourcev1.Finalizer}
		made.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: placed.Name, UID: placed.UID}}
		status := &v1.PodExtendedResourceClaimStatus{RequestMappings: uses}
		written = append(written, made, &v1.Pod{ObjectMeta: placed.ObjectMeta, Status: v1.PodStatus{ExtendedResourceClaimStatus: status}})
	}
	return written
}

// made returns the allocated claim for the pod's extended resources on a node, or nil,
// with the containers' uses. The plugin does not export its results for a node.
func (c *cycle) made(nodeName string) (claim *resourcev1.ResourceClaim, uses []v1.ContainerExtendedResourceRequest) {
	data, err := c.state.Read(fwk.StateKey(dynamicresources.Name))
	if err != nil {
		return nil, nil
	}
	found := reflect.ValueOf(data).Elem().FieldByName("nodeAllocations").MapIndex(reflect.ValueOf(nodeName))
	if !found.IsValid() || found.FieldByName("extendedResourceClaim").IsNil() {
		return nil, nil
	}
	claim = (*resourcev1.ResourceClaim)(found.FieldByName("extendedResourceClaim").UnsafePointer()).DeepCopy()
	if len(claim.Spec.Devices.Requests) == 0 {
		// A pod with other claims gets all extended resources from device plugins.
		// kube-scheduler creates an empty claim for it and then fails to bind it: "nil or
		// empty request mappings".
		return nil, nil
	}
	results := found.FieldByName("allocationResults")
	claim.Status.Allocation = (*resourcev1.AllocationResult)(results.Index(results.Len() - 1).Addr().UnsafePointer()).DeepCopy()
	now := metav1.Now()
	claim.Status.Allocation.AllocationTimestamp = &now
	mappings := found.FieldByName("containerResourceRequestMappings")
	for i := range mappings.Len() {
		m := mappings.Index(i)
		uses = append(uses, v1.ContainerExtendedResourceRequest{
			ContainerName: m.FieldByName("ContainerName").String(), ResourceName: m.FieldByName("ResourceName").String(), RequestName: m.FieldByName("RequestName").String(),
		})
	}
	return claim, uses
}

// Allocated records that the promise to a claim has become its allocation.
func (s *Scheduler) Allocated(claim types.UID) {
	s.manager.ResourceClaims().MaybeRemoveClaimPendingAllocation(claim, true)
}

// ResourceV1 returns the recording part.
func (c *client) ResourceV1() resourceclients.ResourceV1Interface {
	return resourceRecorder{c.Interface.ResourceV1(), c}
}

type resourceRecorder struct {
	resourceclients.ResourceV1Interface
	client *client
}

// ResourceClaims returns a client whose Update and UpdateStatus record.
func (r resourceRecorder) ResourceClaims(namespace string) resourceclients.ResourceClaimInterface {
	return deviceClaims{r.ResourceV1Interface.ResourceClaims(namespace), r.client}
}

type deviceClaims struct {
	resourceclients.ResourceClaimInterface
	client *client
}

// UpdateStatus records the claim.
func (c deviceClaims) UpdateStatus(_ context.Context, claim *resourcev1.ResourceClaim, _ metav1.UpdateOptions) (*resourcev1.ResourceClaim, error) {
	c.client.writes = append(c.client.writes, claim.DeepCopy())
	return claim, nil
}

// Update records the claim.
func (c deviceClaims) Update(ctx context.Context, claim *resourcev1.ResourceClaim, options metav1.UpdateOptions) (*resourcev1.ResourceClaim, error) {
	return c.UpdateStatus(ctx, claim, options)
}

// Delete does nothing. It is called only for a claim whose finalizer was removed before.
func (c deviceClaims) Delete(context.Context, string, metav1.DeleteOptions) error { return nil }

// Patch does nothing. It is called only for the end of a reservation.
func (c deviceClaims) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*resourcev1.ResourceClaim, error) {
	return &resourcev1.ResourceClaim{}, nil
}
