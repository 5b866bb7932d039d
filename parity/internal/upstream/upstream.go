// Package upstream runs kube-scheduler's own plugins for a pod on every node.
//
// It takes a KubeSchedulerConfiguration and API objects, and returns a Verdict for a pod.
// A verdict has each node's first rejection with code and reasons, the rejections of the
// other filters, every score raw, normalized and weighted, and the total. It also has the
// text of the FailedScheduling event, and preemption's results for each node with its
// choice. For a placed pod it has the necessary writes to its volumes and claims for
// devices.
//
// It owns a cache and a snapshot, which are kube-scheduler's and are updated change by
// change, and informers that are never started. When the call that makes a change
// returns, the change is in their stores and was passed to the plugins' event handlers.
// It never samples nodes, binds, evicts or connects to an API server.
package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"github.com/berth-scheduler/berth/parity/internal/outside"
)

// Scheduler is kube-scheduler's view of one cluster, until it is closed. It is not safe
// for concurrent use.
type Scheduler struct {
	ctx       context.Context
	stop      context.CancelFunc
	logger    klog.Logger
	cache     cache.Cache
	snapshot  *cache.Snapshot
	informers informers.SharedInformerFactory
	others    map[reflect.Type]*informer // by the type of the objects
	client    *client
	manager   fwk.SharedDRAManager
	profiles  map[string]*profile
	nodes     map[string]*v1.Node
	pods      map[name]*v1.Pod // in the cache
	assumed   map[name]bool
	nominated nominations
	// pods on nodes, by the number of preemptions whose eviction is decided and not
	// failed, until the watch shows it
	evicted   map[types.UID]int
	last      *cycle // of the last judged pod
	extenders []fwk.Extender
	outside   outside.Set       // the external plugins that configurations may enable
	reserved  map[name]reserved // of the assumed pods
	// stale means that the snapshot must be rebuilt. kube-scheduler's own snapshot has,
	// for each node, the number of nodes with its images at the node's last change, and
	// not at present. So its scores depend on the past; these do not. It would also count
	// the claims of pods on missing nodes if these came or went last.
	stale bool
}

// name is a pod's namespace and name.
type name struct{ namespace, name string }

// profile is a framework with its plugins, which the framework does not export.
type profile struct {
	framework.Framework
	plugins map[string]fwk.Plugin
	filters []string // in the order in which they run
	weights map[string]int64
	// evaluation is nil if DefaultPreemption is disabled.
	evaluation *evaluation
}

// New builds a scheduler of an empty cluster from the text of a configuration, YAML or
// JSON.
func New(text []byte) (*Scheduler, error) {
	source, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("kube-scheduler's reading of the configuration: %w", err)
	}
	metrics.Register()
	logger := logr.Discard()
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), logger))
	s := &Scheduler{
		ctx: ctx, stop: stop, logger: logger, snapshot: cache.NewEmptySnapshot(), profiles: map[string]*profile{},
		nodes: map[string]*v1.Node{}, pods: map[name]*v1.Pod{}, assumed: map[name]bool{}, nominated: nominations{},
		reserved: map[name]reserved{}, evicted: map[types.UID]int{},
	}
	gate := utilfeature.DefaultFeatureGate
	s.cache = cache.New(ctx, nil, gate.Enabled(features.GenericWorkload), gate.Enabled(features.CompositePodGroup))
	if err := s.addProfiles(source); err != nil {
		stop()
		return nil, err
	}
	return s, nil
}

// Close ends the goroutines that kube-scheduler's parts have started.
func (s *Scheduler) Close() { s.stop() }

func (s *Scheduler) addProfiles(source *config.KubeSchedulerConfiguration) error {
	unused, err := kubernetes.NewForConfig(&rest.Config{})
	if err != nil {
		return fmt.Errorf("build a client for the plugins: %w", err)
	}
	s.client = &client{Interface: unused}
	s.informers = informers.NewSharedInformerFactory(s.client, 0)
	s.others = newInformers(s.informers)
	devices, err := s.devices()
	if err != nil {
		return err
	}
	if s.extenders, err = newExtenders(source); err != nil {
		return err
	}
	for at := range source.Profiles {
		p := &profile{plugins: map[string]fwk.Plugin{}, weights: map[string]int64{}}
		p.Framework, err = frameworkruntime.NewFramework(s.ctx, p.registry(s.outside.Factories()), &source.Profiles[at], append(frameworkOptions(),
			frameworkruntime.WithComponentConfigVersion(source.APIVersion),
			frameworkruntime.WithClientSet(s.client),
			frameworkruntime.WithInformerFactory(s.informers),
			frameworkruntime.WithSharedDRAManager(devices),
			frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(s.informers.Storage().V1().CSINodes().Lister())),
			frameworkruntime.WithSnapshotSharedLister(s.snapshot),
			frameworkruntime.WithMutableSnapshotLister(s.snapshot),
			frameworkruntime.WithParallelism(1),
			frameworkruntime.WithPodGroupManager(s.cache),
			frameworkruntime.WithPodNominator(s.nominated),
			frameworkruntime.WithExtenders(s.watched(p)),
			frameworkruntime.WithLogger(s.logger),
		)...)
		if err != nil {
			return fmt.Errorf("initialise profile %q of kube-scheduler: %w", source.Profiles[at].SchedulerName, err)
		}
		if p.evaluation != nil {
			p.evaluation.scheduler = s
		}
		enabled := p.ListPlugins()
		for _, f := range enabled.Filter.Enabled {
			p.filters = append(p.filters, f.Name)
		}
		for _, s := range enabled.Score.Enabled {
			p.weights[s.Name] = int64(s.Weight)
		}
		s.profiles[source.Profiles[at].SchedulerName] = p
	}
	return nil
}

// devices returns the device manager for the DynamicResources plugin, built as in
// kube-scheduler.
func (s *Scheduler) devices() (fwk.SharedDRAManager, error) {
	resources, gate := s.informers.Resource().V1(), utilfeature.DefaultFeatureGate
	options := sliceOptions(s.informers)
	options.EnableDeviceTaintRules = gate.Enabled(features.DRADeviceTaintRules)
	options.EnableConsumableCapacity = gate.Enabled(features.DRAConsumableCapacity)
	if options.EnableDeviceTaintRules {
		options.TaintInformer = resources.DeviceTaintRules()
	}
	slices, err := resourceslicetracker.StartTracker(s.ctx, options)
	if err != nil {
		return nil, fmt.Errorf("start the tracker of devices: %w", err)
	}
	claims := assumecache.NewAssumeCache(s.logger, resources.ResourceClaims().Informer(), "ResourceClaim", "", nil)
	s.manager = dynamicresources.NewDRAManager(s.ctx, claims, slices, s.informers)
	if classes, ok := s.manager.DeviceClassResolver().(*extendedresourcecache.ExtendedResourceCache); ok {
		if _, err := resources.DeviceClasses().Informer().AddEventHandler(classes); err != nil {
			return nil, fmt.Errorf("watch device classes: %w", err)
		}
	}
	return s.manager, nil
}

// registry returns the registry of the built-in and external plugins. It records each
// plugin that is built.
func (p *profile) registry(more map[string]outside.Factory) frameworkruntime.Registry {
	registry := plugins.NewInTreeRegistry()
	for of, make := range more {
		registry[of] = make
	}
	for of, make := range registry {
		registry[of] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			made, err := make(ctx, args, handle)
			p.plugins[of] = made
			if preempts, ok := made.(*defaultpreemption.DefaultPreemption); ok && err == nil {
				p.evaluation = watch(preempts)
			}
			return made, err
		}
	}
	return registry
}

// SetNode adds or replaces a node.
func (s *Scheduler) SetNode(node *v1.Node) {
	s.stale = true
	if old := s.nodes[node.Name]; old != nil {
		s.cache.UpdateNode(s.logger, old, node)
	} else {
		s.cache.AddNode(s.logger, node)
	}
	s.nodes[node.Name] = node
}

// RemoveNode removes a node. Its pods stay.
func (s *Scheduler) RemoveNode(of string) error {
	old := s.nodes[of]
	if old == nil {
		return nil
	}
	s.stale = true
	delete(s.nodes, of)
	if err := s.cache.RemoveNode(s.logger, old); err != nil {
		return fmt.Errorf("remove node %s from kube-scheduler's cache: %w", of, err)
	}
	return nil
}

// SetPod adds or replaces a pod. A pod without a node counts only if it is nominated. A
// finished pod does not count.
func (s *Scheduler) SetPod(pod *v1.Pod) error {
	key := name{pod.Namespace, pod.Name}
	old := s.pods[key]
	if finished := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed; finished {
		return s.RemovePod(pod.Namespace, pod.Name)
	}
	if old != nil && old.UID != pod.UID {
		if err := s.RemovePod(pod.Namespace, pod.Name); err != nil {
			return err
		}
		old = nil
	}
	if pod.Spec.NodeName == "" {
		if old == nil && s.profiles[pod.Spec.SchedulerName] != nil {
			return s.nominated.set(pod)
		}
		return nil // the pod is assumed, and the watch does not show that yet
	}
	s.nominated.remove(key)
	s.stale = s.stale || s.nodes[pod.Spec.NodeName] == nil
	var err error
	switch {
	case old == nil, s.assumed[key]:
		err = s.cache.AddPod(s.logger, pod)
	case old.Spec.NodeName != pod.Spec.NodeName:
		err = errors.Join(s.cache.RemovePod(s.logger, old), s.cache.AddPod(s.logger, pod))
	default:
		err = s.cache.UpdatePod(s.logger, old, pod)
	}
	if err != nil {
		return fmt.Errorf("put pod %s/%s into kube-scheduler's cache: %w", pod.Namespace, pod.Name, err)
	}
	delete(s.assumed, key)
	delete(s.reserved, key)
	s.pods[key] = pod
	if pod.DeletionTimestamp != nil {
		delete(s.evicted, pod.UID)
	}
	return nil
}

// RemovePod removes a pod, assumed or not, and its reservations.
func (s *Scheduler) RemovePod(namespace, of string) error {
	key := name{namespace, of}
	s.nominated.remove(key)
	old := s.pods[key]
	if old == nil {
		return nil
	}
	remove := s.cache.RemovePod
	if s.assumed[key] {
		remove = s.cache.RemoveAssumedPod
		s.unreserve(key)
	}
	s.stale = s.stale || s.nodes[old.Spec.NodeName] == nil
	delete(s.evicted, old.UID)
	delete(s.pods, key)
	delete(s.assumed, key)
	delete(s.reserved, key)
	if err := remove(s.logger, old); err != nil {
		return fmt.Errorf("remove pod %s/%s from kube-scheduler's cache: %w", namespace, of, err)
	}
	return nil
}

// Assume puts a pending pod on a node before a watch shows it there.
func (s *Scheduler) Assume(pod *v1.Pod, nodeName string) error {
	placed := pod.DeepCopy()
	placed.Spec.NodeName = nodeName
	if err := s.cache.AssumePod(s.logger, placed); err != nil {
		return fmt.Errorf("assume pod %s/%s on %s in kube-scheduler's cache: %w", pod.Namespace, pod.Name, nodeName, err)
	}
	key := name{pod.Namespace, pod.Name}
	s.nominated.remove(key)
	s.pods[key], s.assumed[key] = placed, true
	s.stale = s.stale || s.nodes[nodeName] == nil
	return nil
}

// Forget removes an assumed pod whose binding failed, and its reservations. A pod that a
// watch has confirmed, or another pod of the same name, stays.
func (s *Scheduler) Forget(pod *v1.Pod) error {
	key := name{pod.Namespace, pod.Name}
	if old := s.pods[key]; old == nil || !s.assumed[key] || old.UID != pod.UID {
		return nil
	}
	return s.RemovePod(pod.Namespace, pod.Name)
}

// SetObject adds or replaces an object that is neither a node nor a pod. It ignores kinds
// that no plugin reads.
func (s *Scheduler) SetObject(object runtime.Object) error {
	object, err := stored(object)
	if err != nil {
		return err
	}
	if of := s.others[reflect.TypeOf(object)]; of != nil {
		if err := of.set(object); err != nil {
			return fmt.Errorf("put a %T into kube-scheduler's stores: %w", object, err)
		}
	}
	return nil
}

// RemoveObject removes an object that is neither a node nor a pod.
func (s *Scheduler) RemoveObject(object runtime.Object) error {
	object, err := stored(object)
	if err != nil {
		return err
	}
	if of := s.others[reflect.TypeOf(object)]; of != nil {
		if err := of.remove(object); err != nil {
			return fmt.Errorf("remove a %T from kube-scheduler's stores: %w", object, err)
		}
	}
	return nil
}

// Nodes returns the nodes by name.
func (s *Scheduler) Nodes() []*v1.Node {
	var all []*v1.Node
	for _, of := range slices.Sorted(maps.Keys(s.nodes)) {
		all = append(all, s.nodes[of])
	}
	return all
}

// Placed returns the pods that are on nodes, assumed ones included, by namespace and
// name.
func (s *Scheduler) Placed() []*v1.Pod {
	all := slices.Collect(maps.Values(s.pods))
	slices.SortFunc(all, byName)
	return all
}

// Nominated returns the pending pods that are nominated to a node, by namespace and name.
func (s *Scheduler) Nominated() []*v1.Pod {
	var all []*v1.Pod
	for _, info := range s.nominated {
		all = append(all, info.GetPod())
	}
	slices.SortFunc(all, byName)
	return all
}

func byName(a, b *v1.Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
