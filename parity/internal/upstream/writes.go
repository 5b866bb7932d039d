//go:build !release138

package upstream

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	resourceclient "k8s.io/client-go/kubernetes/typed/resource/v1"
	schedulingclient "k8s.io/client-go/kubernetes/typed/scheduling/v1beta1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
)

// writes records the writes of a Loop. Nothing is stored: patches are kept for the turn,
// and bindings wait until they are answered.
type writes struct {
	kubernetes.Interface
	mu       sync.Mutex
	notes    map[string][]string // texts of events, by namespace/name of the pod
	patches  map[string][][]byte // of a pod's status, by namespace/name
	groups   map[string][][]byte // of a PodGroup's status, by namespace/name
	bindings map[types.UID]*binding
	ended    map[types.UID]bool // pods whose failure is handled
	news     chan struct{}      // signals changes of bindings or ended
	refused  error              // an unexpected request
	// evicted are the deleted pods, freed the claims that lost an allocation or a
	// reservation, and claims the other written claims, by namespace/name.
	evicted, freed []string
	claims         map[string]*resourcev1.ResourceClaim
	// claim returns the last delivered version of a claim, or nil.
	claim func(namespace, name string) *resourcev1.ResourceClaim
}

// binding is a request for a binding, which waits for its answer.
type binding struct {
	nodeName string
	answer   chan error
}

func newWrites(unused kubernetes.Interface) *writes {
	w := &writes{Interface: unused, bindings: map[types.UID]*binding{}, ended: map[types.UID]bool{}, news: make(chan struct{}, 1)}
	w.begin()
	return w
}

// begin clears the record.
func (w *writes) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes, w.patches, w.groups = map[string][]string{}, map[string][][]byte{}, map[string][][]byte{}
	w.evicted, w.freed, w.claims = nil, nil, map[string]*resourcev1.ResourceClaim{}
}

// note keeps the text of an event.
func (w *writes) note(object runtime.Object, text string) {
	pod, ok := object.(*v1.Pod)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	of := pod.Namespace + "/" + pod.Name
	w.notes[of] = append(w.notes[of], text)
}

func (w *writes) refuse(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refused == nil {
		w.refused = err
	}
	return err
}

// change makes a change and wakes await.
func (w *writes) change(do func()) {
	w.mu.Lock()
	do()
	w.mu.Unlock()
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// await waits until the condition holds. It returns false after patience.
func (w *writes) await(holds func() bool) bool {
	late := time.After(patience)
	for {
		w.mu.Lock()
		ok := holds()
		w.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-w.news:
		case <-late:
			return false
		}
	}
}

// answer ends a binding and reports whether it was pending.
func (w *writes) answer(pod types.UID, err error) bool {
	w.mu.Lock()
	b := w.bindings[pod]
	delete(w.bindings, pod)
	delete(w.ended, pod)
	w.mu.Unlock()
	if b != nil {
		b.answer <- err
	}
	return b != nil
}

// CoreV1 returns the client that binds and patches pods.
func (w *writes) CoreV1() corev1.CoreV1Interface { return coreWrites{w.Interface.CoreV1(), w} }

type coreWrites struct {
	corev1.CoreV1Interface
	to *writes
}

// Pods returns a client whose Bind waits, and whose Patch keeps the patch.
func (c coreWrites) Pods(namespace string) corev1.PodInterface {
	return podWrites{c.CoreV1Interface.Pods(namespace), c.to, namespace}
}

type podWrites struct {
	corev1.PodInterface
	to        *writes
	namespace string
}

// Bind waits until the binding is answered.
func (p podWrites) Bind(ctx context.Context, b *v1.Binding, _ metav1.CreateOptions) error {
	sent := &binding{b.Target.Name, make(chan error, 1)}
	p.to.change(func() { p.to.bindings[b.UID] = sent })
	select {
	case err := <-sent.answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Patch keeps a patch of the status.
func (p podWrites) Patch(_ context.Context, of string, kind types.PatchType, data []byte, _ metav1.PatchOptions, sub ...string) (*v1.Pod, error) {
	if kind != types.StrategicMergePatchType || len(sub) != 1 || sub[0] != "status" {
		return nil, p.to.refuse("the patch of pod %s/%s is a %s of %q", p.namespace, of, kind, sub)
	}
	p.to.mu.Lock()
	defer p.to.mu.Unlock()
	p.to.patches[p.namespace+"/"+of] = append(p.to.patches[p.namespace+"/"+of], data)
	return &v1.Pod{}, nil
}

// Delete records an evicted pod.
func (p podWrites) Delete(_ context.Context, of string, _ metav1.DeleteOptions) error {
	p.to.mu.Lock()
	defer p.to.mu.Unlock()
	p.to.evicted = append(p.to.evicted, p.namespace+"/"+of)
	return nil
}

// ResourceV1 returns the client that writes claims.
func (w *writes) ResourceV1() resourceclient.ResourceV1Interface {
	return resourceWrites{w.Interface.ResourceV1(), w}
}

type resourceWrites struct {
	resourceclient.ResourceV1Interface
	to *writes
}

// ResourceClaims returns a client that records writes. Every write counts as stored,
// without conflicts.
func (r resourceWrites) ResourceClaims(namespace string) resourceclient.ResourceClaimInterface {
	return claimWrites{r.ResourceV1Interface.ResourceClaims(namespace), r.to, namespace}
}

type claimWrites struct {
	resourceclient.ResourceClaimInterface
	to        *writes
	namespace string
}

// Update accepts a claim unchanged.
func (c claimWrites) Update(_ context.Context, claim *resourcev1.ResourceClaim, _ metav1.UpdateOptions) (*resourcev1.ResourceClaim, error) {
	return claim.DeepCopy(), nil
}

// UpdateStatus records a claim that is allocated or reserved, or released if it was
// before.
func (c claimWrites) UpdateStatus(_ context.Context, claim *resourcev1.ResourceClaim, _ metav1.UpdateOptions) (*resourcev1.ResourceClaim, error) {
	of := claim.Namespace + "/" + claim.Name
	stored := c.to.claim(claim.Namespace, claim.Name)
	c.to.mu.Lock()
	defer c.to.mu.Unlock()
	switch {
	case claim.Status.Allocation != nil:
		c.to.claims[of] = claim.DeepCopy()
	case stored != nil && stored.Status.Allocation != nil:
		c.to.freed = append(c.to.freed, of)
	}
	return claim.DeepCopy(), nil
}

// Patch records the end of a claim's reservation.
func (c claimWrites) Patch(_ context.Context, of string, kind types.PatchType, _ []byte, _ metav1.PatchOptions, sub ...string) (*resourcev1.ResourceClaim, error) {
	stored := c.to.claim(c.namespace, of)
	if kind != types.StrategicMergePatchType || len(sub) != 1 || sub[0] != "status" || stored == nil {
		return nil, c.to.refuse("the patch of claim %s/%s is a %s of %q", c.namespace, of, kind, sub)
	}
	c.to.mu.Lock()
	defer c.to.mu.Unlock()
	c.to.freed = append(c.to.freed, c.namespace+"/"+of)
	return stored.DeepCopy(), nil
}

// SchedulingV1beta1 returns the client that patches PodGroups.
func (w *writes) SchedulingV1beta1() schedulingclient.SchedulingV1beta1Interface {
	return schedulingWrites{w.Interface.SchedulingV1beta1(), w}
}

type schedulingWrites struct {
	schedulingclient.SchedulingV1beta1Interface
	to *writes
}

// PodGroups returns a client whose Patch keeps the patch.
func (s schedulingWrites) PodGroups(namespace string) schedulingclient.PodGroupInterface {
	return groupWrites{s.SchedulingV1beta1Interface.PodGroups(namespace), s.to, namespace}
}

type groupWrites struct {
	schedulingclient.PodGroupInterface
	to        *writes
	namespace string
}

// Patch keeps a patch of the status.
func (g groupWrites) Patch(_ context.Context, of string, kind types.PatchType, data []byte, _ metav1.PatchOptions, sub ...string) (*schedulingv1beta1.PodGroup, error) {
	if kind != types.StrategicMergePatchType || len(sub) != 1 || sub[0] != "status" {
		return nil, g.to.refuse("the patch of pod group %s/%s is a %s of %q", g.namespace, of, kind, sub)
	}
	g.to.mu.Lock()
	defer g.to.mu.Unlock()
	g.to.groups[g.namespace+"/"+of] = append(g.to.groups[g.namespace+"/"+of], data)
	return &schedulingv1beta1.PodGroup{}, nil
}

// noted is a recorder that keeps the texts of events.
type noted struct{ to *writes }

var _ events.EventRecorderLogger = noted{}

// Eventf keeps the text.
func (n noted) Eventf(regarding, _ runtime.Object, _, _, _, note string, args ...any) {
	n.to.note(regarding, fmt.Sprintf(note, args...))
}

// WithLogger returns the recorder.
func (n noted) WithLogger(klog.Logger) events.EventRecorderLogger { return n }

// patience limits the wait for kube-scheduler's goroutines, which normally take
// microseconds.
const patience = 20 * time.Second

var silent = logr.Discard()
