package plugged

import (
	"context"
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// RecordName is a plugin that records its calls. Reserve counts a namespace's pods,
// PreBind annotates the pod with the number, and PostBind creates a ConfigMap with the
// pod's name.
const RecordName = "Record"

// OrderAnnotation holds the number of pods of the namespace that were reserved before,
// and the number of this pod's Unreserve calls. FailAnnotation makes the first PreBind
// fail.
const (
	OrderAnnotation = "plugged.example.com/order"
	FailAnnotation  = "plugged.example.com/fail-once"
)

type record struct {
	handle fwk.Handle

	mu         sync.Mutex
	reserved   map[string]int
	order      map[types.UID]int
	unreserved map[types.UID]int
}

var (
	_ fwk.ReservePlugin  = &record{}
	_ fwk.PreBindPlugin  = &record{}
	_ fwk.PostBindPlugin = &record{}
)

func newRecord(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	return &record{handle: h, reserved: map[string]int{}, order: map[types.UID]int{}, unreserved: map[types.UID]int{}}, nil
}

func (*record) Name() string { return RecordName }

func (r *record) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.order[pod.UID] = r.reserved[pod.Namespace]
	r.reserved[pod.Namespace]++
	return nil
}

func (r *record) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unreserved[pod.UID]++
}

func (*record) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return nil, nil
}

func (r *record) PreBind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	r.mu.Lock()
	order, unreserved := r.order[pod.UID], r.unreserved[pod.UID]
	r.mu.Unlock()
	if annotation(pod, FailAnnotation) != "" && unreserved == 0 {
		return fwk.AsStatus(errors.New("the record was told to fail once"))
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d, given up %d times"}}}`, OrderAnnotation, order, unreserved)
	_, err := r.handle.ClientSet().CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return fwk.AsStatus(err)
}

func (r *record) PostBind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	_, err := r.handle.ClientSet().CoreV1().ConfigMaps(pod.Namespace).Create(ctx, &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Data: map[string]string{"node": node},
	}, metav1.CreateOptions{})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Record that a pod was bound", "pod", klog.KObj(pod))
	}
}
