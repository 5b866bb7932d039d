package cases

import (
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// amounts draws cases about resources, with some unusual amounts in nodes and pods.
func amounts(r *rand.Rand) Case {
	tc := nodeLocal(keepResources)(r)
	for _, n := range tc.Nodes {
		oddAmounts(r, n.Status.Allocatable)
	}
	for _, p := range tc.Pods {
		for i := range p.Spec.Containers {
			oddAmounts(r, p.Spec.Containers[i].Resources.Requests)
		}
		for i := range p.Spec.InitContainers {
			oddAmounts(r, p.Spec.InitContainers[i].Resources.Requests)
		}
		oddAmounts(r, p.Spec.Overhead)
	}
	return tc
}

// oddAmounts changes some amounts of a list, and adds some. A nil list stays nil. The
// requests on one node must stay below 2^63, and the amounts of a node a hundred times
// below that. Otherwise kube-scheduler's arithmetic overflows, and its results are
// arbitrary.
func oddAmounts(r *rand.Rand, list v1.ResourceList) {
	if list == nil || chance(r, 50) {
		return
	}
	switch r.IntN(6) {
	case 0:
		list[v1.ResourceCPU] = resource.MustParse(pick(r, "1n", "1u", "999u", "1001u", "0.1", "1.0005", "1e3", "2Ki", "9007199254740993m"))
	case 1:
		list[v1.ResourceMemory] = resource.MustParse(pick(r, "1", "1m", "0.5", "1e9", "1.5Gi", "129e6", "1Ti", "1Pi", "4Pi"))
	case 2:
		list[v1.ResourceEphemeralStorage] = resource.MustParse(pick(r, "1m", "1500m", "1Ti", "10Pi"))
	case 3:
		list["example.com/gpu"] = resource.MustParse(pick(r, "0", "1", "1000000", "1e15", "9e15"))
	case 4:
		list[pick[v1.ResourceName](r, "hugepages-1Gi", "attachable-volumes-aws-ebs", "unknown.io/thing", "kubernetes.io/batch-cpu", "requests.example.com/x")] =
			resource.MustParse(pick(r, "0", "1", "2", "1Gi"))
	case 5:
		delete(list, v1.ResourceCPU)
	}
}
