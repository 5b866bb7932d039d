package kube

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Sink takes in what the watches show. Its methods are called by one goroutine for pods and another for nodes.
type Sink interface {
	SetPod(object *v1.Pod)
	RemovePod(namespace, name string)
	SetNode(object *v1.Node)
	RemoveNode(name string)
}

// unfinished leaves out pods that have run to their end: they occupy nothing. One that ends looks like one that is deleted.
const unfinished = "status.phase!=" + string(v1.PodSucceeded) + ",status.phase!=" + string(v1.PodFailed)

// Watch keeps a sink up to date with the cluster's pods and nodes.
type Watch struct {
	factory informers.SharedInformerFactory
	synced  []cache.InformerSynced
	pods    atomic.Int64
	nodes   atomic.Int64
}

// NewWatch prepares watches of all pods that have not finished, and all nodes. Nothing is sent before Start.
func NewWatch(client kubernetes.Interface, sink Sink) (*Watch, error) {
	trim := new(sharing).trim
	w := &Watch{factory: informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trim))}
	pods := w.factory.InformerFor(&v1.Pod{}, newPodInformer)
	nodes := w.factory.Core().V1().Nodes().Informer()
	// A factory hands its transform to informers that it makes itself, but not to those it is given.
	if err := pods.SetTransform(trim); err != nil {
		return nil, fmt.Errorf("set up the watch of pods: %w", err)
	}
	for what, add := range map[string]func() (cache.ResourceEventHandlerRegistration, error){
		"pods": func() (cache.ResourceEventHandlerRegistration, error) {
			return pods.AddEventHandler(objects(&w.pods, sink.SetPod, func(p *v1.Pod) { sink.RemovePod(p.Namespace, p.Name) }))
		},
		"nodes": func() (cache.ResourceEventHandlerRegistration, error) {
			return nodes.AddEventHandler(objects(&w.nodes, sink.SetNode, func(n *v1.Node) { sink.RemoveNode(n.Name) }))
		},
	} {
		registration, err := add()
		if err != nil {
			return nil, fmt.Errorf("set up the watch of %s: %w", what, err)
		}
		w.synced = append(w.synced, registration.HasSynced)
	}
	return w, nil
}

// newPodInformer has no index by namespace: nobody lists by it, and it would cost memory for each pod.
func newPodInformer(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
	return coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, resync, cache.Indexers{},
		func(options *metav1.ListOptions) { options.FieldSelector = unfinished })
}

// Start begins to watch. The watches end with the context; Stop waits for them.
func (w *Watch) Start(ctx context.Context) { w.factory.StartWithContext(ctx) }

// Stop waits until the watches, whose context must have ended, have come to an end.
func (w *Watch) Stop() { w.factory.Shutdown() }

// Counts says how many objects the sink has been shown and not been told to remove.
type Counts struct{ Pods, Nodes int }

// Counts returns the numbers at this moment.
func (w *Watch) Counts() Counts {
	return Counts{Pods: int(w.pods.Load()), Nodes: int(w.nodes.Load())}
}

// Sync waits until the sink has been shown everything that was there in the beginning.
func (w *Watch) Sync(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), w.synced...) {
		return fmt.Errorf("wait for the first list of pods and nodes: %w", context.Cause(ctx))
	}
	return nil
}

// objects hands objects of one type on, and counts them.
func objects[T metav1.Object](count *atomic.Int64, set, remove func(T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			count.Add(1)
			set(object.(T))
		},
		UpdateFunc: func(before, after any) {
			// A list after a broken watch shows again what is known already.
			if before.(T).GetResourceVersion() != after.(T).GetResourceVersion() {
				set(after.(T))
			}
		},
		DeleteFunc: func(object any) {
			count.Add(-1)
			// The watch may have missed the deletion; then the last version that is known comes wrapped.
			if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = missed.Obj
			}
			if last, ok := object.(T); ok {
				remove(last)
			}
		},
	}
}
