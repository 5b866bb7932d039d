// Package kubelet starts pods on simulated nodes like their kubelets.
//
// It takes a client and an admission function. It gives every bound pod a status:
// Running; Failed with a kubelet's reason if the node refuses it or cannot attach its
// volumes; or Pending while its volumes or devices are missing. It owns the admitted pods
// of every node, and rebuilds them from the pods' statuses at its start. It never deletes
// a pod and never stops a running pod.
//
// An ordinary pod costs one write, the same as without any check.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
)

// Config is the configuration of the simulated kubelets.
type Config struct {
	Client kubernetes.Interface
	// Admit decides whether a node admits a pod beside its admitted pods. An empty reason
	// means yes.
	Admit func(node *v1.Node, admitted []*v1.Pod, pod *v1.Pod) (reason, message string)
	// NodeIP is the address of nodes without one.
	NodeIP string
	// PodCIDR is the pod range of nodes without one.
	PodCIDR string
	// PodGroupClaims is set if a pod may use the ResourceClaims of its PodGroup.
	PodGroupClaims bool
	// Workers is the number of pods in work at the same time.
	Workers int
}

// kubelets are the kubelets of all nodes. Only Run's goroutines use it.
type kubelets struct {
	config Config
	pods   cache.SharedIndexInformer
	nodes  corelisters.NodeLister
	limits storagelisters.CSINodeLister
	store  storehouse
	queue  workqueue.TypedRateLimitingInterface[cache.ObjectName]
	events record.EventBroadcaster

	mu    sync.Mutex
	rooms *rooms // guarded by mu
}

// Indexes of the pods.
const (
	byNode    = "node"
	byClaim   = "claim"   // namespace/name of a PersistentVolumeClaim
	byDevices = "devices" // namespace/name of a ResourceClaim
)

// Failed requests are retried after retryMin, with doubled delays up to retryMax.
const (
	retryMin = 10 * time.Millisecond
	retryMax = 5 * time.Second
)

// Run starts pods until the context ends.
func Run(ctx context.Context, config Config) error {
	bound := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	}
	k := &kubelets{
		config: config,
		pods: coreinformers.NewFilteredPodInformer(config.Client, metav1.NamespaceAll, 0, cache.Indexers{
			byNode: onNode, byClaim: claimsOf, byDevices: devicesOf,
		}, bound),
		queue:  workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](retryMin, retryMax)),
		events: record.NewBroadcaster(record.WithContext(ctx)),
		rooms:  newRooms(config.PodCIDR),
	}
	var goroutines sync.WaitGroup
	defer goroutines.Wait()
	defer k.queue.ShutDown()
	factory := informers.NewSharedInformerFactory(config.Client, 0)
	synced, err := k.watch(factory)
	if err != nil {
		return err
	}
	goroutines.Go(func() { k.pods.RunWithContext(ctx) })
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	k.events.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: config.Client.CoreV1().Events("")})
	defer k.events.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil
	}
	for range config.Workers {
		goroutines.Go(func() { k.work(ctx) })
	}
	<-ctx.Done()
	return nil
}

// watch creates the informers. It returns the conditions for starting the first pod:
// every admitted pod is known.
func (k *kubelets) watch(factory informers.SharedInformerFactory) ([]cache.InformerSynced, error) {
	core := factory.Core().V1()
	nodes, claims, volumes := core.Nodes(), core.PersistentVolumeClaims(), core.PersistentVolumes()
	limits := factory.Storage().V1().CSINodes()
	k.nodes, k.limits = nodes.Lister(), limits.Lister()
	k.store = storehouse{claims: claims.Lister(), volumes: volumes.Lister(), podGroups: k.config.PodGroupClaims}

	type following struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandlerFuncs
	}
	follow := []following{
		{k.pods, cache.ResourceEventHandlerFuncs{AddFunc: k.podSeen, UpdateFunc: k.podChanged, DeleteFunc: k.podGone}},
		{nodes.Informer(), cache.ResourceEventHandlerFuncs{AddFunc: func(o any) { k.wake(byNode, o.(*v1.Node).Name) }}},
		{limits.Informer(), cache.ResourceEventHandlerFuncs{}}, // a refusal is final, so no pod waits for it
		{claims.Informer(), whenSeen(func(o any) { k.wakeNamed(byClaim, o) })},
		{volumes.Informer(), whenSeen(func(o any) {
			if claim := o.(*v1.PersistentVolume).Spec.ClaimRef; claim != nil {
				k.wake(byClaim, claim.Namespace+"/"+claim.Name)
			}
		})},
	}
	served, err := servesDevices(k.config.Client)
	if err != nil {
		return nil, err
	}
	if served {
		claims := factory.Resource().V1().ResourceClaims()
		k.store.devices = claims.Lister()
		follow = append(follow, following{claims.Informer(), whenSeen(func(o any) { k.wakeNamed(byDevices, o) })})
	}
	var synced []cache.InformerSynced
	for _, f := range follow {
		registration, err := f.informer.AddEventHandler(f.handler)
		if err != nil {
			return nil, fmt.Errorf("watch for the kubelets: %w", err)
		}
		synced = append(synced, registration.HasSynced)
	}
	return synced, nil
}

// servesDevices reports whether the API server serves ResourceClaims; a cluster may have
// them disabled.
func servesDevices(client kubernetes.Interface) (bool, error) {
	_, err := client.Discovery().ServerResourcesForGroupVersion(resourcev1.SchemeGroupVersion.String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask whether ResourceClaims are served: %w", err)
	}
	return true, nil
}

func whenSeen(do func(object any)) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{AddFunc: do, UpdateFunc: func(_, now any) { do(now) }}
}

func onNode(object any) ([]string, error) { return []string{object.(*v1.Pod).Spec.NodeName}, nil }

func claimsOf(object any) ([]string, error) {
	pod := object.(*v1.Pod)
	var keys []string
	for i := range pod.Spec.Volumes {
		if name := claimName(pod, &pod.Spec.Volumes[i]); name != "" {
			keys = append(keys, pod.Namespace+"/"+name)
		}
	}
	return keys, nil
}

func devicesOf(object any) ([]string, error) {
	pod := object.(*v1.Pod)
	var keys []string
	for _, claim := range deviceClaims(pod) {
		if name := deviceClaimName(pod, claim); name != "" {
			keys = append(keys, pod.Namespace+"/"+name)
		}
	}
	return keys, nil
}

// podSeen is called for every pod, in the API server's order of changes. A removed pod's
// room is therefore free before the next pod bound there is considered.
func (k *kubelets) podSeen(object any) {
	pod := object.(*v1.Pod)
	k.mu.Lock()
	k.rooms.observe(pod)
	k.mu.Unlock()
	if startable(pod) {
		k.queue.Add(cache.MetaObjectToName(pod))
	}
}

func (k *kubelets) podChanged(before, now any) {
	if before.(*v1.Pod).UID != now.(*v1.Pod).UID {
		k.podGone(before)
	}
	k.podSeen(now)
}

func (k *kubelets) podGone(object any) {
	if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = missed.Obj
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rooms.release(object.(*v1.Pod))
}

// wake queues the pods again that may wait for the changed object.
func (k *kubelets) wake(index, value string) {
	pods, err := k.pods.GetIndexer().ByIndex(index, value)
	if err != nil {
		runtime.HandleError(fmt.Errorf("find pods by %s %s: %w", index, value, err))
		return
	}
	for _, object := range pods {
		if pod := object.(*v1.Pod); startable(pod) {
			k.queue.Add(cache.MetaObjectToName(pod))
		}
	}
}

func (k *kubelets) wakeNamed(index string, object any) {
	k.wake(index, cache.MetaObjectToName(object.(metav1.Object)).String())
}

func (k *kubelets) work(ctx context.Context) {
	for {
		name, stop := k.queue.Get()
		if stop {
			return
		}
		if err := k.start(ctx, name); err != nil {
			if !apierrors.IsConflict(err) {
				runtime.HandleErrorWithContext(ctx, err, "A pod could not be started and is tried again", "pod", name)
			}
			k.queue.AddRateLimited(name)
		} else {
			k.queue.Forget(name)
		}
		k.queue.Done(name)
	}
}

// start brings a pod to its next state: refused, waiting or running.
func (k *kubelets) start(ctx context.Context, name cache.ObjectName) error {
	pod, node, reason, message, err := k.admit(ctx, name)
	if err != nil || pod == nil {
		return err
	}
	if reason != "" {
		return k.refuse(ctx, pod, reason, message)
	}
	hosts := k.hosts(node)
	if obstacle := k.store.obstacle(pod, node); obstacle.reason != "" {
		if k.isNews(pod, obstacle) {
			k.event(pod, obstacle.reason, obstacle.message)
		}
		if admitted(pod) {
			return nil // its status has the reason already
		}
		return k.write(ctx, pod, waiting(pod, hosts, metav1.Now()))
	}
	if message, err = k.attach(ctx, pod); err != nil {
		return err
	}
	if message != "" {
		return k.refuse(ctx, pod, attachLimitExceeded, message)
	}
	ips, err := k.podIPs(pod, node, hosts)
	if err != nil {
		return err
	}
	return k.write(ctx, pod, running(pod, hosts, ips, metav1.Now()))
}

// refuse fails a pod permanently.
func (k *kubelets) refuse(ctx context.Context, pod *v1.Pod, reason, message string) error {
	if err := k.write(ctx, pod, refused(pod, reason, message, metav1.Now())); err != nil {
		return err
	}
	k.event(pod, reason, message)
	return nil
}

// admit returns a pod, its node, and the reason if the node refuses it. The pod is nil if
// there is nothing to do.
//
// A refusal is final, so it must not be based on a stale cache. Before a refusal, the
// node and its pods are read from the API server, and the decision is repeated.
func (k *kubelets) admit(ctx context.Context, name cache.ObjectName) (pod *v1.Pod, node *v1.Node, reason, message string, err error) {
	if pod, node, reason, _ = k.ask(name, nil); pod == nil || node != nil && reason == "" {
		return pod, node, "", "", nil
	}
	node, err = k.config.Client.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil, "", "", nil // no kubelet is there; the pod is considered when its node appears
	}
	if err != nil {
		return nil, nil, "", "", fmt.Errorf("read node %s: %w", pod.Spec.NodeName, err)
	}
	if err := k.releaseGone(ctx, pod.Spec.NodeName); err != nil {
		return nil, nil, "", "", err
	}
	pod, node, reason, message = k.ask(name, node)
	return pod, node, reason, message, nil
}

// ask decides on a pod and reserves its room. The node is the given one, or the cached
// one if it is nil; without a node there is no decision. The pod is read under the lock.
// podGone comes after the pod has left the cache, so no room is reserved for a pod whose
// room was released.
func (k *kubelets) ask(name cache.ObjectName, node *v1.Node) (*v1.Pod, *v1.Node, string, string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	object, exists, _ := k.pods.GetIndexer().GetByKey(name.String())
	if !exists || !startable(object.(*v1.Pod)) {
		return nil, nil, "", ""
	}
	pod := object.(*v1.Pod)
	if node == nil {
		cached, err := k.nodes.Get(pod.Spec.NodeName)
		if err != nil { // not found; a cache has no other errors
			return pod, nil, "", ""
		}
		node = cached
	}
	if k.rooms.tenant(pod) != nil {
		return pod, node, "", ""
	}
	reason, message := k.config.Admit(node, k.rooms.on(node.Name), pod)
	if reason == "" {
		k.rooms.admit(pod)
	}
	return pod, node, reason, message
}

// releaseGone frees the room of pods that have ended, or are gone from the API server,
// while the cache is stale.
func (k *kubelets) releaseGone(ctx context.Context, node string) error {
	k.mu.Lock()
	before := k.rooms.on(node)
	k.mu.Unlock()
	list, err := k.config.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return fmt.Errorf("read the pods on node %s: %w", node, err)
	}
	there := map[types.UID]bool{}
	for i := range list.Items {
		there[list.Items[i].UID] = !finished(&list.Items[i])
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, pod := range before {
		if !there[pod.UID] {
			k.rooms.release(pod)
		}
	}
	return nil
}

// isNews reports whether an obstacle differs from the last event's, and stores it.
func (k *kubelets) isNews(pod *v1.Pod, o obstacle) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.rooms.tenant(pod)
	if t == nil || t.reported == o {
		return false
	}
	t.reported = o
	return true
}

// podIPs returns a pod's addresses, which never change.
func (k *kubelets) podIPs(pod *v1.Pod, node *v1.Node, hosts []v1.HostIP) ([]v1.PodIP, error) {
	if pod.Spec.HostNetwork {
		var ips []v1.PodIP
		for _, host := range hosts {
			ips = append(ips, v1.PodIP(host))
		}
		return ips, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.rooms.tenant(pod)
	if t == nil {
		return nil, errors.New("the pod is gone")
	}
	if len(t.ips) == 0 {
		ips, err := k.rooms.addresses.take(node)
		if err != nil {
			return nil, err
		}
		t.ips = ips
	}
	return t.ips, nil
}

// hosts returns a node's addresses.
func (k *kubelets) hosts(node *v1.Node) []v1.HostIP {
	var ips []v1.HostIP
	for _, address := range node.Status.Addresses {
		if address.Type == v1.NodeInternalIP {
			ips = append(ips, v1.HostIP{IP: address.Address})
		}
	}
	if len(ips) == 0 {
		ips = []v1.HostIP{{IP: k.config.NodeIP}}
	}
	return ips
}

// event records a warning about a pod, as its node's kubelet.
func (k *kubelets) event(pod *v1.Pod, reason, message string) {
	k.events.NewRecorder(scheme.Scheme, v1.EventSource{Component: "kubelet", Host: pod.Spec.NodeName}).Event(pod, v1.EventTypeWarning, reason, message)
}

// write replaces a pod's status. It fails if the pod has changed in the meantime. Then
// the pod is considered again.
func (k *kubelets) write(ctx context.Context, pod *v1.Pod, status v1.PodStatus) error {
	changed := *pod
	changed.Status = status
	_, err := k.config.Client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, &changed, metav1.UpdateOptions{})
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("write the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
}
