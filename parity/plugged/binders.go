package plugged

import (
	"context"
	"errors"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// SkippingBinderName is a Bind plugin that skips every pod. CustomBinderName binds the
// pods with its annotation.
const (
	SkippingBinderName = "SkippingBinder"
	CustomBinderName   = "CustomBinder"
)

// BindAnnotation is "custom" on pods for CustomBinder, and "fail-once" if the first
// attempt fails. CustomBinder sets BoundByAnnotation.
const (
	BindAnnotation    = "plugged.example.com/bind"
	BoundByAnnotation = "plugged.example.com/bound-by"
)

type skippingBinder struct{}

var _ fwk.BindPlugin = skippingBinder{}

func newSkippingBinder(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return skippingBinder{}, nil
}

func (skippingBinder) Name() string { return SkippingBinderName }

func (skippingBinder) Bind(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	return fwk.NewStatus(fwk.Skip)
}

type customBinder struct {
	handle fwk.Handle

	mu     sync.Mutex
	failed map[types.UID]bool
}

var _ fwk.BindPlugin = &customBinder{}

func newCustomBinder(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	return &customBinder{handle: h, failed: map[types.UID]bool{}}, nil
}

func (*customBinder) Name() string { return CustomBinderName }

func (b *customBinder) Bind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	switch how := annotation(pod, BindAnnotation); {
	case how == "":
		return fwk.NewStatus(fwk.Skip)
	case how == "fail-once" && b.first(pod):
		return fwk.AsStatus(errors.New("the binder was told to fail once"))
	}
	// The API server copies a binding's annotations to its pod.
	err := b.handle.ClientSet().CoreV1().Pods(pod.Namespace).Bind(ctx, &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Annotations: map[string]string{BoundByAnnotation: CustomBinderName}},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
	return fwk.AsStatus(err)
}

// first reports whether the pod is seen for the first time.
func (b *customBinder) first(pod *v1.Pod) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := b.failed[pod.UID]
	b.failed[pod.UID] = true
	return !seen
}
