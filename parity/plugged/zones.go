package plugged

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// ZonesName is a plugin that reads a custom resource: the free amount of a node's zones.
// An object has its node's name.
const ZonesName = "Zones"

// ZonesResource is that custom resource.
var ZonesResource = schema.GroupVersionResource{Group: "plugged.example.com", Version: "v1", Resource: "nodezones"}

// ZonesAnnotation is a pod's request in one zone.
const ZonesAnnotation = "plugged.example.com/zone"

type zones struct {
	mu   sync.Mutex
	free map[string]zone
}

type zone struct{ free, version int64 }

var (
	_ fwk.FilterPlugin      = &zones{}
	_ fwk.EnqueueExtensions = &zones{}
)

func newZones(ctx context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	config := *h.KubeConfig()
	config.ContentType, config.AcceptContentTypes = "", "" // custom resources have no protobuf
	client, err := dynamic.NewForConfig(&config)
	if err != nil {
		return nil, err
	}
	z := &zones{free: map[string]zone{}}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	informer := factory.ForResource(ZonesResource).Informer()
	keep := func(o any) {
		if _, _, err := z.take(o); err != nil {
			klog.FromContext(ctx).Error(err, "A zone cannot be read")
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    keep,
		UpdateFunc: func(_, o any) { keep(o) },
	}); err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, fmt.Errorf("watch %s: %w", ZonesResource, context.Cause(ctx))
	}
	return z, nil
}

func (*zones) Name() string { return ZonesName }

// take keeps an object's amount, unless it has seen a newer version.
func (z *zones) take(o any) (node string, free int64, err error) {
	object, ok := o.(*unstructured.Unstructured)
	if !ok {
		return "", 0, fmt.Errorf("%T is no custom resource", o)
	}
	free, _, err = unstructured.NestedInt64(object.Object, "spec", "free")
	if err != nil {
		return "", 0, err
	}
	version, err := strconv.ParseInt(object.GetResourceVersion(), 10, 64)
	if err != nil {
		return "", 0, err
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.free[object.GetName()].version < version {
		z.free[object.GetName()] = zone{free, version}
	}
	return object.GetName(), free, nil
}

// EventsToRegister has a hint that takes the object. The scheduler's informer may deliver
// it before the plugin's own, and it may be the last event.
func (z *zones) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	resource := fwk.EventResource(fmt.Sprintf("%s.%s.%s", ZonesResource.Resource, ZonesResource.Version, ZonesResource.Group))
	return []fwk.ClusterEventWithHint{{
		Event: fwk.ClusterEvent{Resource: resource, ActionType: fwk.Add | fwk.Update},
		QueueingHintFn: func(_ klog.Logger, pod *v1.Pod, _, newObj any) (fwk.QueueingHint, error) {
			_, free, err := z.take(newObj)
			if err != nil {
				return fwk.Queue, err
			}
			if free < zoneOf(pod) {
				return fwk.QueueSkip, nil
			}
			return fwk.Queue, nil
		},
	}}, nil
}

func zoneOf(pod *v1.Pod) int64 {
	need, _ := strconv.ParseInt(annotation(pod, ZonesAnnotation), 10, 64)
	return need
}

func (z *zones) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	z.mu.Lock()
	defer z.mu.Unlock()
	zone, ok := z.free[node.Node().Name]
	switch {
	case !ok:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) without zones")
	case zone.free < zoneOf(pod):
		return fwk.NewStatus(fwk.Unschedulable, "node(s) with too little room in a zone")
	}
	return nil
}
