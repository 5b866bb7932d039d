package dynamicresources

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/berth-scheduler/berth/internal/cluster/devices"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/allocator"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Between the decision and the binding, each claim of the pod without an allocation has a
// promise of devices. A promise counts until a version of the claim shows an allocation.
// The API server's answers to writes are learned before any later decision, so devices
// never count as free between a write and its watch event. If the placement fails, only
// the reservation is reverted. The allocation stays.

// Reserve promises devices to the pod's claims.
func (p *Plugin) Reserve(v state.View, pod *model.Pod, slot int32) ([]plan.Hold, error) {
	store := v.Devices()
	claims, unusable := p.claimsOf(store, pod)
	if unusable != "" {
		return nil, errors.New(unusable)
	}
	var holds []plan.Hold
	// No function returns find, so that it stays on the stack.
	var find []*model.ResourceClaim
	for _, claim := range unallocated(claims) {
		promise := store.PromisedInTurn(claim.Key)
		switch {
		case promise == nil:
			find = append(find, claim)
		// Not named twice
		case !slices.ContainsFunc(holds, func(h plan.Hold) bool { return h.Object == claim.Ref() }):
			holds = append(holds, plan.Hold{Plugin: Name, Object: claim.Ref(), Value: promise})
		}
	}
	made, uses, err := p.madeFor(v, pod, slot)
	if err != nil {
		return nil, err
	}
	if len(find) == 0 && made == nil {
		return holds, nil
	}
	results, err := p.allocate(v, pod, slot, find, made)
	if err != nil {
		return nil, err
	}
	for i, claim := range find {
		if slices.Contains(find[:i], claim) { // named twice
			continue
		}
		holds = append(holds, plan.Hold{Plugin: Name, Object: claim.Ref(), Value: &devices.Promise{UID: claim.Object.UID, Allocation: &results[i]}})
	}
	if made != nil {
		holds = append(holds, plan.Hold{
			Plugin: Name, Object: model.ClaimKey{Namespace: pod.Namespace, Name: made.Name}.DeviceRef(),
			Value: &devices.Promise{Allocation: &results[len(find)], Made: made, Uses: uses},
		})
	}
	return holds, nil
}

// allocate finds devices on a node for the claims, and last for made unless it is nil.
func (p *Plugin) allocate(v state.View, pod *model.Pod, slot int32, find []*model.ResourceClaim, made *resourcev1.ResourceClaim) ([]resourcev1.AllocationResult, error) {
	store := v.Devices()
	q := allocator.Question{
		Name: nameAt(v, pod, slot), Meter: v.Meter(),
		Node: v.Node(slot).Object(), Slices: store.SlicesAt(slot, nil), Allocated: store.Allocated(), InUse: store.InUse,
		Class: func(name string) *resourcev1.DeviceClass {
			if class := store.Class(name); class != nil {
				return class.Object
			}
			return nil
		},
	}
	for _, claim := range find {
		q.Claims = append(q.Claims, claim.Object)
	}
	if made != nil {
		q.Claims = append(q.Claims, made)
	}
	results, err := p.search.Allocate(&q)
	switch {
	case errors.Is(err, allocator.ErrUnfinished):
		return nil, plugin.ErrUnfinished
	case err != nil:
		return nil, err
	case len(results) < len(q.Claims):
		return nil, fmt.Errorf("the pod's claims cannot be allocated on node %s any more", q.Node.Name)
	}
	if p.config.Features.DeviceBindingAndStatus {
		for i := range results {
			results[i].AllocationTimestamp = &metav1.Time{Time: v.Wall()}
		}
	}
	return results, nil
}

// nameAt returns the cache key of the search for a pod's devices on a node.
func nameAt(v state.View, pod *model.Pod, slot int32) allocator.Name {
	store := v.Devices()
	pods := fmt.Appendf(nil, "%s %s", v.Node(slot).Name(), pod.UID)
	return allocator.Name{Need: sha256.Sum256(model.AppendClaims(pods, pod.Devices.Keys())), Devices: sha256.Sum256(store.AppendKey(nil, slot))}
}

// madeFor returns the claim to create for the extended resources that the pod gets as
// devices on a node, and the containers' shares of it. The claim is nil if no resource
// needs devices. If no container requests a resource, for example because only the pod's
// overhead does, madeFor fails: the pod would be bound without the devices.
func (p *Plugin) madeFor(v state.View, pod *model.Pod, slot int32) (*resourcev1.ResourceClaim, []v1.ContainerExtendedResourceRequest, error) {
	x := extendedOf(v.Devices(), pod)
	if x == nil {
		return nil, nil, nil
	}
	bits, ok := x.through(v.Node(slot))
	if !ok {
		return nil, nil, fmt.Errorf("node %s does not give the pod all extended resources any more", v.Node(slot).Name())
	}
	if bits == 0 {
		return nil, nil, nil
	}
	uses := x.usesOf(bits)
	for i, r := range x.resources {
		used := func(u v1.ContainerExtendedResourceRequest) bool { return u.ResourceName == r.name.Value() }
		if bits&(1<<i) != 0 && !slices.ContainsFunc(uses, used) {
			return nil, nil, fmt.Errorf("no container requests %s, which the pod requests", r.name.Value())
		}
	}
	return x.claimFor(pod, nameOfMade(v, pod), bits), uses, nil
}

// Reasons for a failed wait for devices. Metrics distinguish them from other errors.
var (
	// ErrBindingTimeout means that the devices were not ready in time.
	ErrBindingTimeout = errors.New("device binding timeout")
	// ErrBindingFailed means that the driver reports that a device cannot be prepared.
	ErrBindingFailed = errors.New("device binding failed")
)

// PreBind writes the allocations and reservations of claims, and waits for devices that
// must be prepared.
func (p *Plugin) PreBind(v state.View, placement *plan.Placement) ([]plan.Step, error) {
	pod, promise := placement.Pod, madeBy(placement)
	if pod.Devices == nil && promise == nil {
		return nil, nil
	}
	claims, unusable := p.claimsOf(v.Devices(), pod)
	if unusable != "" {
		return nil, errors.New(unusable)
	}
	var steps []plan.Step
	wait := plan.Wait{Timeout: p.config.BindingTimeout, Err: fmt.Errorf("%w: context deadline exceeded", ErrBindingTimeout)}
	for i, claim := range claims {
		if slices.Contains(claims[:i], claim) {
			continue
		}
		consumer, err := p.consumerOf(v, pod, pod.Devices.Claims[i])
		if err != nil {
			return nil, err
		}
		allocation, err := allocationOf(placement, claim)
		if err != nil {
			return nil, err
		}
		wait.For = append(wait.For, claim.Ref())
		wait.Devices = appendDevices(wait.Devices, allocation)
		if leader := v.Fence(claim); leader != "" && claim.Allocation() != nil {
			steps = append(steps, plan.Step{Write: p.fence(pod, claim, leader)})
		}
		if p.isReservedFor(pod, claim.Object) {
			continue
		}
		if claim.Allocation() == nil && !slices.Contains(claim.Object.Finalizers, resourcev1.Finalizer) {
			steps = append(steps, plan.Step{Write: addFinalizer(claim)})
		}
		step := plan.Step{Write: p.reserve(pod, consumer, claim, allocation)}
		// A reservation for the group stays, for the other members.
		if consumer.UID == pod.UID {
			step.Undo = unreserve(consumer, claim)
		}
		steps = append(steps, step)
	}
	if promise != nil {
		steps = append(steps, p.makeClaim(pod, promise)...)
		wait.For = append(wait.For, promise.Key().DeviceRef())
		wait.Devices = appendDevices(wait.Devices, promise.Allocation)
	}
	// Done reads all claims, because the last claim to change may be without devices that
	// need preparation.
	awaited := slices.ContainsFunc(wait.Devices, func(d plan.Device) bool { return d.Awaited })
	if p.config.Features.DeviceBindingAndStatus && awaited {
		wait.Event = &plan.PodEvent{
			Reason: "BindingConditionsPending", Action: "Scheduling", Note: "waiting for binding conditions for device on node " + placement.NodeName,
		}
		steps = append(steps, plan.Step{Wait: &wait})
	}
	return steps, nil
}

// allocationOf returns a claim's allocation, or the allocation that the placement
// promises. If neither exists, for example because the plugin is disabled at Reserve, it
// fails: the pod would be bound without its devices.
func allocationOf(placement *plan.Placement, claim *model.ResourceClaim) (*resourcev1.AllocationResult, error) {
	if a := claim.Allocation(); a != nil {
		return a, nil
	}
	for _, h := range placement.Holds {
		if promise, ok := h.Value.(*devices.Promise); ok && h.Object == claim.Ref() {
			return promise.Allocation, nil
		}
	}
	return nil, fmt.Errorf("no devices are reserved for the pod's claim %s: DynamicResources must be enabled at Reserve", claim.Key)
}

// madeBy returns the placement's promise to a claim that is to be created, or nil.
func madeBy(placement *plan.Placement) *devices.Promise {
	for _, h := range placement.Holds {
		if promise, ok := h.Value.(*devices.Promise); ok && promise.Made != nil {
			return promise
		}
	}
	return nil
}

// appendDevices appends the devices of an allocation in the form of a wait.
func appendDevices(to []plan.Device, a *resourcev1.AllocationResult) []plan.Device {
	for i := range a.Devices.Results {
		r := &a.Devices.Results[i]
		to = append(to, plan.Device{Driver: r.Driver, Awaited: len(r.BindingConditions) > 0})
	}
	return to
}

// claimWrite returns a write of a claim. Its answer is learned.
func claimWrite(claim *model.ResourceClaim, subresource string, kind types.PatchType, body any) *plan.Write {
	return &plan.Write{
		Resource: resourcev1.SchemeGroupVersion.WithResource("resourceclaims"), Namespace: claim.Key.Namespace, Name: claim.Key.Name, Subresource: subresource,
		Type: kind, Data: encode(body), Learn: true,
	}
}

func encode(body any) []byte {
	data, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", body, err)) // API types can always be encoded
	}
	return data
}

// object is a strategic merge patch. The UID makes the API server reject it for another
// claim of the same name.
type object struct {
	Metadata objectMeta `json:"metadata"`
	Status   any        `json:"status,omitempty"`
}

type objectMeta struct {
	UID             types.UID `json:"uid,omitempty"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
	Finalizers      []string  `json:"finalizers,omitempty"`

	Annotations map[string]string `json:"annotations,omitempty"`
}

// addFinalizer keeps a claim from being deleted while it has allocated devices.
func addFinalizer(claim *model.ResourceClaim) *plan.Write {
	return claimWrite(claim, "", types.StrategicMergePatchType, object{Metadata: objectMeta{UID: claim.Object.UID, Finalizers: []string{resourcev1.Finalizer}}})
}

// fence annotates a claim in the version that the decision read. From then on, the API
// server rejects writes of another process to that version. If such a write was stored
// before, the fence itself is rejected.
func (p *Plugin) fence(pod *model.Pod, claim *model.ResourceClaim, leader string) *plan.Write {
	write := claimWrite(claim, "", types.StrategicMergePatchType, object{Metadata: objectMeta{
		UID: claim.Object.UID, ResourceVersion: claim.Version(), Annotations: map[string]string{model.LeaderAnnotation: leader},
	}})
	reserved := p.isReservedFor(pod, claim.Object)
	// Perhaps by another pod that shares the claim.
	write.Stored = func(stored metav1.Object) bool {
		now, ok := stored.(*resourcev1.ResourceClaim)
		return ok && now.UID == claim.Object.UID && now.Annotations[model.LeaderAnnotation] == leader &&
			now.Status.Allocation != nil && sameDevices(now.Status.Allocation, claim.Allocation()) &&
			(!reserved || p.isReservedFor(pod, now))
	}
	return write
}

// testFinalizer tests that a claim has the finalizer, after those it had before. A
// delayed request could otherwise allocate devices to a claim that was released
// meanwhile. Without the finalizer, that claim could be deleted at any time.
func testFinalizer(before *resourcev1.ResourceClaim) operation {
	return operation{"test", fmt.Sprint("/metadata/finalizers/", len(before.Finalizers)), resourcev1.Finalizer}
}

// operation is an operation of a JSON patch. A test with the value nil passes if the path
// does not exist.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// reserve writes the reservation of a claim and, if missing, its allocation. The API
// server rejects an allocation if the claim already has one.
//
// A reservation is added to those of other writers. It does not count as stored if the
// claim now has another allocation. Members that share a claim of their group all write
// the same; later writers find it stored.
func (p *Plugin) reserve(pod *model.Pod, consumer resourcev1.ResourceClaimConsumerReference, claim *model.ResourceClaim, allocation *resourcev1.AllocationResult) *plan.Write {
	entry := []resourcev1.ResourceClaimConsumerReference{consumer}
	var write *plan.Write
	if claim.Allocation() == nil {
		tests := []operation{{"test", "/metadata/uid", claim.Object.UID}, {"test", "/status/allocation", nil}}
		if slices.Contains(claim.Object.Finalizers, resourcev1.Finalizer) {
			// The finalizer is left from an earlier allocation. The writer that released
			// the allocation may be about to remove the finalizer.
			tests = append(tests, operation{"test", "/metadata/resourceVersion", claim.Object.ResourceVersion})
		} else {
			tests = append(tests, testFinalizer(claim.Object))
		}
		write = claimWrite(claim, "status", types.JSONPatchType, append(tests,
			operation{"add", "/status/allocation", allocation}, operation{"add", "/status/reservedFor", entry}))
	} else {
		// kube-scheduler also adds the timestamp to an allocation of an older scheduler
		// that has none. Allocations are immutable, so the API server rejects that and
		// the reservation with it.
		status := map[string]any{"reservedFor": entry}
		write = claimWrite(claim, "status", types.StrategicMergePatchType, object{Metadata: objectMeta{UID: claim.Object.UID}, Status: status})
	}
	write.Stored = func(stored metav1.Object) bool {
		return stored.GetUID() == claim.Object.UID && p.holdsFor(pod, stored, allocation)
	}
	return write
}

// reservation returns the entry that reserves a claim for a pod.
func reservation(pod *model.Pod) resourcev1.ResourceClaimConsumerReference {
	return resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID}
}

// consumerOf returns the consumer to reserve the pod's claim for. It is the PodGroup if
// the group lists the claim by the same name and from the same source, otherwise the pod.
// An entry of the PodGroup of an unknown kind is an error.
func (p *Plugin) consumerOf(v state.View, pod *model.Pod, use model.PodResourceClaim) (resourcev1.ResourceClaimConsumerReference, error) {
	if !p.config.GroupClaims {
		return reservation(pod), nil
	}
	at := slices.IndexFunc(pod.Object.Spec.ResourceClaims, func(c v1.PodResourceClaim) bool { return c.Name == use.Entry })
	group := v.Group(pod.Group)
	if group == nil || at < 0 {
		return reservation(pod), nil
	}
	return resourceclaim.BindTo(pod.Object, group.Object, &pod.Object.Spec.ResourceClaims[at])
}

// isReservedFor reports whether a claim is reserved for a pod or its PodGroup.
func (p *Plugin) isReservedFor(pod *model.Pod, claim *resourcev1.ResourceClaim) bool {
	return resourceclaim.IsReservedForPod(pod.Object, claim, p.config.GroupClaims)
}

// holdsFor reports whether a claim has the allocation and is reserved for the pod.
func (p *Plugin) holdsFor(pod *model.Pod, claim metav1.Object, allocation *resourcev1.AllocationResult) bool {
	now, ok := claim.(*resourcev1.ResourceClaim)
	return ok && now.Status.Allocation != nil && sameDevices(now.Status.Allocation, allocation) && p.isReservedFor(pod, now)
}

// sameDevices reports whether two allocations have the same devices.
func sameDevices(a, b *resourcev1.AllocationResult) bool {
	return slices.EqualFunc(a.Devices.Results, b.Devices.Results, func(a, b resourcev1.DeviceRequestAllocationResult) bool {
		return a.Request == b.Request && a.Driver == b.Driver && a.Pool == b.Pool && a.Device == b.Device && equal(a.ShareID, b.ShareID)
	})
}

// unreserve returns a write that removes a reservation for a pod or PodGroup.
func unreserve(consumer resourcev1.ResourceClaimConsumerReference, claim *model.ResourceClaim) *plan.Write {
	return claimWrite(claim, "status", types.StrategicMergePatchType, withoutReservation(consumer, objectMeta{UID: claim.Object.UID}))
}

// withoutReservation returns the patch that removes a reservation.
func withoutReservation(consumer resourcev1.ResourceClaimConsumerReference, of objectMeta) object {
	entry := map[string]any{"$patch": "delete", "uid": consumer.UID}
	return object{Metadata: of, Status: map[string]any{"reservedFor": []any{entry}}}
}

// Done reports whether the devices of a placement are ready. An error, worded as in
// kube-scheduler, means that they will never be.
func (p *Plugin) Done(v state.View, placement *plan.Placement) (bool, error) {
	claims, unusable := p.claimsOf(v.Devices(), placement.Pod)
	if unusable != "" {
		return false, errors.New(unusable)
	}
	if promise := madeBy(placement); promise != nil {
		made := v.Devices().Claim(promise.Key())
		switch {
		case made == nil && v.Devices().IsPromised(promise.Key()): // not created yet
			return false, nil
		case made == nil:
			return false, fmt.Errorf("claim %s got deleted in the meantime", promise.Key())
		}
		claims = append(claims, made)
	}
	for _, claim := range claims {
		// Not written yet
		if claim.Allocation() == nil && v.Devices().IsPromised(claim.Key) {
			return false, nil
		}
		if claim.Allocation() == nil {
			return false, fmt.Errorf("claim %s got deallocated elsewhere in the meantime", claim.Key)
		}
		ready, failed := isPrepared(claim.Object)
		if failed != nil {
			return false, fmt.Errorf("%w: claim=%s, reason=%s, message=%q", ErrBindingFailed, claim.Key.Name, failed.Reason, failed.Message)
		}
		if !ready {
			return false, nil
		}
	}
	return true, nil
}
