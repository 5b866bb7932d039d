package testing

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// api is a clientset with the objects of a simulated cluster. The cluster passes its
// changes to the clientset (Changed, Gone). Sync passes the clients' changes to the
// cluster before its next step.
type api struct {
	ctx       context.Context
	client    *fake.Clientset
	tracker   clienttesting.ObjectTracker
	react     clienttesting.ReactionFunc
	informers informers.SharedInformerFactory

	// Only the test's goroutine uses these.
	sim     *simulate.Cluster
	behind  map[objectName]string // versions that informers may lack; "" for deleted objects
	started bool

	mu     sync.Mutex
	notes  []note
	doomed []string // pods that clients have deleted, in order
}

var _ simulate.Mirror = (*api)(nil)

// objectName is the name of an object in the clientset.
type objectName struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

// note is a client's change of an object, or its deletion of a pod.
type note struct {
	objectName
	terminate bool
}

var podResource = v1.SchemeGroupVersion.WithResource("pods")

func newAPI(ctx context.Context) *api {
	a := &api{ctx: ctx, client: fake.NewClientset(), behind: map[objectName]string{}}
	a.tracker = a.client.Tracker()
	a.react = clienttesting.ObjectReaction(a.tracker)
	a.client.PrependReactor("*", "*", a.write)
	a.client.PrependReactor("delete", "pods", a.deletePod)
	a.client.PrependReactor("create", "pods", a.createPod)
	a.informers = informers.NewSharedInformerFactory(a.client, 0)
	return a
}

func (a *api) join(sim *simulate.Cluster) { a.sim = sim }

// start starts the informers that factories have requested, and waits for their lists.
func (a *api) start() error {
	a.started = true
	clear(a.behind)
	a.informers.StartWithContext(a.ctx)
	ctx, cancel := context.WithTimeout(a.ctx, time.Minute)
	defer cancel()
	for kind, synced := range a.informers.WaitForCacheSyncWithContext(ctx).Synced {
		if !synced {
			return fmt.Errorf("the informer of %v has no list", kind)
		}
	}
	return nil
}

func (a *api) note(n note) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.notes = append(a.notes, n)
}

// deleted returns the pods that clients have deleted so far.
func (a *api) deleted() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.doomed[:len(a.doomed):len(a.doomed)]
}

// write executes a client's write, and records it for the cluster.
func (a *api) write(action clienttesting.Action) (handled bool, object runtime.Object, err error) {
	verb := action.GetVerb()
	if verb == "get" || verb == "list" || verb == "watch" {
		return false, nil, nil
	}
	n := note{objectName: objectName{action.GetResource(), action.GetNamespace(), ""}}
	switch x := action.(type) {
	case interface{ GetName() string }:
		n.name = x.GetName()
	case interface{ GetObject() runtime.Object }:
		if m, err := meta.Accessor(x.GetObject()); err == nil {
			n.name = m.GetName()
		}
	}
	handled, object, err = a.react(action)
	if err == nil {
		if m, failed := meta.Accessor(object); failed == nil && m.GetName() != "" {
			n.name = m.GetName()
		}
		a.note(n)
	}
	return handled, object, err
}

// pod returns a stored pod.
func (a *api) pod(namespace, name string, uid *types.UID) (*v1.Pod, error) {
	object, err := a.tracker.Get(podResource, namespace, name)
	if err != nil {
		return nil, err
	}
	pod := object.(*v1.Pod)
	if uid != nil && *uid != "" && *uid != pod.UID {
		return nil, apierrors.NewConflict(podResource.GroupResource(), name, fmt.Errorf("the UID in the precondition is %s, the pod's is %s", *uid, pod.UID))
	}
	return pod, nil
}

// deletePod begins the deletion of a pod.
func (a *api) deletePod(action clienttesting.Action) (handled bool, object runtime.Object, err error) {
	d := action.(clienttesting.DeleteActionImpl)
	var uid *types.UID
	if p := d.DeleteOptions.Preconditions; p != nil {
		uid = p.UID
	}
	return true, nil, a.terminate(d.GetNamespace(), d.GetName(), uid)
}

func (a *api) terminate(namespace, name string, uid *types.UID) error {
	pod, err := a.pod(namespace, name, uid)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.notes = append(a.notes, note{objectName{podResource, namespace, name}, true})
	if key := namespace + "/" + name; pod.DeletionTimestamp == nil && !slices.Contains(a.doomed, key) {
		a.doomed = append(a.doomed, key)
	}
	return nil
}

// createPod binds and evicts pods. Pods themselves are written like other objects.
func (a *api) createPod(action clienttesting.Action) (handled bool, object runtime.Object, err error) {
	create := action.(clienttesting.CreateAction)
	switch o := create.GetObject().(type) {
	case *v1.Binding:
		pod, err := a.pod(action.GetNamespace(), o.Name, &o.UID)
		switch {
		case err != nil:
			return true, nil, err
		case pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil:
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, o.Name,
				fmt.Errorf("pod %s is already assigned to node %q, or is being deleted", o.Name, pod.Spec.NodeName))
		}
		pod.Spec.NodeName = o.Target.Name
		if err := a.tracker.Update(podResource, pod, pod.Namespace); err != nil {
			return true, nil, err
		}
		a.note(note{objectName: objectName{podResource, pod.Namespace, pod.Name}})
		return true, o, nil
	case *policyv1.Eviction:
		var uid *types.UID
		if o.DeleteOptions != nil && o.DeleteOptions.Preconditions != nil {
			uid = o.DeleteOptions.Preconditions.UID
		}
		return true, o, a.terminate(action.GetNamespace(), o.Name, uid)
	case *v1.Pod:
		if action.GetSubresource() == "" {
			return a.write(clienttesting.NewCreateAction(action.GetResource(), action.GetNamespace(), defaulted(o)))
		}
	}
	return false, nil, nil
}

// Sync applies the clients' changes to the cluster, and waits until the informers are up
// to date.
func (a *api) Sync() {
	a.mu.Lock()
	notes := a.notes
	a.notes = nil
	a.mu.Unlock()
	for _, n := range notes {
		key := model.PodKey{Namespace: n.namespace, Name: n.name}
		if n.terminate {
			a.sim.Terminate(key)
			continue
		}
		a.behind[n.objectName] = "" // the informers must catch up; put sets the version
		object, err := a.tracker.Get(n.resource, n.namespace, n.name)
		if err == nil {
			_ = a.put(object)
			continue
		}
		switch ref, ok := refOf(n.objectName); {
		case !ok:
		case ref.Kind == model.PodKind:
			a.sim.DeletePod(key)
		case ref.Kind == model.NodeKind:
			a.sim.DeleteNode(n.name)
		default:
			a.sim.DeleteObject(ref)
		}
	}
	a.catchUp()
}

// put adds an object to the cluster. A kind that scheduling does not read goes only into
// the clientset.
func (a *api) put(object runtime.Object) error {
	switch o := object.(type) {
	case *v1.Pod:
		a.sim.SetPod(defaulted(o))
		return nil
	case *v1.Node:
		a.sim.SetNode(o.DeepCopy())
		return nil
	}
	if kinds.Of(object) != nil {
		return a.sim.SetObject(object.DeepCopyObject())
	}
	return a.store(object)
}

// store creates or replaces an object in the clientset.
func (a *api) store(object runtime.Object) error {
	name, err := nameOf(object)
	if err != nil {
		return err
	}
	if _, err = a.tracker.Get(name.resource, name.namespace, name.name); err == nil {
		err = a.tracker.Update(name.resource, object, name.namespace)
	} else {
		err = a.tracker.Create(name.resource, object, name.namespace)
	}
	if err != nil {
		return fmt.Errorf("give %s %s/%s to the clientset: %w", name.resource.Resource, name.namespace, name.name, err)
	}
	stored, err := a.tracker.Get(name.resource, name.namespace, name.name)
	if err != nil {
		return err
	}
	if m, err := meta.Accessor(stored); err == nil {
		a.behind[name] = m.GetResourceVersion()
	}
	return nil
}

func (a *api) remove(name objectName) {
	if a.tracker.Delete(name.resource, name.namespace, name.name) == nil {
		a.behind[name] = ""
	}
}

// drop removes an object that only the clientset has.
func (a *api) drop(object runtime.Object) {
	if name, err := nameOf(object); err == nil {
		a.remove(name)
	}
}

// Changed stores an object that the cluster has created or replaced.
func (a *api) Changed(object kinds.Object) {
	if err := a.store(object); err != nil {
		panic(err) // the clientset supports all kinds that scheduling reads
	}
	if len(a.behind) > maxWatch {
		a.catchUp()
	}
}

// Gone removes an object that the cluster has deleted.
func (a *api) Gone(ref model.Ref) {
	a.remove(objectName{kinds.Get(ref.Kind).Resource, ref.Namespace, ref.Name})
}

// maxWatch limits the changes that informers may lag behind: a watch of the fake
// clientset buffers 100.
const maxWatch = 20

// catchUp waits until the started informers have the clientset's objects, for at most a
// second.
func (a *api) catchUp() {
	if !a.started {
		clear(a.behind)
		return
	}
	a.informers.StartWithContext(a.ctx) // plugins may have requested more meanwhile
	ended, cancel := context.WithCancel(a.ctx)
	cancel()
	stores := map[schema.GroupVersionResource]cache.Store{}
	for kind := range a.informers.WaitForCacheSync(ended.Done()) {
		if object, ok := reflect.New(kind.Elem()).Interface().(runtime.Object); ok {
			if name, err := nameOf(object); err == nil {
				stores[name.resource] = a.informers.InformerFor(object, nil).GetStore()
			}
		}
	}
	until := time.Now().Add(time.Second)
	for name, version := range a.behind {
		store := stores[name.resource]
		for store != nil && versionIn(store, name) != version && time.Now().Before(until) {
			time.Sleep(50 * time.Microsecond)
		}
	}
	clear(a.behind)
}

func versionIn(store cache.Store, name objectName) string {
	object, ok, err := store.GetByKey(cache.NewObjectName(name.namespace, name.name).String())
	if err != nil || !ok {
		return ""
	}
	return object.(metav1.Object).GetResourceVersion()
}

// nameOf returns the name of an object in the clientset.
func nameOf(object runtime.Object) (objectName, error) {
	if row := kinds.Of(object); row != nil {
		m := object.(metav1.Object)
		return objectName{row.Resource, row.Ref(m).Namespace, m.GetName()}, nil
	}
	all, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		return objectName{}, fmt.Errorf("an object of type %T is not of a built-in kind: %w", object, err)
	}
	m, err := meta.Accessor(object)
	if err != nil {
		return objectName{}, err
	}
	resource, _ := meta.UnsafeGuessKindToResource(all[0])
	return objectName{resource, m.GetNamespace(), m.GetName()}, nil
}

// refOf returns the reference of an object that scheduling reads.
func refOf(name objectName) (model.Ref, bool) {
	for kind := range model.KindCount {
		if row := kinds.Get(kind); row.Resource == name.resource {
			return model.Ref{Kind: kind, Namespace: name.namespace, Name: name.name}, true
		}
	}
	return model.Ref{}, false
}

// recorder keeps the events that plugins record.
type recorder struct {
	mu  sync.Mutex
	all []Event
}

func (r *recorder) of(string) events.EventRecorderLogger { return r }

// WithLogger returns the same recorder.
func (r *recorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }

// Eventf keeps an event.
func (r *recorder) Eventf(regarding, _ runtime.Object, eventtype, reason, action, note string, args ...any) {
	e := Event{Type: eventtype, Reason: reason, Action: action, Note: fmt.Sprintf(note, args...), Count: 1}
	switch o := regarding.(type) {
	case *v1.ObjectReference:
		e.Pod = o.Namespace + "/" + o.Name
	case metav1.Object:
		e.Pod = o.GetNamespace() + "/" + o.GetName()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, e)
}

func (r *recorder) events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}
