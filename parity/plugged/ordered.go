package plugged

import (
	"context"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// OrderedName is a QueueSort plugin: the pod with the lowest rank comes first.
const OrderedName = "Ordered"

// RankAnnotation is a pod's rank as a number. Its default is 0.
const RankAnnotation = "plugged.example.com/rank"

type ordered struct{}

var _ fwk.QueueSortPlugin = ordered{}

func newOrdered(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return ordered{}, nil
}

func (ordered) Name() string { return OrderedName }

func (ordered) Less(a, b fwk.QueuedEntityInfo) bool {
	if x, y := rankOf(a), rankOf(b); x != y {
		return x < y
	}
	if a.GetPriority() != b.GetPriority() {
		return a.GetPriority() > b.GetPriority()
	}
	return a.GetTimestamp().Before(b.GetTimestamp())
}

func rankOf(entity fwk.QueuedEntityInfo) int {
	holder, ok := entity.(interface{ GetPodInfo() fwk.PodInfo })
	if !ok {
		return 0
	}
	rank, _ := strconv.Atoi(annotation(holder.GetPodInfo().GetPod(), RankAnnotation))
	return rank
}

func annotation(pod *v1.Pod, name string) string { return pod.Annotations[name] }

// cpuMilli returns the CPU requests of a pod's containers in millicores.
func cpuMilli(pod *v1.Pod) int64 {
	var sum int64
	for i := range pod.Spec.Containers {
		sum += pod.Spec.Containers[i].Resources.Requests.Cpu().MilliValue()
	}
	return sum
}
