package rig

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// History records every version of the ResourceClaims of a namespace, or of all, since
// its start. For each pod it records the version in which the pod got a node. Revisions
// are etcd's and order all kinds of objects, so that the claims can be reconstructed as
// of a pod's binding. History uses watches, because an informer may deliver the changes
// of two objects out of order.
type History struct {
	mu      sync.Mutex
	claims  []claimVersion       // ascending, after the initial claims
	bound   []*v1.Pod            // ascending
	placed  map[types.UID]bool   // the pods in bound, and those with a node at the start
	newest  map[types.UID]uint64 // latest revision of each pod and claim
	trouble error                // the reason why the record may be incomplete
	reading sync.WaitGroup
}

// claimVersion is a version of a claim, or its deletion.
type claimVersion struct {
	*resourcev1.ResourceClaim
	revision uint64
	gone     bool
	seen     time.Time
}

func newHistory() *History {
	return &History{placed: map[types.UID]bool{}, newest: map[types.UID]uint64{}}
}

// Record starts a history of a namespace, or of all for "", with the existing objects. It
// ends with the context; Wait waits for that.
func Record(ctx context.Context, client kubernetes.Interface, namespace string) (*History, error) {
	h := newHistory()
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods to follow them: %w", err)
	}
	claims, err := client.ResourceV1().ResourceClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list claims to follow them: %w", err)
	}
	for i := range pods.Items {
		// the revision of that is unknown
		h.placed[pods.Items[i].UID] = pods.Items[i].Spec.NodeName != ""
		h.see(watch.Event{Type: watch.Added, Object: &pods.Items[i]})
	}
	for i := range claims.Items {
		h.see(watch.Event{Type: watch.Added, Object: &claims.Items[i]})
	}
	err = h.follow(ctx, pods.ResourceVersion, func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		return client.CoreV1().Pods(namespace).Watch(ctx, o)
	})
	if err != nil {
		return nil, err
	}
	return h, h.follow(ctx, claims.ResourceVersion, func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		return client.ResourceV1().ResourceClaims(namespace).Watch(ctx, o)
	})
}

// follow watches one kind of object.
func (h *History) follow(ctx context.Context, revision string, start cache.WatchFuncWithContext) error {
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, revision, &cache.ListWatch{WatchFuncWithContext: start})
	if err != nil {
		return fmt.Errorf("follow changes: %w", err)
	}
	h.reading.Go(func() {
		for event := range watcher.ResultChan() {
			h.see(event)
		}
	})
	return nil
}

// Wait waits until all watches have ended.
func (h *History) Wait() { h.reading.Wait() }

func (h *History) see(event watch.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	object, ok := event.Object.(metav1.Object)
	if !ok { // a status with the reason why the watch cannot continue
		h.trouble = fmt.Errorf("the watch has ended: %+v", event.Object)
		return
	}
	if event.Type == watch.Bookmark {
		return
	}
	revision, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		h.trouble = err
		return
	}
	h.newest[object.GetUID()] = revision
	switch o := event.Object.(type) {
	case *resourcev1.ResourceClaim:
		h.claims = append(h.claims, claimVersion{o, revision, event.Type == watch.Deleted, time.Now()})
	case *v1.Pod:
		if o.Spec.NodeName != "" && !h.placed[o.UID] {
			h.placed[o.UID] = true
			h.bound = append(h.bound, o)
		}
	}
}

// Knows reports whether the history has reached an object's version.
func (h *History) Knows(o metav1.Object) bool {
	revision, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	h.mu.Lock()
	defer h.mu.Unlock()
	return err == nil && h.newest[o.GetUID()] >= revision
}

// Failure returns the reason why the history may be incomplete, or nil.
func (h *History) Failure() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.trouble
}

// Device returns a device's name in the cluster: driver, pool and name.
func Device(r *resourcev1.DeviceRequestAllocationResult) string {
	return r.Driver + "/" + r.Pool + "/" + r.Device
}

// Allocated returns the devices of a claim.
func Allocated(c *resourcev1.ResourceClaim) []resourcev1.DeviceRequestAllocationResult {
	if c.Status.Allocation == nil {
		return nil
	}
	return c.Status.Allocation.Devices.Results
}

// UsedTwice returns the devices that were allocated to more than one claim in some
// version.
func (h *History) UsedTwice() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var twice []string
	owner, held := map[string]string{}, map[types.UID][]string{}
	for _, version := range h.claims {
		for _, d := range held[version.UID] {
			delete(owner, d)
		}
		held[version.UID] = nil
		if version.gone {
			continue
		}
		for _, result := range Allocated(version.ResourceClaim) {
			d := Device(&result)
			if other, taken := owner[d]; taken {
				twice = append(twice, fmt.Sprintf("revision %d: claim %s gets %s, which claim %s has", version.revision, version.Name, d, other))
				continue
			}
			owner[d] = version.Name
			held[version.UID] = append(held[version.UID], d)
		}
	}
	return twice
}

// BoundTooEarly returns the pods that were bound before a kubelet could use their claims.
// A kubelet needs a claim that is allocated for the pod's node, reserved for the pod, and
// has all binding conditions. reaches reports whether a node can use a pool's devices.
func (h *History) BoundTooEarly(reaches func(pool, node string) bool) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var early []string
	for _, pod := range h.bound {
		// parsed successfully when it was seen
		revision, _ := strconv.ParseUint(pod.ResourceVersion, 10, 64)
		for _, name := range ClaimsOf(pod) {
			if why := Unusable(h.claimAt(pod.Namespace, name, revision), pod, reaches); why != "" {
				early = append(early, fmt.Sprintf("revision %d: pod %s was bound to %s, and its claim %q %s", revision, pod.Name, pod.Spec.NodeName, name, why))
			}
		}
	}
	return early
}

// claimAt returns the claim of a name as of a revision, or nil. The caller holds mu.
func (h *History) claimAt(namespace, name string, revision uint64) *resourcev1.ResourceClaim {
	for _, version := range slices.Backward(h.claims) {
		if version.revision < revision && version.Name == name && version.Namespace == namespace {
			if version.gone {
				return nil
			}
			return version.ResourceClaim
		}
	}
	return nil
}

// Versions calls do for each version of the claims of a name, until it returns false.
func (h *History) Versions(name string, do func(*resourcev1.ResourceClaim) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, version := range h.claims {
		if version.Name == name && !version.gone && !do(version.ResourceClaim) {
			return
		}
	}
}

// Bound returns the pods that got a node, in that version, with the number of devices of
// each of their claims at that time.
func (h *History) Bound() map[*v1.Pod][]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	bound := map[*v1.Pod][]int{}
	for _, pod := range h.bound {
		bound[pod] = nil
		// parsed successfully when it was seen
		revision, _ := strconv.ParseUint(pod.ResourceVersion, 10, 64)
		for _, name := range ClaimsOf(pod) {
			n := 0
			if claim := h.claimAt(pod.Namespace, name, revision); claim != nil {
				n = len(Allocated(claim))
			}
			bound[pod] = append(bound[pod], n)
		}
	}
	return bound
}

// Made returns the time at which the first version of each pod-owned claim was seen, by
// the pod's name.
func (h *History) Made() map[string]time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	made := map[string]time.Time{}
	for _, version := range h.claims {
		owner := metav1.GetControllerOf(version)
		if owner == nil {
			continue
		}
		if _, known := made[owner.Name]; !known {
			made[owner.Name] = version.seen
		}
	}
	return made
}

// ClaimsOf returns the names of a pod's claims, "" for an unknown one.
func ClaimsOf(pod *v1.Pod) []string {
	var names []string
	for _, entry := range pod.Spec.ResourceClaims {
		name := ""
		if entry.ResourceClaimName != nil {
			name = *entry.ResourceClaimName
		}
		for _, status := range pod.Status.ResourceClaimStatuses {
			if status.Name == entry.Name && status.ResourceClaimName != nil {
				name = *status.ResourceClaimName
			}
		}
		names = append(names, name)
	}
	if status := pod.Status.ExtendedResourceClaimStatus; status != nil {
		names = append(names, status.ResourceClaimName)
	}
	return names
}

// Unusable returns the reason why a pod on its node cannot use a claim, or "".
func Unusable(claim *resourcev1.ResourceClaim, pod *v1.Pod, reaches func(pool, node string) bool) string {
	if claim == nil {
		return "does not exist"
	}
	results := Allocated(claim)
	if len(results) == 0 {
		return "has no devices"
	}
	if !slices.ContainsFunc(claim.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool {
		return r.UID == pod.UID && r.Resource == "pods" && r.Name == pod.Name
	}) {
		return "is not reserved for the pod"
	}
	for _, result := range results {
		if !reaches(result.Pool, pod.Spec.NodeName) {
			return "has " + Device(&result)
		}
		var missing []string
		for _, condition := range result.BindingConditions {
			if !met(claim, &result, condition) {
				missing = append(missing, condition)
			}
		}
		if len(missing) > 0 {
			return "has " + Device(&result) + " without " + strings.Join(missing, ", ")
		}
	}
	return ""
}

// met reports whether a condition of a claim's device is true.
func met(claim *resourcev1.ResourceClaim, r *resourcev1.DeviceRequestAllocationResult, condition string) bool {
	for _, d := range claim.Status.Devices {
		if d.Driver != r.Driver || d.Pool != r.Pool || d.Device != r.Device {
			continue
		}
		for _, c := range d.Conditions {
			if c.Type == condition && c.Status == metav1.ConditionTrue {
				return true
			}
		}
	}
	return false
}
