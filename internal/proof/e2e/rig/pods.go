package rig

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// CreatePods creates n pods in a namespace, many at a time. shape makes the i-th pod.
func CreatePods(ctx context.Context, client kubernetes.Interface, namespace string, n int, shape func(i int) *v1.Pod) error {
	return InParallel(n, func(i int) error {
		_, err := client.CoreV1().Pods(namespace).Create(ctx, shape(i), metav1.CreateOptions{})
		return err
	})
}

// DeletePods deletes all pods of a namespace without grace periods, many at a time,
// because a single request for many pods would exceed its time limit.
func DeletePods(ctx context.Context, client kubernetes.Interface, namespace string) error {
	return DeletePodsWith(ctx, client, namespace, "")
}

// DeletePodsWith is DeletePods for the pods that match a label selector, in a namespace
// or in all.
func DeletePodsWith(ctx context.Context, client kubernetes.Interface, namespace, selector string) error {
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return fmt.Errorf("list pods to delete: %w", err)
	}
	now := int64(0)
	err = InParallel(len(pods.Items), func(i int) error {
		err := client.CoreV1().Pods(pods.Items[i].Namespace).Delete(ctx, pods.Items[i].Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete pods: %w", err)
	}
	return nil
}

// Refused returns an error if a node has refused a pod. The simulated nodes fail a pod
// for no other reason, so the scheduler should not have bound it there.
func Refused(pod *v1.Pod) error {
	if pod.Status.Phase != v1.PodFailed {
		return nil
	}
	return fmt.Errorf("node %s refused pod %s/%s: %s: %s", pod.Spec.NodeName, pod.Namespace, pod.Name, pod.Status.Reason, pod.Status.Message)
}

// writers is the number of requests in flight, enough to keep a small API server busy.
const writers = 32

// InParallel calls do n times, many at a time, and returns one of the errors, or nil.
func InParallel(n int, do func(i int) error) error {
	var wg sync.WaitGroup
	work := make(chan int)
	errs := make(chan error, writers)
	for range writers {
		wg.Go(func() {
			for i := range work {
				if err := do(i); err != nil {
					select {
					case errs <- err:
					default:
					}
				}
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	wg.Wait()
	close(errs)
	return <-errs
}

// Bindings counts the bound pods of a namespace, or of all, with their times. It watches
// only metadata, which is cheap.
type Bindings struct {
	mu          sync.Mutex
	bound       map[string]time.Time
	names       []string // of bound, in the order of binding
	first, last time.Time
	changed     chan struct{} // closed when the next pod is bound
}

// WatchBindings starts watching the pods of a namespace, or of all for "", that match a
// label selector. It ends with the context.
func (c *Cluster) WatchBindings(ctx context.Context, namespace, selector string) (*Bindings, error) {
	config, err := Config(c.Kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build a metadata client: %w", err)
	}
	b := &Bindings{bound: map[string]time.Time{}, changed: make(chan struct{})}
	informer := metadatainformer.NewFilteredMetadataInformer(client, schema.GroupVersionResource{Version: "v1", Resource: "pods"}, namespace, 0,
		cache.Indexers{}, func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
			o.LabelSelector = selector
		}).Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { b.add(object.(*metav1.PartialObjectMetadata).Name) },
	}); err != nil {
		return nil, fmt.Errorf("watch bindings: %w", err)
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, fmt.Errorf("watch bindings: %w", context.Cause(ctx))
	}
	return b, nil
}

func (b *Bindings) add(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if len(b.bound) == 0 {
		b.first = now
	}
	b.bound[name], b.last = now, now
	b.names = append(b.names, name)
	close(b.changed)
	b.changed = make(chan struct{})
}

// Count returns the number of bound pods, and the times at which the first and the last
// binding were seen.
func (b *Bindings) Count() (n int, first, last time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.bound), b.first, b.last
}

// Times returns the time at which each pod was first seen bound, by name.
func (b *Bindings) Times() map[string]time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.bound)
}

// Await waits until n pods are bound, or until the binder has ended.
func (b *Bindings) Await(ctx context.Context, n int, binder *Process) error {
	for {
		b.mu.Lock()
		have, changed := len(b.bound), b.changed
		b.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-changed:
		case <-binder.Exited():
			return fmt.Errorf("the process that binds ended after %d of %d pods: %w", have, n, binder.failure())
		case <-ctx.Done():
			return fmt.Errorf("wait for %d pods to be bound: %d are: %w", n, have, context.Cause(ctx))
		}
	}
}

// Name returns the name of the pod with the i-th binding, from 0. That binding must
// exist.
func (b *Bindings) Name(i int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.names[i]
}
