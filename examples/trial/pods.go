package trial

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pod returns a pod of one container with this CPU request.
func Pod(name, scheduler string, cpus int64, labels, annotations map[string]string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations},
		Spec: v1.PodSpec{SchedulerName: scheduler, Containers: []v1.Container{{
			Name: "main", Image: "registry.example.com/app",
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI)}},
		}}},
	}
}

// Namespace creates a namespace.
func (c *Cluster) Namespace(ctx context.Context, name string) error {
	_, err := c.Client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

// Label sets labels of a node.
func (c *Cluster) Label(ctx context.Context, node string, labels map[string]string) error {
	var pairs []string
	for name, value := range labels {
		pairs = append(pairs, fmt.Sprintf("%q:%q", name, value))
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%s}}}`, strings.Join(pairs, ","))
	_, err := c.Client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// Annotate sets an annotation of a pod.
func (c *Cluster) Annotate(ctx context.Context, namespace, pod, name, value string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, name, value)
	_, err := c.Client.CoreV1().Pods(namespace).Patch(ctx, pod, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// AwaitPod waits for a state of a pod. The error has the present state, and the
// scheduler's log.
func (c *Cluster) AwaitPod(ctx context.Context, namespace, name, what string, wanted func(*v1.Pod) bool) (*v1.Pod, error) {
	for {
		pod, err := c.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && wanted(pod) {
			return pod, nil
		}
		if err == nil {
			err = fmt.Errorf("node %q, phase %s, message %q, annotations %v", pod.Spec.NodeName, pod.Status.Phase, Message(pod), pod.Annotations)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("pod %s/%s: wait until it is %s: %w: %w", namespace, name, what, context.Cause(ctx), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Runs reports whether the pod's node has admitted it.
func Runs(pod *v1.Pod) bool { return pod.Status.Phase == v1.PodRunning }

// Message returns why a pod is pending.
func Message(pod *v1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == v1.PodScheduled {
			return condition.Message
		}
	}
	return ""
}

// AwaitLeader waits until another holder than the given one has a lease, and returns the
// holder.
func (c *Cluster) AwaitLeader(ctx context.Context, namespace, name, not string) (string, error) {
	for {
		lease, err := c.Client.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" && *lease.Spec.HolderIdentity != not {
			return *lease.Spec.HolderIdentity, nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("wait for the leader by lease %s/%s: %w", namespace, name, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// AddNode creates a node like the others, with this name and number of CPUs.
func (c *Cluster) AddNode(ctx context.Context, name string, cpus int64) error {
	list, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	like := &list.Items[0]
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: like.Labels, Annotations: like.Annotations}, Spec: v1.NodeSpec{Taints: like.Spec.Taints}, Status: like.Status}
	node.Labels[v1.LabelHostname] = name
	room := *resource.NewQuantity(cpus, resource.DecimalSI)
	node.Status.Capacity[v1.ResourceCPU], node.Status.Allocatable[v1.ResourceCPU] = room, room
	_, err = c.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	return err
}
