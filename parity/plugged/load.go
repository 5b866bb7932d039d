package plugged

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// LoadName is a Score plugin that prefers nodes with little load. The ConfigMap "load"
// has the percentage by node. The plugin watches it with its own informer, like plugins
// that read metrics.
const LoadName = "Load"

// LoadSeenAnnotation on the ConfigMap is the load that scores are computed from. The
// plugin sets it.
const LoadSeenAnnotation = "plugged.example.com/seen"

type load struct {
	clients kubernetes.Interface

	mu      sync.Mutex
	percent map[string]int64
}

var _ fwk.ScorePlugin = &load{}

func newLoad(ctx context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	l := &load{clients: h.ClientSet(), percent: map[string]int64{}}
	factory := informers.NewSharedInformerFactoryWithOptions(h.ClientSet(), 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = "metadata.name=load"
	}))
	informer := factory.Core().V1().ConfigMaps().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { l.take(ctx, o.(*v1.ConfigMap)) },
		UpdateFunc: func(_, o any) { l.take(ctx, o.(*v1.ConfigMap)) },
	}); err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, fmt.Errorf("watch the load of nodes: %w", context.Cause(ctx))
	}
	return l, nil
}

func (*load) Name() string { return LoadName }

// take keeps the load and confirms it on the ConfigMap.
func (l *load) take(ctx context.Context, m *v1.ConfigMap) {
	l.mu.Lock()
	for node, percent := range m.Data {
		l.percent[node], _ = strconv.ParseInt(percent, 10, 64)
	}
	l.mu.Unlock()
	seen := fmt.Sprint(m.Data)
	if m.Annotations[LoadSeenAnnotation] == seen {
		return
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, LoadSeenAnnotation, seen)
	if _, err := l.clients.CoreV1().ConfigMaps(m.Namespace).Patch(ctx, m.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		klog.FromContext(ctx).Error(err, "Say which load was seen")
	}
}

func (l *load) Score(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fwk.MaxScore - l.percent[node.Node().Name], nil
}

func (*load) ScoreExtensions() fwk.ScoreExtensions { return nil }
