package framework

import (
	"iter"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/model"
)

// Parts are the inputs of Assemble. The types are internal, so only Berth can use them.
type Parts struct {
	Node *model.Node
	// Pods are read once, by Assemble; PodCount is their number.
	Pods     iter.Seq[*model.Pod]
	PodCount int
	// Used is the sum of the pods' resources. The NonZero fields are the sums that
	// scoring assumes.
	Used                                *model.Resources
	NonZeroCPUMilli, NonZeroMemoryBytes int64
	Images                              ImageSource
	// Before are the PodInfos from the last Assemble of the node; nil for none.
	Before []fwk.PodInfo
}

// ImageSource counts the nodes that have the images of a node. Any goroutine may call it,
// also after Assemble.
type ImageSource interface {
	ImageStates(node *model.Node) map[string]*fwk.ImageStateSummary
}

// Assemble returns the NodeInfo of a node, and its PodInfos for the next call. It reuses
// PodInfos of pods whose version is unchanged. The slice is shared with the NodeInfo and
// must not be changed.
func Assemble(parts Parts) (*NodeInfo, []fwk.PodInfo) {
	pods := podInfos(&parts)
	return &NodeInfo{
		node:        parts.Node.Object,
		compiled:    parts.Node,
		pods:        pods,
		requested:   resourceOf(parts.Used),
		nonZero:     Resource{MilliCPU: parts.NonZeroCPUMilli, Memory: parts.NonZeroMemoryBytes},
		generation:  generations.Add(1),
		imageSource: parts.Images,
	}, pods
}

func podInfos(parts *Parts) []fwk.PodInfo {
	if parts.PodCount == 0 {
		return nil
	}
	infos := make([]fwk.PodInfo, 0, parts.PodCount)
	cursor := 0
	for pod := range parts.Pods {
		at := find(parts.Before, pod, cursor)
		if at < 0 {
			// Allocated one by one: a shared array would keep removed pods in memory.
			infos = append(infos, &PodInfo{pod: placed(pod), compiled: pod})
			continue
		}
		infos = append(infos, parts.Before[at])
		cursor = at + 1
	}
	return infos
}

// find returns the index of a pod among PodInfos, or -1. It starts at the cursor, because
// most pods follow the previous one.
func find(among []fwk.PodInfo, pod *model.Pod, cursor int) int {
	for i := range among {
		at := cursor + i
		if at >= len(among) {
			at -= len(among)
		}
		if p, ok := among[at].(*PodInfo); ok && p.compiled == pod {
			return at
		}
	}
	return -1
}

// placed returns the pod's object with its node. The object of an assumed pod has no node
// until the binding is confirmed.
func placed(pod *model.Pod) *v1.Pod {
	if pod.NodeName == "" || pod.Object.Spec.NodeName == pod.NodeName {
		return pod.Object
	}
	object := *pod.Object
	object.Spec.NodeName = pod.NodeName
	return &object
}
