package dynamicresources

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/devices"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/amount"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// A pod that requests an extended resource which a DeviceClass stands for gets it from the device plugin of a node that has any, and as devices from a node
// that has none. For the devices the scheduler makes a claim, which the pod owns: there is a request for each container that uses them at a time of its own.

// extended is what a pod requests of resources that devices can stand for.
type extended struct {
	// left is a claim that was made in an earlier turn; nil if there is none. Until it is gone no other is made.
	left *model.ResourceClaim
	// resources are all of which the pod requests any, by name; for at least one of them there is a class.
	resources []standIn
	// requests are those for all resources for which there is a class, by name; uses says which container uses what of them.
	requests []extendedRequest
	uses     []v1.ContainerExtendedResourceRequest
}

// standIn is a resource and the class whose devices stand for it; nil if there is none.
type standIn struct {
	name  model.ResourceName
	class *model.DeviceClass
}

// extendedRequest is a request for devices that stand for a resource.
type extendedRequest struct {
	resource v1.ResourceName
	request  resourcev1.DeviceRequest
}

// extendedOf returns what the pod requests of resources that devices can stand for, nil if none of them is of a class.
func extendedOf(store *devices.Store, pod *model.Pod) *extended {
	if !pod.Asks.AreDevices(store) {
		return nil
	}
	x := &extended{left: store.MadeFor(pod.UID)}
	classes := map[v1.ResourceName]string{}
	for _, s := range pod.Asks.Scalars {
		if s.Value == 0 || !model.CanBeDevices(s.Name) {
			continue
		}
		class := store.ClassFor(s.Name)
		x.resources = append(x.resources, standIn{s.Name, class})
		if class != nil {
			classes[v1.ResourceName(s.Name.Value())] = class.Name
		}
	}
	x.requests, x.uses = requestsFor(pod.Object, classes)
	return x
}

// appendText appends a canonical text of what verdicts depend on.
func (x *extended) appendText(text []byte) []byte {
	text = strconv.AppendBool(append(text, 'x'), x.left != nil)
	for _, r := range x.resources {
		text = model.AppendQuote(text, r.name.Value())
		if r.class != nil {
			text = append(append(text, '='), r.class.Selects.String()...)
		}
	}
	for i := range x.requests {
		r := x.requests[i].request
		text = fmt.Appendf(text, "%q%q%q%d", x.requests[i].resource, r.Name, r.Exactly.DeviceClassName, r.Exactly.Count)
	}
	return text
}

// resourcesMax is how many extended resources have bits. A claim has room for half as many requests.
const resourcesMax = 64

// through returns which of the resources a node gives as devices, as bits; ok is false if it has no other way to give one of the others, or if there are too
// many.
func (x *extended) through(node state.Node) (bits uint64, ok bool) {
	if len(x.resources) > resourcesMax {
		return 0, false
	}
	allocatable := node.Allocatable()
	for i, r := range x.resources {
		switch {
		case r.class != nil && allocatable.Scalar(r.name) <= 0: // as NodeResourcesFit leaves it to devices
			bits |= 1 << i
		case !allocatable.IsListed(r.name):
			return 0, false
		}
	}
	return bits, true
}

// has reports whether a resource is one of those in bits.
func (x *extended) has(bits uint64, name v1.ResourceName) bool {
	for i, r := range x.resources {
		if r.name.Value() == string(name) {
			return bits&(1<<i) != 0
		}
	}
	return false
}

// requestsOf returns the requests for some of the resources.
func (x *extended) requestsOf(bits uint64) []resourcev1.DeviceRequest {
	var requests []resourcev1.DeviceRequest
	for i := range x.requests {
		if x.has(bits, x.requests[i].resource) {
			requests = append(requests, x.requests[i].request)
		}
	}
	return requests
}

// usesOf returns which container gets what of the requests for some of the resources.
func (x *extended) usesOf(bits uint64) []v1.ContainerExtendedResourceRequest {
	var uses []v1.ContainerExtendedResourceRequest
	for _, use := range x.uses {
		if x.has(bits, v1.ResourceName(use.ResourceName)) {
			uses = append(uses, use)
		}
	}
	return uses
}

// container is one of a pod, with its position among all: init containers come first.
type container struct {
	*v1.Container
	at    int
	short bool // it ends before the containers that live long begin
}

func containersOf(pod *v1.Pod) []container {
	var all []container
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
		all = append(all, container{c, len(all), !sidecar})
	}
	for i := range pod.Spec.Containers {
		all = append(all, container{&pod.Spec.Containers[i], len(all), false})
	}
	return all
}

// requestName returns the name of the request for a container's resource: its position among all that the container requests.
func (c *container) requestName(resource v1.ResourceName) string {
	names := slices.Sorted(maps.Keys(c.Resources.Requests))
	return fmt.Sprintf("container-%d-request-%d", c.at, slices.Index(names, resource))
}

// requestsFor returns the requests for devices of classes, given by the resources that they stand for, and which container uses which. Containers that live
// long have a request each. An init container that ends before them uses what those behind it have requested; what it needs besides is in one further request
// for each resource, which all such containers use.
func requestsFor(pod *v1.Pod, classes map[v1.ResourceName]string) (requests []extendedRequest, uses []v1.ContainerExtendedResourceRequest) {
	containers := containersOf(pod)
	for _, resource := range slices.Sorted(maps.Keys(classes)) {
		add := func(c *container, count int64) string {
			name := c.requestName(resource)
			requests = append(requests, extendedRequest{resource, resourcev1.DeviceRequest{Name: name, Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: classes[resource], AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count,
			}}})
			return name
		}
		use := func(c *container, request string) {
			uses = append(uses, v1.ContainerExtendedResourceRequest{ContainerName: c.Name, ResourceName: string(resource), RequestName: request})
		}
		long := map[int]resourcev1.DeviceRequest{}
		for i := range containers {
			c := &containers[i]
			if asked := c.Resources.Requests[resource]; !c.short && !asked.IsZero() {
				use(c, add(c, amount.Whole(asked)))
				long[i] = requests[len(requests)-1].request
			}
		}
		var short []int // of uses: those that no request covers yet
		var extra *container
		var largest int64
		for i := range containers {
			c := &containers[i]
			missing := amount.Whole(c.Resources.Requests[resource])
			if !c.short || missing == 0 {
				continue
			}
			for j := i + 1; j < len(containers) && missing > 0; j++ {
				if r, ok := long[j]; ok {
					use(c, r.Name)
					missing -= r.Exactly.Count
				}
			}
			if missing > 0 {
				short = append(short, len(uses))
				use(c, "")
				if missing > largest {
					extra, largest = c, missing
				}
			}
		}
		if extra != nil {
			name := add(extra, largest)
			for _, at := range short {
				uses[at].RequestName = name
			}
		}
	}
	slices.SortFunc(requests, func(a, b extendedRequest) int { return strings.Compare(a.request.Name, b.request.Name) })
	return requests, uses
}

// claimFor returns the claim for some of the resources, not yet made: it has no UID.
func (x *extended) claimFor(pod *model.Pod, name string, bits uint64) *resourcev1.ResourceClaim {
	yes := true
	return &resourcev1.ResourceClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: resourcev1.SchemeGroupVersion.String(), Kind: "ResourceClaim"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: name, Annotations: map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1.SchemeGroupVersion.String(), Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: &yes, BlockOwnerDeletion: &yes,
			}},
		},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: x.requestsOf(bits)}},
	}
}

// nameOfMade returns the name of the claim for a pod's extended resources: as the API server would generate it from kube-scheduler's prefix, but known
// beforehand, so that the claim is made once however often that is asked for. It differs from turn to turn: a request of an earlier turn that arrives late does
// nothing to the claim of a later one.
func nameOfMade(v state.View, pod *model.Pod) string {
	const longest, suffix = 63, 5
	prefix := pod.Name + "-extended-resources-"
	prefix = prefix[:min(len(prefix), longest-suffix)]
	for n := 0; ; n++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", pod.UID, v.Wall().UnixNano(), n))
		name := prefix + strings.ToLower(base32.HexEncoding.EncodeToString(sum[:]))[:suffix]
		if key := (model.ClaimKey{Namespace: pod.Namespace, Name: name}); v.Devices().Claim(key) == nil && !v.Devices().IsPromised(key) {
			return name
		}
	}
}

// makeClaim returns the steps that make the claim for a pod's extended resources: the claim, its finalizer, its allocation, and what the pod's status says of it.
// The pod is not bound without all of them. What is undone is undone in the opposite order, and ends with no claim.
func (p *Plugin) makeClaim(pod *model.Pod, promise *devices.Promise) []plan.Step {
	made := promise.Made
	claim := &model.ResourceClaim{Object: made, Key: promise.Key()}
	isOurs := func(stored metav1.Object) bool {
		owner := metav1.GetControllerOf(stored)
		return owner != nil && owner.UID == pod.UID
	}
	create := claimWrite(claim, "", types.ApplyYAMLPatchType, made)
	create.Stored = isOurs
	finalizer := claimWrite(claim, "", types.StrategicMergePatchType, object{Metadata: objectMeta{Finalizers: []string{resourcev1.Finalizer}}})
	allocate := claimWrite(claim, "status", types.JSONPatchType, []operation{
		{"test", "/metadata/ownerReferences/0/uid", pod.UID},
		testFinalizer(made),
		{"test", "/status/allocation", nil},
		{"add", "/status/allocation", promise.Allocation},
		{"add", "/status/reservedFor", []resourcev1.ResourceClaimConsumerReference{reservation(pod)}},
	})
	allocate.Stored = func(stored metav1.Object) bool { return isOurs(stored) && p.holdsFor(pod, stored, promise.Allocation) }
	return []plan.Step{
		{Write: create, Undo: deleteClaim(claim, "")},
		{Write: finalizer, Undo: removeFinalizer(claim)},
		{Write: allocate},
		{Write: noteMade(pod, promise)},
	}
}

// noteMade writes to a pod's status which claim was made for it, and which container uses what of it, for the kubelet.
func noteMade(pod *model.Pod, promise *devices.Promise) *plan.Write {
	return &plan.Write{
		Resource: v1.SchemeGroupVersion.WithResource("pods"), Namespace: pod.Namespace, Name: pod.Name, Subresource: "status", Type: types.StrategicMergePatchType,
		Data: encode(object{Metadata: objectMeta{UID: pod.UID}, Status: map[string]any{
			"extendedResourceClaimStatus": v1.PodExtendedResourceClaimStatus{ResourceClaimName: promise.Made.Name, RequestMappings: promise.Uses},
		}}),
	}
}

// removeFinalizer writes that a claim can be deleted although devices are allocated to it.
func removeFinalizer(claim *model.ResourceClaim) *plan.Write {
	return claimWrite(claim, "", types.StrategicMergePatchType, map[string]any{
		"metadata": map[string]any{"$deleteFromPrimitiveList/finalizers": []string{resourcev1.Finalizer}},
	})
}

// deleteClaim returns a write that deletes a claim; with a UID it is refused for another one of that name.
func deleteClaim(claim *model.ResourceClaim, uid types.UID) *plan.Write {
	options := metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}}
	if uid != "" {
		options.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	write := claimWrite(claim, "", "", options)
	write.Delete = true
	return write
}
