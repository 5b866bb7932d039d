// Package incumbent asks kube-scheduler's own plugins what they think of every node for a pod.
//
// It takes a KubeSchedulerConfiguration and API objects, and gives a Verdict for a pod: each node's first objection with code and
// reasons, the objections of the other filters, every score raw, normalised and weighted, the total, and the text of the
// FailedScheduling event. It owns a cache and a snapshot, which are kube-scheduler's too and follow changes one by one, and an informer
// factory that is never started: objects are put into its stores directly. It never samples nodes, binds, preempts or asks an API server.
package incumbent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcache "k8s.io/client-go/tools/cache"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// Incumbent is kube-scheduler's view of one cluster. One goroutine uses it, until it is closed.
type Incumbent struct {
	ctx       context.Context
	stop      context.CancelFunc
	logger    klog.Logger
	cache     cache.Cache
	snapshot  *cache.Snapshot
	informers informers.SharedInformerFactory
	profiles  map[string]*profile
	nodes     map[string]*v1.Node
	pods      map[name]*v1.Pod // those in the cache
	assumed   map[name]bool
	nominated nominations
	// stale says that the snapshot must be taken anew. kube-scheduler's own shows of a node how many nodes had its images when the node last
	// changed, and not how many have them now: its scores depend on the past. These do not.
	stale bool
}

// name is a pod's namespace and name.
type name struct{ namespace, name string }

// profile is a framework with the plugins in it, which it keeps to itself.
type profile struct {
	framework.Framework
	plugins map[string]fwk.Plugin
	filters []string // the filters' names in the order in which they are asked
	weights map[string]int64
}

// New builds the incumbent of an empty cluster from the text of a configuration, YAML or JSON.
func New(text []byte) (*Incumbent, error) {
	source, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("kube-scheduler's reading of the configuration: %w", err)
	}
	metrics.Register()
	logger := logr.Discard()
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), logger))
	i := &Incumbent{
		ctx: ctx, stop: stop, logger: logger, snapshot: cache.NewEmptySnapshot(), profiles: map[string]*profile{},
		nodes: map[string]*v1.Node{}, pods: map[name]*v1.Pod{}, assumed: map[name]bool{}, nominated: nominations{},
	}
	gate := utilfeature.DefaultFeatureGate
	i.cache = cache.New(ctx, nil, gate.Enabled(features.GenericWorkload), gate.Enabled(features.CompositePodGroup))
	if err := i.addProfiles(source); err != nil {
		stop()
		return nil, err
	}
	return i, nil
}

// Close ends the goroutines that kube-scheduler's parts have started.
func (i *Incumbent) Close() { i.stop() }

func (i *Incumbent) addProfiles(source *config.KubeSchedulerConfiguration) error {
	client, err := kubernetes.NewForConfig(&rest.Config{}) // nobody ever uses it
	if err != nil {
		return fmt.Errorf("build a client for the plugins: %w", err)
	}
	i.informers = informers.NewSharedInformerFactory(client, 0)
	devices, err := i.devices()
	if err != nil {
		return err
	}
	for at := range source.Profiles {
		p := &profile{plugins: map[string]fwk.Plugin{}, weights: map[string]int64{}}
		p.Framework, err = frameworkruntime.NewFramework(i.ctx, p.registry(), &source.Profiles[at],
			frameworkruntime.WithComponentConfigVersion(source.APIVersion),
			frameworkruntime.WithClientSet(client),
			frameworkruntime.WithInformerFactory(i.informers),
			frameworkruntime.WithSharedDRAManager(devices),
			frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(i.informers.Storage().V1().CSINodes().Lister())),
			frameworkruntime.WithSnapshotSharedLister(i.snapshot),
			frameworkruntime.WithMutableSnapshotLister(i.snapshot),
			frameworkruntime.WithParallelism(1),
			frameworkruntime.WithPodGroupManager(i.cache),
			frameworkruntime.WithPodNominator(i.nominated),
			frameworkruntime.WithLogger(i.logger),
		)
		if err != nil {
			return fmt.Errorf("initialise profile %q of kube-scheduler: %w", source.Profiles[at].SchedulerName, err)
		}
		enabled := p.ListPlugins()
		for _, f := range enabled.Filter.Enabled {
			p.filters = append(p.filters, f.Name)
		}
		for _, s := range enabled.Score.Enabled {
			p.weights[s.Name] = int64(s.Weight)
		}
		i.profiles[source.Profiles[at].SchedulerName] = p
	}
	return nil
}

// devices is what the plugin for dynamic resources needs; no device is ever in it.
func (i *Incumbent) devices() (fwk.SharedDRAManager, error) {
	resources := i.informers.Resource().V1()
	slices, err := resourceslicetracker.StartTracker(i.ctx, resourceslicetracker.Options{SliceInformer: resources.ResourceSlices()})
	if err != nil {
		return nil, fmt.Errorf("start the tracker of devices: %w", err)
	}
	claims := assumecache.NewAssumeCache(i.logger, resources.ResourceClaims().Informer(), "ResourceClaim", "", nil)
	return dynamicresources.NewDRAManager(i.ctx, claims, slices, i.informers), nil
}

// registry is that of the built-in plugins, with a note of each that is made.
func (p *profile) registry() frameworkruntime.Registry {
	registry := plugins.NewInTreeRegistry()
	for of, make := range registry {
		registry[of] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			made, err := make(ctx, args, handle)
			p.plugins[of] = made
			return made, err
		}
	}
	return registry
}

// SetNode adds or replaces a node.
func (i *Incumbent) SetNode(node *v1.Node) {
	i.stale = true
	if old := i.nodes[node.Name]; old != nil {
		i.cache.UpdateNode(i.logger, old, node)
	} else {
		i.cache.AddNode(i.logger, node)
	}
	i.nodes[node.Name] = node
}

// RemoveNode removes a node. Its pods stay behind.
func (i *Incumbent) RemoveNode(of string) error {
	old := i.nodes[of]
	if old == nil {
		return nil
	}
	i.stale = true
	delete(i.nodes, of)
	if err := i.cache.RemoveNode(i.logger, old); err != nil {
		return fmt.Errorf("remove node %s from the incumbent's cache: %w", of, err)
	}
	return nil
}

// SetPod adds or replaces a pod. A pod without a node matters only where one is nominated, and one that has finished does not matter.
func (i *Incumbent) SetPod(pod *v1.Pod) error {
	key := name{pod.Namespace, pod.Name}
	old := i.pods[key]
	if finished := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed; finished {
		return i.RemovePod(pod.Namespace, pod.Name)
	}
	if old != nil && old.UID != pod.UID {
		if err := i.RemovePod(pod.Namespace, pod.Name); err != nil {
			return err
		}
		old = nil
	}
	if pod.Spec.NodeName == "" {
		if old == nil && i.profiles[pod.Spec.SchedulerName] != nil {
			return i.nominated.set(pod)
		}
		return nil // it was placed, and the watch has not heard of it
	}
	i.nominated.remove(key)
	var err error
	switch {
	case old == nil, i.assumed[key]:
		err = i.cache.AddPod(i.logger, pod)
	case old.Spec.NodeName != pod.Spec.NodeName:
		err = errors.Join(i.cache.RemovePod(i.logger, old), i.cache.AddPod(i.logger, pod))
	default:
		err = i.cache.UpdatePod(i.logger, old, pod)
	}
	if err != nil {
		return fmt.Errorf("put pod %s/%s into the incumbent's cache: %w", pod.Namespace, pod.Name, err)
	}
	delete(i.assumed, key)
	i.pods[key] = pod
	return nil
}

// RemovePod removes a pod, assumed or not.
func (i *Incumbent) RemovePod(namespace, of string) error {
	key := name{namespace, of}
	i.nominated.remove(key)
	old := i.pods[key]
	if old == nil {
		return nil
	}
	remove := i.cache.RemovePod
	if i.assumed[key] {
		remove = i.cache.RemoveAssumedPod
	}
	delete(i.pods, key)
	delete(i.assumed, key)
	if err := remove(i.logger, old); err != nil {
		return fmt.Errorf("remove pod %s/%s from the incumbent's cache: %w", namespace, of, err)
	}
	return nil
}

// Assume puts a pending pod on a node before any watch shows it there.
func (i *Incumbent) Assume(pod *v1.Pod, nodeName string) error {
	placed := pod.DeepCopy()
	placed.Spec.NodeName = nodeName
	if err := i.cache.AssumePod(i.logger, placed); err != nil {
		return fmt.Errorf("assume pod %s/%s on %s in the incumbent's cache: %w", pod.Namespace, pod.Name, nodeName, err)
	}
	key := name{pod.Namespace, pod.Name}
	i.nominated.remove(key)
	i.pods[key], i.assumed[key] = placed, true
	return nil
}

// Forget takes back an assumption whose binding failed. One that a watch has confirmed, or that is about another pod of the name, stays.
func (i *Incumbent) Forget(pod *v1.Pod) error {
	key := name{pod.Namespace, pod.Name}
	if old := i.pods[key]; old == nil || !i.assumed[key] || old.UID != pod.UID {
		return nil
	}
	return i.RemovePod(pod.Namespace, pod.Name)
}

// SetObject adds or replaces an object that is neither a node nor a pod. Kinds that no plugin reads are left out.
func (i *Incumbent) SetObject(object runtime.Object) error {
	if store := i.store(object); store != nil {
		if err := store.Update(object); err != nil {
			return fmt.Errorf("put a %T into the incumbent's stores: %w", object, err)
		}
	}
	return nil
}

// RemoveObject removes such an object.
func (i *Incumbent) RemoveObject(object runtime.Object) error {
	if store := i.store(object); store != nil {
		if err := store.Delete(object); err != nil {
			return fmt.Errorf("remove a %T from the incumbent's stores: %w", object, err)
		}
	}
	return nil
}

// Nodes returns the nodes by name.
func (i *Incumbent) Nodes() []*v1.Node {
	var all []*v1.Node
	for _, of := range slices.Sorted(maps.Keys(i.nodes)) {
		all = append(all, i.nodes[of])
	}
	return all
}

// Placed returns the pods that are on nodes, assumed ones included, by namespace and name.
func (i *Incumbent) Placed() []*v1.Pod {
	all := slices.Collect(maps.Values(i.pods))
	slices.SortFunc(all, byName)
	return all
}

// Nominated returns the pending pods that a node was promised to, by namespace and name.
func (i *Incumbent) Nominated() []*v1.Pod {
	var all []*v1.Pod
	for _, info := range i.nominated {
		all = append(all, info.GetPod())
	}
	slices.SortFunc(all, byName)
	return all
}

func byName(a, b *v1.Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func (i *Incumbent) store(object runtime.Object) clientcache.Indexer {
	core, apps := i.informers.Core().V1(), i.informers.Apps().V1()
	switch object.(type) {
	case *v1.Namespace:
		return core.Namespaces().Informer().GetIndexer()
	case *v1.Service:
		return core.Services().Informer().GetIndexer()
	case *v1.ReplicationController:
		return core.ReplicationControllers().Informer().GetIndexer()
	case *appsv1.ReplicaSet:
		return apps.ReplicaSets().Informer().GetIndexer()
	case *appsv1.StatefulSet:
		return apps.StatefulSets().Informer().GetIndexer()
	}
	return nil
}
