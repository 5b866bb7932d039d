package build

import (
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodOption changes a new pod.
type PodOption func(*v1.Pod)

// Pod makes a pending pod p in the namespace default, for the default scheduler and
// without containers by default.
func Pod(options ...PodOption) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "p", UID: "p"},
		Spec:       v1.PodSpec{SchedulerName: v1.DefaultSchedulerName},
	}
	for _, option := range options {
		option(p)
	}
	return p
}

// PodsOnNodes reads "a=2 b=1", numbers of equal pods on nodes. All have the same name;
// callers rename them before they put them into a cluster.
func PodsOnNodes(text string, options ...PodOption) []*v1.Pod {
	var all []*v1.Pod
	for _, field := range strings.Fields(text) {
		node, number, _ := strings.Cut(field, "=")
		count, err := strconv.Atoi(number)
		if err != nil {
			panic("build: pods on nodes: " + err.Error())
		}
		for range count {
			all = append(all, Pod(append(slices.Clone(options), NodeName(node))...))
		}
	}
	return all
}

// Named gives the pod a name, which is its UID too.
func Named(name string) PodOption {
	return func(p *v1.Pod) { p.Name, p.UID = name, types.UID(name) }
}

// InNamespace puts the pod into a namespace.
func InNamespace(name string) PodOption { return func(p *v1.Pod) { p.Namespace = name } }

// Labels gives labels such as "app=x tier=y".
func Labels(text string) PodOption { return func(p *v1.Pod) { p.Labels = LabelSet(text) } }

// NodeName puts the pod on a node.
func NodeName(node string) PodOption { return func(p *v1.Pod) { p.Spec.NodeName = node } }

// NominatedNodeName nominates the pod to a node.
func NominatedNodeName(node string) PodOption {
	return func(p *v1.Pod) { p.Status.NominatedNodeName = node }
}

// Terminating gives the pod a deletion timestamp.
func Terminating(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} }

// NodeSelector gives a node selector such as "disk=ssd".
func NodeSelector(text string) PodOption {
	return func(p *v1.Pod) { p.Spec.NodeSelector = LabelSet(text) }
}

// Tolerations gives tolerations.
func Tolerations(all ...v1.Toleration) PodOption { return func(p *v1.Pod) { p.Spec.Tolerations = all } }

// Controller sets the pod's controller.
func Controller(apiVersion, kind, name string) PodOption {
	return func(p *v1.Pod) {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, Controller: &yes}}
	}
}

// Container adds a container with requests such as "cpu=1 memory=1Gi". Its name is c and
// its position among containers and init containers.
func Container(requests string) PodOption {
	return func(p *v1.Pod) { p.Spec.Containers = append(p.Spec.Containers, next(p, requests)) }
}

// InitContainer adds an ordinary init container, named as by Container.
func InitContainer(requests string) PodOption {
	return func(p *v1.Pod) { p.Spec.InitContainers = append(p.Spec.InitContainers, next(p, requests)) }
}

// Sidecar adds a restartable init container, named as by Container.
func Sidecar(requests string) PodOption {
	return func(p *v1.Pod) {
		always := v1.ContainerRestartPolicyAlways
		c := next(p, requests)
		c.RestartPolicy = &always
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
}

func next(p *v1.Pod, requests string) v1.Container {
	name := "c" + strconv.Itoa(len(p.Spec.Containers)+len(p.Spec.InitContainers))
	return v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: Resources(requests)}}
}

// Overhead sets the pod's overhead.
func Overhead(resources string) PodOption {
	return func(p *v1.Pod) { p.Spec.Overhead = Resources(resources) }
}

// PodRequests sets requests at pod level.
func PodRequests(requests string) PodOption {
	return func(p *v1.Pod) { p.Spec.Resources = &v1.ResourceRequirements{Requests: Resources(requests)} }
}
