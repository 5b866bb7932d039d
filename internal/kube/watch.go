package kube

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/kit/quietlog"
	"github.com/berth-scheduler/berth/internal/model"
)

// unfinished selects pods that have not run to their end; the others use no resources. A
// pod that ends looks like a deleted pod.
const unfinished = "status.phase!=" + string(v1.PodSucceeded) + ",status.phase!=" + string(v1.PodFailed)

// Watch keeps a sink up to date with the cluster's objects of the kinds that scheduling
// reads.
type Watch struct {
	factory   informers.SharedInformerFactory
	shared    bool                                       // others use the factory, too
	informers [model.KindCount]cache.SharedIndexInformer // nil for kinds that are not watched
	flush     func()                                     // logs how many messages were suppressed
	// synced are of kinds that every API server serves, and of other resources.
	synced   []cache.InformerSynced
	optional map[model.Kind]cache.InformerSynced
	client   *Client
	handlers [model.KindCount]*Handler
	listed   [model.KindCount]cache.InformerSynced // nil for kinds that are not watched
	others   []cache.SharedIndexInformer           // of custom resources
	running  sync.WaitGroup
}

// WatchOption extends a Watch beyond the kinds that scheduling reads.
type WatchOption func(*watchOptions)

type watchOptions struct {
	whole   bool
	factory informers.SharedInformerFactory
	others  []string
	raise   Raiser
}

// Whole keeps objects whole except for their managedFields, for out-of-tree plugins and
// extenders.
func Whole() WatchOption { return func(o *watchOptions) { o.whole = true } }

// Through uses the result of Informers. Others share these informers and may have started
// them; their creator waits for their end.
func Through(factory informers.SharedInformerFactory) WatchOption {
	return func(o *watchOptions) { o.factory = factory }
}

// Informers returns informers of whole objects for out-of-tree plugins, and for Through.
// A Watch and the plugins then share each object in memory. The informer of pods has only
// unfinished pods, and no index by namespace.
func Informers(client *Client, name *cache.InformerName) informers.SharedInformerFactory {
	factory := newInformers(client, true, name)
	factory.InformerFor(&v1.Pod{}, podInformer(name))
	return factory
}

// NewWatch prepares a watch of each kind in reads. Finished pods are not watched. The
// name is a label of the watches' metrics; without a name they have none. It sends
// nothing before Start.
func NewWatch(client *Client, sink Sink, reads []model.Kind, name *cache.InformerName, options ...WatchOption) (*Watch, error) {
	var o watchOptions
	for _, option := range options {
		option(&o)
	}
	shared := o.factory != nil
	if !shared {
		o.factory = newInformers(client, o.whole, name)
	}
	w := &Watch{factory: o.factory, shared: shared, flush: func() {}, client: client, optional: map[model.Kind]cache.InformerSynced{}}
	if err := w.watchOthers(client, &o); err != nil {
		return nil, err
	}
	if shared { // the creator of the informers waits for all lists
		missing := unserved(client, slices.DeleteFunc(slices.Clone(reads), func(kind model.Kind) bool { return !isOptional(kind) }), klog.Background())
		reads = slices.DeleteFunc(slices.Clone(reads), func(kind model.Kind) bool { return slices.Contains(missing, kind) })
	}
	for _, kind := range reads {
		row := kinds.Get(kind)
		informer, err := w.informer(row, name)
		if err != nil {
			return nil, fmt.Errorf("set up the watch of %s: %w", row.Resource.Resource, err)
		}
		w.handlers[kind] = NewHandler(kind, sink)
		registration, err := informer.AddEventHandler(w.handlers[kind])
		if err != nil {
			return nil, fmt.Errorf("set up the watch of %s: %w", row.Resource.Resource, err)
		}
		w.informers[kind], w.listed[kind] = informer, registration.HasSynced
		if isOptional(kind) {
			w.optional[kind] = registration.HasSynced
		} else {
			w.synced = append(w.synced, registration.HasSynced)
		}
	}
	return w, nil
}

// informer returns the informer of a kind.
func (w *Watch) informer(row *kinds.Row, name *cache.InformerName) (cache.SharedIndexInformer, error) {
	if row.Kind == model.PodKind {
		return w.factory.InformerFor(&v1.Pod{}, podInformer(name)), nil
	}
	generic, err := w.factory.ForResource(row.Resource)
	if err != nil {
		return nil, err
	}
	return generic.Informer(), nil
}

// newInformers returns a factory whose informers have their transform from the beginning.
// Others may start them before a watch needs them, and then it could no longer be set.
func newInformers(client *Client, whole bool, name *cache.InformerName) (factory informers.SharedInformerFactory) {
	var stores [model.KindCount]func() cache.Store // available once the factory has built the informers
	for kind := range stores {
		stores[kind] = sync.OnceValue(func() cache.Store {
			generic, err := factory.ForResource(kinds.Get(model.Kind(kind)).Resource)
			if err != nil { // impossible: only such an informer calls this
				return cache.NewStore(cache.MetaNamespaceKeyFunc)
			}
			return generic.Informer().GetStore()
		})
	}
	transform := func(object any) (any, error) {
		decoded, ok := object.(kinds.Object)
		if !ok {
			return object, nil
		}
		row := kinds.Of(decoded)
		if row == nil {
			return object, nil
		}
		return Held(row, stores[row.Kind](), decoded)
	}
	return informers.NewSharedInformerFactoryWithOptions(client.watches(whole), 0, informers.WithInformerName(name), informers.WithTransform(transform))
}

// podInformer returns an informer without an index by namespace, which is not used and
// would cost memory for each pod.
func podInformer(name *cache.InformerName) internalinterfaces.NewInformerFunc {
	return func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return coreinformers.NewPodInformerWithOptions(client, metav1.NamespaceAll, internalinterfaces.InformerOptions{
			ResyncPeriod:     resync,
			Indexers:         cache.Indexers{},
			InformerName:     name,
			TweakListOptions: func(options *metav1.ListOptions) { options.FieldSelector = unfinished },
		})
	}
}

// Start starts the watches. They end with the context; Stop waits for them.
func (w *Watch) Start(ctx context.Context) {
	// Each watch logs its own errors while the API server is unreachable.
	log, flush := quietlog.Logger(klog.FromContext(ctx))
	w.flush = flush
	ctx = klog.NewContext(ctx, log)
	w.factory.StartWithContext(ctx)
	for _, informer := range w.others {
		w.running.Go(func() { informer.RunWithContext(ctx) })
	}
}

// maxStop bounds the wait for the end of watches. While the API server refuses
// connections, a reflector of client-go v0.37 sleeps between two tries without looking at
// its context, for up to a minute: longer than the kubelet leaves a pod to end.
const maxStop = time.Second

// Stop waits until the watches have ended, or for maxStop. Their context must have ended
// before.
func (w *Watch) Stop() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if !w.shared {
			w.factory.Shutdown()
		}
		w.running.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(maxStop):
	}
	w.flush()
}

// Counts is the number of objects in the sink.
type Counts struct{ Pods, Nodes, Others int }

// Counts returns the current numbers.
func (w *Watch) Counts() Counts {
	var counts Counts
	for kind, handler := range w.handlers {
		if handler == nil {
			continue
		}
		n := handler.Count()
		switch model.Kind(kind) {
		case model.PodKind:
			counts.Pods = n
		case model.NodeKind:
			counts.Nodes = n
		default:
			counts.Others += n
		}
	}
	return counts
}

// Sync waits until the sink has every object of the first lists. It does not wait for
// optional kinds that the API server does not serve.
func (w *Watch) Sync(ctx context.Context) error {
	synced := w.await(ctx, w.synced, w.required())
	if synced && len(w.optional) > 0 {
		served := w.served(ctx)
		var listed []cache.InformerSynced
		for _, kind := range served {
			listed = append(listed, w.optional[kind])
		}
		synced = w.await(ctx, listed, served)
	}
	if !synced {
		return fmt.Errorf("wait for the first list of the cluster's objects: %w", context.Cause(ctx))
	}
	return nil
}
