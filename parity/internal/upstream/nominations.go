package upstream

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// nominations are the pending pods that status.nominatedNodeName nominates to a node. It is the nominator of the frameworks.
type nominations map[name]fwk.PodInfo

func (n nominations) set(pod *v1.Pod) error {
	key := name{pod.Namespace, pod.Name}
	if pod.Status.NominatedNodeName == "" {
		n.remove(key)
		return nil
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return fmt.Errorf("read the terms of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	n[key] = info
	return nil
}

func (n nominations) remove(key name) { delete(n, key) }

// NominatedPodsForNode lists the pods that are nominated to the node, by namespace and name.
func (n nominations) NominatedPodsForNode(nodeName string) []fwk.PodInfo {
	var on []fwk.PodInfo
	for _, info := range n {
		if info.GetPod().Status.NominatedNodeName == nodeName {
			on = append(on, info)
		}
	}
	slices.SortFunc(on, func(a, b fwk.PodInfo) int { return byName(a.GetPod(), b.GetPod()) })
	return on
}

// AddNominatedPod is for the scheduling loop, which is never run.
func (n nominations) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}

// DeleteNominatedPodIfExists is for the loop, too.
func (n nominations) DeleteNominatedPodIfExists(*v1.Pod) {}

// UpdateNominatedPod is for the loop, too.
func (n nominations) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo) {}
