package random

import (
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

// hugeAmounts are at or beyond the limits of 64 bits; some are small.
var hugeAmounts = []string{
	"9223372036854775807", "9223372036854775806", "4611686018427387904", "9e18", "1e30", "9223372036854775",
	"9223372036854776", "7E", "7Ei", "8Ei", "1e15", "93e15", "9223372036854775807m", "100m", "0", "1n",
}

// HugePod returns a copy of a pod that requests such amounts: of containers, sidecars,
// overhead, or for the whole pod.
func HugePod(r *rand.Rand, p *v1.Pod) *v1.Pod {
	p = p.DeepCopy()
	always := v1.ContainerRestartPolicyAlways
	if r.IntN(3) == 0 {
		p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Name: "sidecar", RestartPolicy: &always})
	}
	if r.IntN(3) == 0 {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "second"})
	}
	for _, containers := range [...][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			hugeList(r, &containers[i].Resources.Requests, v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, "example.com/gpu")
		}
	}
	if r.IntN(4) == 0 {
		hugeList(r, &p.Spec.Overhead, v1.ResourceCPU, v1.ResourceMemory)
	}
	if r.IntN(6) == 0 {
		p.Spec.Resources = &v1.ResourceRequirements{}
		hugeList(r, &p.Spec.Resources.Requests, v1.ResourceCPU, v1.ResourceMemory)
	}
	return p
}

func hugeList(r *rand.Rand, list *v1.ResourceList, names ...v1.ResourceName) {
	for _, name := range names {
		if r.IntN(3) > 0 {
			continue
		}
		if *list == nil {
			*list = v1.ResourceList{}
		}
		(*list)[name] = resource.MustParse(hugeAmounts[r.IntN(len(hugeAmounts))])
	}
}

// WithHugeAmounts makes some pods of a cluster request such amounts. Placed pods are
// included, since users who may create pods may also name the node. Some nodes offer as
// much.
func WithHugeAmounts(r *rand.Rand, c *oracle.Cluster) {
	for i, p := range c.Pods {
		if r.IntN(3) == 0 {
			c.Pods[i] = HugePod(r, p)
		}
	}
	for i, node := range c.Nodes {
		if r.IntN(6) == 0 && node.Status.Allocatable != nil {
			node = node.DeepCopy()
			hugeList(r, &node.Status.Allocatable, v1.ResourceCPU, v1.ResourceMemory, "example.com/gpu")
			c.Nodes[i] = node
		}
	}
}
