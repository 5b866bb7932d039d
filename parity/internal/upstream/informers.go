package upstream

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientcache "k8s.io/client-go/tools/cache"
)

// informer receives its objects one by one, and is never started. The plugins read its
// store and add handlers to it, as to any informer. The handlers are called before set
// and remove return, so that results do not depend on goroutine timing.
type informer struct {
	clientcache.SharedIndexInformer
	handlers []clientcache.ResourceEventHandler
}

// budgets is the informer of PodDisruptionBudgets. It lists them by name, and not in the
// order of a hash table, because kube-scheduler counts an eviction against the first of
// several budgets for a pod.
type budgets struct{ *informer }

// GetIndexer returns the store.
func (b budgets) GetIndexer() clientcache.Indexer { return inOrder{b.informer.GetIndexer()} }

type inOrder struct{ clientcache.Indexer }

// List returns the objects in the order of namespaces and names.
func (o inOrder) List() []any {
	all := o.Indexer.List()
	slices.SortFunc(all, func(a, b any) int {
		p, q := a.(metav1.Object), b.(metav1.Object)
		return cmp.Or(cmp.Compare(p.GetNamespace(), q.GetNamespace()), cmp.Compare(p.GetName(), q.GetName()))
	})
	return all
}

// newInformers gives the factory an informer for each kind that plugins read, except
// nodes and pods, and for further kinds. It must be called before a plugin requests one
// from the factory.
func newInformers(factory informers.SharedInformerFactory, more ...runtime.Object) map[reflect.Type]*informer {
	all := map[reflect.Type]*informer{}
	for _, kind := range slices.Concat(more, []runtime.Object{
		&v1.Namespace{}, &v1.Service{}, &v1.ReplicationController{}, &appsv1.ReplicaSet{}, &appsv1.StatefulSet{},
		&v1.PersistentVolume{}, &v1.PersistentVolumeClaim{}, &storagev1.StorageClass{}, &storagev1.CSINode{}, &storagev1.CSIDriver{},
		&storagev1.CSIStorageCapacity{}, &storagev1.VolumeAttachment{}, &policyv1.PodDisruptionBudget{},
		&resourcev1.DeviceClass{}, sliceKind, &resourcev1.DeviceTaintRule{}, &resourcev1.ResourceClaim{},
	}) {
		factory.InformerFor(kind, func(kubernetes.Interface, time.Duration) clientcache.SharedIndexInformer {
			byNamespace := clientcache.Indexers{clientcache.NamespaceIndex: clientcache.MetaNamespaceIndexFunc}
			made := &informer{SharedIndexInformer: clientcache.NewSharedIndexInformer(&clientcache.ListWatch{}, kind, 0, byNamespace)}
			all[reflect.TypeOf(kind)] = made
			if _, ok := kind.(*policyv1.PodDisruptionBudget); ok {
				return budgets{made}
			}
			return made
		})
	}
	return all
}

// AddEventHandler adds a handler, which first receives the objects in the store.
func (i *informer) AddEventHandler(handler clientcache.ResourceEventHandler) (clientcache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, clientcache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler without resyncs.
func (i *informer) AddEventHandlerWithResyncPeriod(handler clientcache.ResourceEventHandler, _ time.Duration) (clientcache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// AddEventHandlerWithOptions adds a handler.
func (i *informer) AddEventHandlerWithOptions(handler clientcache.ResourceEventHandler, options clientcache.HandlerOptions) (clientcache.ResourceEventHandlerRegistration, error) {
	// The informer is never started, so it never calls the handler.
	registration, err := i.SharedIndexInformer.AddEventHandlerWithOptions(handler, options)
	if err != nil {
		return nil, err
	}
	i.handlers = append(i.handlers, handler)
	for _, object := range i.GetStore().List() {
		handler.OnAdd(object, true)
	}
	return registration, nil
}

// set adds or replaces an object. If the UID differs, the old object is deleted first.
func (i *informer) set(object runtime.Object) error {
	old, exists, err := i.GetStore().Get(object)
	if err != nil {
		return err
	}
	if exists && uidOf(old.(runtime.Object)) != uidOf(object) {
		if err := i.remove(object); err != nil {
			return err
		}
		exists = false
	}
	if !exists {
		if err := i.GetStore().Add(object); err != nil {
			return err
		}
		for _, h := range i.handlers {
			h.OnAdd(object, false)
		}
		return nil
	}
	if err := i.GetStore().Update(object); err != nil {
		return err
	}
	for _, h := range i.handlers {
		h.OnUpdate(old, object)
	}
	return nil
}

// remove removes an object if it exists.
func (i *informer) remove(object runtime.Object) error {
	old, exists, err := i.GetStore().Get(object)
	if err != nil || !exists {
		return err
	}
	if err := i.GetStore().Delete(old); err != nil {
		return err
	}
	for _, h := range i.handlers {
		h.OnDelete(old)
	}
	return nil
}

func uidOf(object runtime.Object) string {
	m, err := meta.Accessor(object)
	if err != nil {
		return ""
	}
	return string(m.GetUID())
}
