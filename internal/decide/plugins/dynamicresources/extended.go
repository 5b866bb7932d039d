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

// A DeviceClass can provide an extended resource. A pod that requests it gets it from the
// device plugin of a node that offers any, and as devices from other nodes. For the
// devices the scheduler creates a claim that the pod owns. It has a request for each
// container that uses devices at a separate time.

// extended is the part of a pod's requests that devices can provide.
type extended struct {
	// left is a claim from an earlier turn, or nil. No other is created until it is
	// deleted.
	left *model.ResourceClaim
	// resources are the extended resources that the pod requests, by name. A class
	// provides at least one.
	resources []standIn
	// requests are for all resources that a class provides, by name. uses maps containers
	// to requests.
	requests []extendedRequest
	uses     []v1.ContainerExtendedResourceRequest
}

// standIn is a resource and the class whose devices provide it, or nil.
type standIn struct {
	name  model.ResourceName
	class *model.DeviceClass
}

// extendedRequest is a request for the devices that provide a resource.
type extendedRequest struct {
	resource v1.ResourceName
	request  resourcev1.DeviceRequest
}

// extendedOf returns the part of a pod's requests that devices can provide, or nil if no
// class provides any of its resources.
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

// appendText appends a canonical text of everything that verdicts depend on.
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

// maxResources limits the extended resources, because each has a bit. A claim can hold
// half as many requests.
const maxResources = 64

// through returns the resources that a node provides as devices, as bits. ok is false if
// the node cannot provide the others, or if the pod requests too many resources.
func (x *extended) through(node state.Node) (bits uint64, ok bool) {
	if len(x.resources) > maxResources {
		return 0, false
	}
	allocatable := node.Allocatable()
	for i, r := range x.resources {
		switch {
		// NodeResourcesFit leaves it to devices.
		case r.class != nil && allocatable.Scalar(r.name) <= 0:
			bits |= 1 << i
		case !allocatable.IsListed(r.name):
			return 0, false
		}
	}
	return bits, true
}

// has reports whether bits includes a resource.
func (x *extended) has(bits uint64, name v1.ResourceName) bool {
	for i, r := range x.resources {
		if r.name.Value() == string(name) {
			return bits&(1<<i) != 0
		}
	}
	return false
}

// requestsOf returns the requests for the resources in bits.
func (x *extended) requestsOf(bits uint64) []resourcev1.DeviceRequest {
	var requests []resourcev1.DeviceRequest
	for i := range x.requests {
		if x.has(bits, x.requests[i].resource) {
			requests = append(requests, x.requests[i].request)
		}
	}
	return requests
}

// usesOf returns the containers' uses of the requests for the resources in bits.
func (x *extended) usesOf(bits uint64) []v1.ContainerExtendedResourceRequest {
	var uses []v1.ContainerExtendedResourceRequest
	for _, use := range x.uses {
		if x.has(bits, v1.ResourceName(use.ResourceName)) {
			uses = append(uses, use)
		}
	}
	return uses
}

// container is a container with its position in the pod: init containers come first.
type container struct {
	*v1.Container
	at    int
	short bool // ends before the long-lived containers start
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

// requestName names the request for a container's resource by its position among all
// resources that the container requests.
func (c *container) requestName(resource v1.ResourceName) string {
	names := slices.Sorted(maps.Keys(c.Resources.Requests))
	return fmt.Sprintf("container-%d-request-%d", c.at, slices.Index(names, resource))
}

// requestsFor returns the requests for devices of the classes, which are given by the
// resources that they provide, and the uses of the containers.
//
// Each long-lived container has a request of its own. An init container that ends before
// them reuses the requests of later containers. If it needs more, one further request per
// resource, shared by all such containers, covers the rest.
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
		var short []int // indexes of uses that no request covers yet
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

// claimFor returns the claim for the resources in bits. It has no UID yet.
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

// nameOfMade returns the name of the claim for a pod's extended resources. It has the
// form that the API server would generate from kube-scheduler's prefix. It is chosen here
// so that repeated requests create one claim. Each turn has another name, so a delayed
// request of an earlier turn cannot affect the claim of a later turn.
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

// makeClaim returns the steps that create the claim for a pod's extended resources: the
// claim, its finalizer, its allocation and the entry in the pod's status. The pod is
// bound only after all of them. They are undone in reverse order, which ends with
// deleting the claim.
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

// noteMade writes the created claim and the containers' uses of it to the pod's status,
// for the kubelet.
func noteMade(pod *model.Pod, promise *devices.Promise) *plan.Write {
	return &plan.Write{
		Resource: v1.SchemeGroupVersion.WithResource("pods"), Namespace: pod.Namespace, Name: pod.Name, Subresource: "status", Type: types.StrategicMergePatchType,
		Data: encode(object{Metadata: objectMeta{UID: pod.UID}, Status: map[string]any{
			"extendedResourceClaimStatus": v1.PodExtendedResourceClaimStatus{ResourceClaimName: promise.Made.Name, RequestMappings: promise.Uses},
		}}),
	}
}

// removeFinalizer lets a claim be deleted although it has allocated devices.
func removeFinalizer(claim *model.ResourceClaim) *plan.Write {
	return claimWrite(claim, "", types.StrategicMergePatchType, map[string]any{
		"metadata": map[string]any{"$deleteFromPrimitiveList/finalizers": []string{resourcev1.Finalizer}},
	})
}

// deleteClaim deletes a claim. With a UID, the API server rejects it for another claim of
// the same name.
func deleteClaim(claim *model.ResourceClaim, uid types.UID) *plan.Write {
	options := metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}}
	if uid != "" {
		options.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	write := claimWrite(claim, "", "", options)
	write.Delete = true
	return write
}
