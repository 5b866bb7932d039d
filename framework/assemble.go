package framework

import (
	"iter"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/model"
)

// Parts are what Berth makes a NodeInfo of. The types are internal: only Berth itself can use them.
type Parts struct {
	Node *model.Node
	// Pods are read once, by Assemble; PodCount is how many they are.
	Pods     iter.Seq[*model.Pod]
	PodCount int
	// Used is what the pods occupy together, and NonZero… what scoring assumes that they occupy.
	Used                                *model.Resources
	NonZeroCPUMilli, NonZeroMemoryBytes int64
	Images                              ImageSource
	// Before are PodInfos that Assemble returned for the node before; nil for none.
	Before []fwk.PodInfo
}

// ImageSource says how many nodes have the images of a node. It may be asked by any goroutine, later.
type ImageSource interface {
	ImageStates(node *model.Node) map[string]*fwk.ImageStateSummary
}

// Assemble returns the NodeInfo of a node, and its PodInfos for the next call. PodInfos are taken over for pods that were there before in the same version. The slice is shared with the NodeInfo and
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
			// Each by itself: one that stays must not keep the others, and their pods, in memory.
			infos = append(infos, &PodInfo{pod: placed(pod), compiled: pod})
			continue
		}
		infos = append(infos, parts.Before[at])
		cursor = at + 1
	}
	return infos
}

// find returns the position of a pod among PodInfos, -1 if it is not there. Most pods are where the cursor is: after the one before.
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

// placed returns a pod's object as it will be when its binding is confirmed: an assumed pod's has no node yet.
func placed(pod *model.Pod) *v1.Pod {
	if pod.NodeName == "" || pod.Object.Spec.NodeName == pod.NodeName {
		return pod.Object
	}
	object := *pod.Object
	object.Spec.NodeName = pod.NodeName
	return &object
}
