package kube

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/terse"
)

// Sink takes in what the watches show. Its methods are called by one goroutine for each kind of object.
type Sink interface {
	SetPod(object *v1.Pod)
	RemovePod(namespace, name string)
	SetNode(object *v1.Node)
	RemoveNode(name string)
	// SetObject and RemoveObject are about namespaces, services and controllers of pods.
	SetObject(object runtime.Object)
	RemoveObject(ref model.Ref)
}

// Reads says what the scheduler's configuration reads besides pods, nodes and namespaces.
type Reads struct {
	// Owners are services, replication controllers, replica sets and stateful sets, which say which pods belong together.
	Owners bool
	// Name is what metrics of the watches bear; without one there are none.
	Name *cache.InformerName
}

// unfinished leaves out pods that have run to their end: they occupy nothing. One that ends looks like one that is deleted.
const unfinished = "status.phase!=" + string(v1.PodSucceeded) + ",status.phase!=" + string(v1.PodFailed)

// Watch keeps a sink up to date with the cluster's pods and nodes, and with the other objects that scheduling reads.
type Watch struct {
	factory     informers.SharedInformerFactory
	podInformer cache.SharedIndexInformer
	flush       func() // has the log say what it held back
	synced      []cache.InformerSynced
	pods        atomic.Int64
	nodes       atomic.Int64
	others      atomic.Int64
}

// NewWatch prepares watches of all pods that have not finished, all nodes, all namespaces, and what else is read. Nothing is sent
// before Start.
func NewWatch(client *Client, sink Sink, reads Reads) (*Watch, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(Trim()), informers.WithInformerName(reads.Name))
	w := &Watch{factory: factory, flush: func() {}}
	pods := w.factory.InformerFor(&v1.Pod{}, podInformer(client.pods, reads.Name))
	w.podInformer = pods
	// Pods come trimmed, and share what trimming again would write.
	if err := pods.SetTransform(nil); err != nil {
		return nil, fmt.Errorf("set up the watch of pods: %w", err)
	}
	kinds := []kind{
		{"pods", pods, objects(&w.pods, sameVersion, sink.SetPod, func(p *v1.Pod) { sink.RemovePod(p.Namespace, p.Name) })},
		{"nodes", w.factory.Core().V1().Nodes().Informer(),
			objects(&w.nodes, sameVersion, sink.SetNode, func(n *v1.Node) { sink.RemoveNode(n.Name) })},
		{"namespaces", w.factory.Core().V1().Namespaces().Informer(), others(w, sink, func(n *v1.Namespace) any { return n.Labels })},
	}
	if reads.Owners {
		kinds = append(kinds, w.owners(sink)...)
	}
	for _, k := range kinds {
		registration, err := k.informer.AddEventHandler(k.handler)
		if err != nil {
			return nil, fmt.Errorf("set up the watch of %s: %w", k.name, err)
		}
		w.synced = append(w.synced, registration.HasSynced)
	}
	return w, nil
}

// kind is one kind of object that is watched.
type kind struct {
	name     string
	informer cache.SharedIndexInformer
	handler  cache.ResourceEventHandler
}

// owners are the kinds that say which pods belong together.
func (w *Watch) owners(sink Sink) []kind {
	core, apps := w.factory.Core().V1(), w.factory.Apps().V1()
	return []kind{
		{"services", core.Services().Informer(), others(w, sink, func(s *v1.Service) any { return s.Spec.Selector })},
		{"replicationcontrollers", core.ReplicationControllers().Informer(),
			others(w, sink, func(c *v1.ReplicationController) any { return c.Spec.Selector })},
		{"replicasets", apps.ReplicaSets().Informer(), others(w, sink, func(r *appsv1.ReplicaSet) any { return r.Spec.Selector })},
		{"statefulsets", apps.StatefulSets().Informer(), others(w, sink, func(s *appsv1.StatefulSet) any { return s.Spec.Selector })},
	}
}

// podInformer makes an informer without an index by namespace: nobody lists by it, and it would cost memory for each pod.
func podInformer(pods kubernetes.Interface, name *cache.InformerName) internalinterfaces.NewInformerFunc {
	return func(_ kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return coreinformers.NewPodInformerWithOptions(pods, metav1.NamespaceAll, internalinterfaces.InformerOptions{
			ResyncPeriod:     resync,
			Indexers:         cache.Indexers{},
			InformerName:     name,
			TweakListOptions: func(options *metav1.ListOptions) { options.FieldSelector = unfinished },
		})
	}
}

// Start begins to watch. The watches end with the context; Stop waits for them.
func (w *Watch) Start(ctx context.Context) {
	log, flush := terse.Logger(klog.FromContext(ctx)) // each watch complains by itself while the API server is away
	w.flush = flush
	w.factory.StartWithContext(klog.NewContext(ctx, log))
}

// Stop waits until the watches, whose context must have ended, have come to an end.
func (w *Watch) Stop() {
	w.factory.Shutdown()
	w.flush()
}

// Counts says how many objects the sink has been shown and not been told to remove.
type Counts struct{ Pods, Nodes, Others int }

// Counts returns the numbers at this moment.
func (w *Watch) Counts() Counts {
	return Counts{Pods: int(w.pods.Load()), Nodes: int(w.nodes.Load()), Others: int(w.others.Load())}
}

// Sync waits until the sink has been shown everything that was there in the beginning.
func (w *Watch) Sync(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), w.synced...) {
		return fmt.Errorf("wait for the first list of the cluster's objects: %w", context.Cause(ctx))
	}
	return nil
}

// sameVersion reports whether two versions of an object are one: a list after a broken watch shows again what is known already.
func sameVersion[T metav1.Object](before, after T) bool {
	return before.GetResourceVersion() == after.GetResourceVersion()
}

// others hands objects on that are neither pods nor nodes. Of these read gives what scheduling reads: versions in which that is the
// same are kept back, for a controller's status changes with every pod of its own.
func others[T interface {
	metav1.Object
	runtime.Object
}](w *Watch, sink Sink, read func(T) any) cache.ResourceEventHandler {
	same := func(before, after T) bool { return equality.Semantic.DeepEqual(read(before), read(after)) }
	return objects(&w.others, same, func(o T) { sink.SetObject(o) }, func(o T) {
		if ref, ok := model.RefOf(o); ok {
			sink.RemoveObject(ref)
		}
	})
}

// objects hands objects of one type on, and counts them. Of two versions that are the same it hands on the first.
func objects[T metav1.Object](count *atomic.Int64, same func(before, after T) bool, set, remove func(T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			count.Add(1)
			set(object.(T))
		},
		UpdateFunc: func(before, after any) {
			if before.(T).GetUID() != after.(T).GetUID() {
				// A watch that broke can miss that an object went and came back under its name. The new one may be none of ours.
				remove(before.(T))
			}
			if !same(before.(T), after.(T)) {
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
