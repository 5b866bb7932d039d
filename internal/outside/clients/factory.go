package clients

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// factory is a factory of informers whose informer of pods is that of kube-scheduler, made only if a plugin asks for it: all pods of a cluster, whole,
// are most of what a scheduler could hold.
type factory struct {
	informers.SharedInformerFactory
}

func newFactory(client kubernetes.Interface) informers.SharedInformerFactory {
	return factory{informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trim))}
}

// Core returns the core group, whose informers come from this factory.
func (f factory) Core() core.Interface { return core.New(f, metav1.NamespaceAll, nil) }

// InformerFor returns the informer of the object's kind, which newFunc makes if there is none yet and the kind is not that of pods.
func (f factory) InformerFor(object runtime.Object, newFunc internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	if _, ok := object.(*v1.Pod); ok {
		newFunc = newPodInformer
	}
	return f.SharedInformerFactory.InformerFor(object, newFunc)
}

// ForResource returns the informer of a resource.
func (f factory) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	if pods := v1.SchemeGroupVersion.WithResource("pods"); resource == pods {
		informer := f.Core().V1().Pods().Informer()
		return generic{informer, cache.NewGenericLister(informer.GetIndexer(), pods.GroupResource())}, nil
	}
	return f.SharedInformerFactory.ForResource(resource)
}

// newPodInformer makes the informer of pods.
func newPodInformer(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
	informer := coreinformers.NewPodInformerWithOptions(client, metav1.NamespaceAll, internalinterfaces.InformerOptions{
		ResyncPeriod: resync, Indexers: cache.Indexers{}, TweakListOptions: selectUnfinished,
	})
	if err := informer.SetTransform(trim); err != nil {
		panic(err) // it is not started
	}
	return informer
}

// generic is an informer with its lister.
type generic struct {
	informer cache.SharedIndexInformer
	lister   cache.GenericLister
}

// Informer and Lister return the parts.
func (g generic) Informer() cache.SharedIndexInformer { return g.informer }
func (g generic) Lister() cache.GenericLister         { return g.lister }
