package upstream

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// nominations are the pending pods with a nominated node in their status. It is the
// nominator of the frameworks.
type nominations map[name]nomination

type nomination struct {
	fwk.PodInfo
	// decided means that the API does not show the nomination yet.
	decided bool
}

// set applies a version of a pending pod. As in kube-scheduler, if neither this version
// nor the last one has a nominated node, a nomination that was decided in between stays.
func (n nominations) set(pod *v1.Pod) error {
	key := name{pod.Namespace, pod.Name}
	before, ok := n[key]
	switch {
	case pod.Status.NominatedNodeName != "":
		return n.add(pod, false)
	case ok && before.decided && before.GetPod().UID == pod.UID:
		pod = pod.DeepCopy()
		pod.Status.NominatedNodeName = before.GetPod().Status.NominatedNodeName
		return n.add(pod, true)
	}
	n.remove(key)
	return nil
}

func (n nominations) add(pod *v1.Pod, decided bool) error {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return fmt.Errorf("read the terms of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	n[name{pod.Namespace, pod.Name}] = nomination{info, decided}
	return nil
}

func (n nominations) remove(key name) { delete(n, key) }

// Nominate nominates a pending pod to a node, or to none, before the API shows it.
func (s *Scheduler) Nominate(pod *v1.Pod, nodeName string) error {
	if nodeName == "" {
		s.nominated.remove(name{pod.Namespace, pod.Name})
		return nil
	}
	shown := pod.Status.NominatedNodeName
	pod = pod.DeepCopy()
	pod.Status.NominatedNodeName = nodeName
	return s.nominated.add(pod, shown == "")
}

// on lists the pods that are nominated to the node, by namespace and name.
func (n nominations) on(nodeName string) []fwk.PodInfo {
	var on []fwk.PodInfo
	for _, info := range n {
		if info.GetPod().Status.NominatedNodeName == nodeName {
			on = append(on, info.PodInfo)
		}
	}
	slices.SortFunc(on, func(a, b fwk.PodInfo) int { return byName(a.GetPod(), b.GetPod()) })
	return on
}

// AddNominatedPod is for the scheduling loop, which never runs.
func (n nominations) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}

// DeleteNominatedPodIfExists is for the loop, too.
func (n nominations) DeleteNominatedPodIfExists(*v1.Pod) {}

// UpdateNominatedPod is for the loop, too.
func (n nominations) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo) {}
