package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// history is every version of a namespace's ResourceClaims, and the version in which each of its pods got a node, since the test began. Revisions are those of
// etcd, which count for all kinds of objects together, so that claims can be looked at as they were when a pod was bound. It watches, because an informer may
// pass on the changes of two objects in another order than they happened.
type history struct {
	mu      sync.Mutex
	claims  []claimVersion       // ascending
	bound   []*v1.Pod            // ascending
	placed  map[types.UID]bool   // the pods in bound
	newest  map[types.UID]uint64 // the revision seen last of each pod and claim
	trouble error                // why it may be incomplete
}

// claimVersion is a version of a claim, or its end.
type claimVersion struct {
	*resourcev1.ResourceClaim
	revision uint64
	gone     bool
}

// record starts a history of the namespace. It ends with the test.
func (w *world) record() *history {
	w.Helper()
	h := &history{placed: map[types.UID]bool{}, newest: map[types.UID]uint64{}}
	pods, err := w.client.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{})
	w.must(err)
	claims, err := w.client.ResourceV1().ResourceClaims(w.namespace).List(w.ctx, metav1.ListOptions{})
	w.must(err)
	if len(pods.Items)+len(claims.Items) > 0 {
		w.Fatal("a history begins with an empty namespace")
	}
	w.follow(h, pods.ResourceVersion, func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		return w.client.CoreV1().Pods(w.namespace).Watch(ctx, o)
	})
	w.follow(h, claims.ResourceVersion, func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		return w.client.ResourceV1().ResourceClaims(w.namespace).Watch(ctx, o)
	})
	return h
}

// follow watches one kind of objects.
func (w *world) follow(h *history, revision string, start cache.WatchFuncWithContext) {
	w.Helper()
	ctx, stop := context.WithCancel(context.Background())
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, revision, &cache.ListWatch{WatchFuncWithContext: start})
	if err != nil {
		stop()
		w.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		for event := range watcher.ResultChan() {
			h.see(event)
		}
	})
	w.Cleanup(func() {
		stop()
		reading.Wait()
	})
}

func (h *history) see(event watch.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	object, ok := event.Object.(metav1.Object)
	if !ok { // a status that says why the watch cannot go on
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
		h.claims = append(h.claims, claimVersion{o, revision, event.Type == watch.Deleted})
	case *v1.Pod:
		if o.Spec.NodeName != "" && !h.placed[o.UID] {
			h.placed[o.UID] = true
			h.bound = append(h.bound, o)
		}
	}
}

// knows reports whether the history has come to an object's version.
func (h *history) knows(o metav1.Object) bool {
	revision, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	h.mu.Lock()
	defer h.mu.Unlock()
	return err == nil && h.newest[o.GetUID()] >= revision
}

// failure is why the history may be incomplete, if it is.
func (h *history) failure() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.trouble
}

// device is a device's name in the cluster: driver, pool and name.
func device(r *resourcev1.DeviceRequestAllocationResult) string {
	return r.Driver + "/" + r.Pool + "/" + r.Device
}

func allocated(c *resourcev1.ResourceClaim) []resourcev1.DeviceRequestAllocationResult {
	if c.Status.Allocation == nil {
		return nil
	}
	return c.Status.Allocation.Devices.Results
}

// usedTwice returns the devices that, in some version, more than one claim had.
func (h *history) usedTwice() []string {
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
		for _, result := range allocated(version.ResourceClaim) {
			d := device(&result)
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

// boundTooEarly returns the pods that were bound before their claims were as a kubelet needs them: allocated on the pod's node, reserved for the pod, and with all
// binding conditions. reaches says whether a pool's devices can be reached from a node.
func (h *history) boundTooEarly(reaches func(pool, node string) bool) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var early []string
	for _, pod := range h.bound {
		revision, _ := strconv.ParseUint(pod.ResourceVersion, 10, 64) // it was parsed when it was seen
		for _, name := range claimsOf(pod) {
			if why := unusable(h.claimAt(name, revision), pod, reaches); why != "" {
				early = append(early, fmt.Sprintf("revision %d: pod %s was bound to %s, and its claim %q %s", revision, pod.Name, pod.Spec.NodeName, name, why))
			}
		}
	}
	return early
}

// claimAt returns the claim of a name as it was at a revision, or nil. It needs the lock.
func (h *history) claimAt(name string, revision uint64) *resourcev1.ResourceClaim {
	for _, version := range slices.Backward(h.claims) {
		if version.revision < revision && version.Name == name {
			if version.gone {
				return nil
			}
			return version.ResourceClaim
		}
	}
	return nil
}

// versions calls do for each version of the claims of a name, until it returns false.
func (h *history) versions(name string, do func(*resourcev1.ResourceClaim) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, version := range h.claims {
		if version.Name == name && !version.gone && !do(version.ResourceClaim) {
			return
		}
	}
}

// claimsOf returns the names of a pod's claims; "" stands for one that is not known.
func claimsOf(pod *v1.Pod) []string {
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

// unusable is why a pod on its node cannot use a claim, or nothing.
func unusable(claim *resourcev1.ResourceClaim, pod *v1.Pod, reaches func(pool, node string) bool) string {
	if claim == nil {
		return "does not exist"
	}
	results := allocated(claim)
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
			return "has " + device(&result)
		}
		var missing []string
		for _, condition := range result.BindingConditions {
			if !met(claim, &result, condition) {
				missing = append(missing, condition)
			}
		}
		if len(missing) > 0 {
			return "has " + device(&result) + " without " + strings.Join(missing, ", ")
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

// TestHistoryFindsWhatIsWrong plays versions of claims and pods, in short: "3 c gpu-0 p" is revision 3, in which claim c has device gpu-0 and is reserved for pod
// p; "4 c -" is its end; "5 p" binds pod p, which uses claim c.
func TestHistoryFindsWhatIsWrong(t *testing.T) {
	for _, test := range []struct {
		versions, want string
	}{
		{"1 c gpu-0 p,2 p", ""},
		{"1 c gpu-0 p,2 d gpu-1 q", ""},
		{"1 c gpu-0 p,2 d gpu-0 q", "revision 2: claim d gets d.example/n/gpu-0, which claim c has"},
		{"1 c gpu-0 p,2 c,3 d gpu-0 q", ""},
		{"1 c gpu-0 p,2 c gpu-0 p,3 c -,4 d gpu-0 q", ""},
		{"1 c gpu-0 p,2 c gpu-1 p,3 d gpu-0 q", ""},
		{"1 c,2 p", `revision 2: pod p was bound to n, and its claim "c" has no devices`},
		{"2 p,3 c gpu-0 p", `revision 2: pod p was bound to n, and its claim "c" does not exist`},
		{"1 c gpu-0 p,2 c -,3 p", `revision 3: pod p was bound to n, and its claim "c" does not exist`},
		{"1 c gpu-0 q,2 p", `revision 2: pod p was bound to n, and its claim "c" is not reserved for the pod`},
		{"1 c far/gpu-0 p,2 p", `revision 2: pod p was bound to n, and its claim "c" has d.example/far/gpu-0`},
		{"1 c gpu-0?attached p,2 p", `revision 2: pod p was bound to n, and its claim "c" has d.example/n/gpu-0 without attached`},
		{"1 c gpu-0?attached p,2 p,3 c gpu-0!attached p", `revision 2: pod p was bound to n, and its claim "c" has d.example/n/gpu-0 without attached`},
		{"1 c gpu-0!attached p,2 p,3 p", ""},
	} {
		h := &history{placed: map[types.UID]bool{}, newest: map[types.UID]uint64{}}
		for version := range strings.SplitSeq(test.versions, ",") {
			h.see(played(strings.Fields(version)))
		}
		wrong := append(h.usedTwice(), h.boundTooEarly(func(pool, node string) bool { return pool == node })...)
		if got := strings.Join(wrong, "; "); got != test.want || h.failure() != nil {
			t.Errorf("%s: got %q, want %q; %v", test.versions, got, test.want, h.failure())
		}
	}
}

// played makes an event of a version; "?" stands before a binding condition that is not met, "!" before one that is.
func played(fields []string) watch.Event {
	meta := metav1.ObjectMeta{Name: fields[1], UID: types.UID(fields[1]), ResourceVersion: fields[0]}
	if fields[1] == "p" {
		return watch.Event{Type: watch.Modified, Object: &v1.Pod{ObjectMeta: meta, Spec: v1.PodSpec{
			NodeName: "n", ResourceClaims: []v1.PodResourceClaim{named("c")},
		}}}
	}
	claim := &resourcev1.ResourceClaim{ObjectMeta: meta}
	if len(fields) == 3 {
		return watch.Event{Type: watch.Deleted, Object: claim}
	}
	if len(fields) == 4 {
		r := resourcev1.DeviceRequestAllocationResult{Driver: "d.example", Pool: "n", Device: fields[2]}
		if pool, device, ok := strings.Cut(r.Device, "/"); ok {
			r.Pool, r.Device = pool, device
		}
		for _, mark := range []string{"?", "!"} {
			device, condition, ok := strings.Cut(r.Device, mark)
			if !ok {
				continue
			}
			r.Device, r.BindingConditions = device, []string{condition}
			if mark == "!" {
				claim.Status.Devices = []resourcev1.AllocatedDeviceStatus{{
					Driver: r.Driver, Pool: r.Pool, Device: r.Device, Conditions: []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue}},
				}}
			}
		}
		claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{r}}}
		claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: fields[3], UID: types.UID(fields[3])}}
	}
	return watch.Event{Type: watch.Modified, Object: claim}
}
