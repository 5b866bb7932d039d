package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Claims are retried after retryMin if a write failed, with doubled delays up to
// retryMax.
const (
	retryMin = 10 * time.Millisecond
	retryMax = 5 * time.Second
)

// verdict is the outcome for an allocated device with binding conditions.
type verdict string

const (
	attach verdict = ""     // its conditions become true
	hold   verdict = "hold" // no change until the annotation changes
	fail   verdict = "fail" // its failure conditions become true
)

// binder sets the binding conditions of the driver's devices, like a controller that
// attaches devices to nodes over a fabric. Of a claim it writes only the devices' status.
type binder struct {
	options  *options
	client   kubernetes.Interface
	nodes    corelisters.NodeLister
	informer cache.SharedIndexInformer
	claims   resourcelisters.ResourceClaimLister
	queue    workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

func newBinder(o *options, client kubernetes.Interface, nodes corelisters.NodeLister) *binder {
	informer := resourceinformers.NewResourceClaimInformer(client, metav1.NamespaceAll, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	return &binder{
		options: o, client: client, nodes: nodes, informer: informer, claims: resourcelisters.NewResourceClaimLister(informer.GetIndexer()),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](retryMin, retryMax)),
	}
}

// nodeSeen checks all claims again when a node's annotation for its devices has changed.
func (b *binder) nodeSeen(before, now *v1.Node) {
	annotation := b.options.attachAnnotation()
	if before != nil && now != nil && before.Annotations[annotation] == now.Annotations[annotation] {
		return
	}
	claims, err := b.claims.List(labels.Everything())
	if err != nil { // a cache returns no errors
		return
	}
	for _, claim := range claims {
		b.claimSeen(claim)
	}
}

func (b *binder) claimSeen(claim *resourcev1.ResourceClaim) {
	if claim.Status.Allocation != nil && slices.ContainsFunc(claim.Status.Allocation.Devices.Results, b.options.binds) {
		b.queue.Add(cache.MetaObjectToName(claim))
	}
}

// run sets conditions until the context ends; stop ends the program.
func (b *binder) run(ctx context.Context, stop context.CancelCauseFunc) {
	_, err := b.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { b.claimSeen(now.(*resourcev1.ResourceClaim)) },
		UpdateFunc: func(_, now any) { b.claimSeen(now.(*resourcev1.ResourceClaim)) },
	})
	if err != nil {
		stop(fmt.Errorf("watch claims: %w", err))
		return
	}
	var goroutines sync.WaitGroup
	defer goroutines.Wait()
	goroutines.Go(func() { b.informer.RunWithContext(ctx) })
	for range writers {
		goroutines.Go(func() { b.work(ctx) })
	}
	<-ctx.Done()
	b.queue.ShutDown()
}

func (b *binder) work(ctx context.Context) {
	for {
		name, stopped := b.queue.Get()
		if stopped {
			return
		}
		later, err := b.answer(ctx, name)
		switch {
		case err != nil && ctx.Err() == nil:
			// another writer has changed the claim, and the next version will come
			if !apierrors.IsConflict(err) {
				fmt.Fprintf(os.Stderr, "driver: tried again: %v\n", err)
			}
			b.queue.AddRateLimited(name)
		case later > 0:
			b.queue.AddAfter(name, later)
			fallthrough
		default:
			b.queue.Forget(name)
		}
		b.queue.Done(name)
	}
}

// answer writes a claim's due conditions, or returns the time until they are due.
func (b *binder) answer(ctx context.Context, name cache.ObjectName) (later time.Duration, err error) {
	claim, err := b.claims.ResourceClaims(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look up claim %s: %w", name, err)
	}
	answered, later := b.options.answered(claim, b.verdict, time.Now())
	if answered == nil {
		return later, nil
	}
	_, err = b.client.ResourceV1().ResourceClaims(name.Namespace).UpdateStatus(ctx, answered, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("answer the binding conditions of claim %s: %w", name, err)
	}
	return 0, nil
}

// verdict returns the verdict of a pool's nodes on a device.
func (b *binder) verdict(pool, device string) verdict {
	if b.options.sharedPool == "" {
		node, err := b.nodes.Get(pool)
		if err != nil { // it is gone
			return hold
		}
		return b.options.verdict(node, device)
	}
	nodes, err := b.nodes.List(labels.Everything())
	if err != nil { // a cache returns no errors
		return hold
	}
	worst := attach
	for _, node := range nodes {
		switch v := b.options.verdict(node, device); {
		case v == fail:
			return fail
		case v == hold:
			worst = hold
		}
	}
	return worst
}

// verdict returns the verdict of a node's annotation on a device. The device's own entry
// precedes the entry for all. An unknown value is hold, so a misspelt annotation is
// visible.
func (o *options) verdict(node *v1.Node, device string) verdict {
	found := attach
	for name, value := range entries(node.Annotations[o.attachAnnotation()]) {
		v := verdict(value)
		if v != fail {
			v = hold
		}
		switch name {
		case device:
			return v
		case all:
			found = v
		}
	}
	return found
}

// binds reports whether a device of an allocation belongs to the driver and has binding
// conditions.
func (o *options) binds(r resourcev1.DeviceRequestAllocationResult) bool {
	return r.Driver == o.driver && len(r.BindingConditions) > 0
}

// answered returns a copy of a claim with conditions on devices that have none yet, or
// nil if none are due. Conditions stay until another writer removes the allocation.
func (o *options) answered(claim *resourcev1.ResourceClaim, verdictOf func(pool, device string) verdict, now time.Time) (changed *resourcev1.ResourceClaim, later time.Duration) {
	allocation := claim.Status.Allocation
	if allocation == nil {
		return nil, 0
	}
	if at := allocation.AllocationTimestamp; at != nil && o.bindingDelay > 0 {
		if wait := at.Add(o.bindingDelay).Sub(now); wait > 0 {
			return nil, wait
		}
	}
	for _, result := range allocation.Devices.Results {
		if !o.binds(result) {
			continue
		}
		conditions := result.BindingConditions
		switch verdictOf(result.Pool, result.Device) {
		case hold:
			continue
		case fail:
			conditions = result.BindingFailureConditions
		}
		if of := statusOf(claim, &result); of != nil && len(of.Conditions) > 0 {
			continue
		}
		if changed == nil {
			changed = claim.DeepCopy()
		}
		of := statusOf(changed, &result)
		if of == nil {
			changed.Status.Devices = append(changed.Status.Devices, resourcev1.AllocatedDeviceStatus{
				Driver: result.Driver, Pool: result.Pool, Device: result.Device, ShareID: (*string)(result.ShareID),
			})
			of = &changed.Status.Devices[len(changed.Status.Devices)-1]
		}
		for _, kind := range conditions {
			of.Conditions = append(of.Conditions, metav1.Condition{
				Type: kind, Status: metav1.ConditionTrue, Reason: "Imaginary", Message: "as the annotations of its nodes say", LastTransitionTime: metav1.NewTime(now),
			})
		}
	}
	return changed, 0
}

// statusOf returns the status of a device in a claim, or nil.
func statusOf(claim *resourcev1.ResourceClaim, r *resourcev1.DeviceRequestAllocationResult) *resourcev1.AllocatedDeviceStatus {
	for i := range claim.Status.Devices {
		d := &claim.Status.Devices[i]
		same := d.ShareID == nil && r.ShareID == nil || d.ShareID != nil && r.ShareID != nil && *d.ShareID == string(*r.ShareID)
		if same && d.Driver == r.Driver && d.Pool == r.Pool && d.Device == r.Device {
			return d
		}
	}
	return nil
}
