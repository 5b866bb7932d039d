package upstream

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// reserved is the cycle that placed a pod on a node, while that can be undone.
type reserved struct {
	cycle    *cycle
	nodeName string
}

// Reserve runs the Reserve plugins for the last judged pod, which is assumed on the node.
// From then on other pods see the volumes and claims that VolumeBinding has assumed for
// it, and the devices that DynamicResources has promised to its claims. Reserve returns
// these objects as the two will write them, in order. Forget undoes it. After an error
// nothing is reserved, and the pod is forgotten.
func (s *Scheduler) Reserve(pod *v1.Pod, nodeName string) ([]runtime.Object, error) {
	if s.last == nil || s.last.pod.UID != pod.UID {
		return nil, fmt.Errorf("reserve for pod %s/%s: another pod was judged last", pod.Namespace, pod.Name)
	}
	key := name{pod.Namespace, pod.Name}
	placed := s.pods[key]
	if placed == nil || !s.assumed[key] || placed.Spec.NodeName != nodeName {
		return nil, fmt.Errorf("reserve for pod %s/%s: it is not assumed on %s", pod.Namespace, pod.Name, nodeName)
	}
	c := s.last
	s.reserved[key] = reserved{c, nodeName}
	if status := c.profile.RunReservePluginsReserve(s.ctx, c.state, placed, nodeName); !status.IsSuccess() {
		if err := s.Forget(pod); err != nil {
			return nil, err
		}
		return nil, status.AsError()
	}
	written, err := s.writes(c, placed, nodeName)
	if err != nil {
		return nil, err
	}
	return append(written, s.deviceWrites(c, placed, nodeName)...), nil
}

func (s *Scheduler) unreserve(key name) {
	if r, ok := s.reserved[key]; ok {
		r.cycle.profile.RunReservePluginsUnreserve(s.ctx, r.cycle.state, s.pods[key], r.nodeName)
	}
}

// writes lets VolumeBinding write to a recording client. Its context has ended already,
// so that it does not wait for the claims.
func (s *Scheduler) writes(c *cycle, placed *v1.Pod, nodeName string) ([]runtime.Object, error) {
	binding, ok := c.profile.plugins["VolumeBinding"].(fwk.PreBindPlugin)
	if !ok {
		return nil, nil // disabled
	}
	if _, status := binding.PreBindPreFlight(s.ctx, c.state, placed, nodeName); status.IsSkip() {
		return nil, nil
	} else if !status.IsSuccess() {
		return nil, status.AsError()
	}
	ended, end := context.WithCancel(s.ctx)
	end()
	s.client.writes = nil
	if status := binding.PreBind(ended, c.state, placed, nodeName); status.IsSuccess() {
		return nil, fmt.Errorf("VolumeBinding has bound the volumes of pod %s/%s without waiting", placed.Namespace, placed.Name)
	}
	return s.client.writes, nil
}

// client records and accepts updates of volumes and claims, and cleared nominations. It
// supports nothing else.
type client struct {
	kubernetes.Interface
	writes  []runtime.Object
	cleared []string // namespace/name of pods whose nomination is cleared
}

// CoreV1 returns the recording client.
func (c *client) CoreV1() corev1.CoreV1Interface { return recorder{c.Interface.CoreV1(), c} }

type recorder struct {
	corev1.CoreV1Interface
	client *client
}

// PersistentVolumes returns a client whose Update records.
func (r recorder) PersistentVolumes() corev1.PersistentVolumeInterface {
	return volumes{r.CoreV1Interface.PersistentVolumes(), r.client}
}

// PersistentVolumeClaims returns a client whose Update records.
func (r recorder) PersistentVolumeClaims(namespace string) corev1.PersistentVolumeClaimInterface {
	return claims{r.CoreV1Interface.PersistentVolumeClaims(namespace), r.client}
}

type volumes struct {
	corev1.PersistentVolumeInterface
	client *client
}

// Update records the volume.
func (v volumes) Update(_ context.Context, volume *v1.PersistentVolume, _ metav1.UpdateOptions) (*v1.PersistentVolume, error) {
	v.client.writes = append(v.client.writes, volume.DeepCopy())
	return volume, nil
}

type claims struct {
	corev1.PersistentVolumeClaimInterface
	client *client
}

// Update records the claim.
func (c claims) Update(_ context.Context, claim *v1.PersistentVolumeClaim, _ metav1.UpdateOptions) (*v1.PersistentVolumeClaim, error) {
	c.client.writes = append(c.client.writes, claim.DeepCopy())
	return claim, nil
}

// Pods returns a client whose Patch records.
func (r recorder) Pods(namespace string) corev1.PodInterface {
	return pods{r.CoreV1Interface.Pods(namespace), r.client, namespace}
}

type pods struct {
	corev1.PodInterface
	client    *client
	namespace string
}

// Patch records a cleared nomination. Other patches are errors.
func (p pods) Patch(_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*v1.Pod, error) {
	if want := `{"status":{"nominatedNodeName":null}}`; string(data) != want {
		return nil, fmt.Errorf("the patch of pod %s/%s is %s, not %s", p.namespace, name, data, want)
	}
	p.client.cleared = append(p.client.cleared, p.namespace+"/"+name)
	return &v1.Pod{}, nil
}
