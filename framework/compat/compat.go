// Package compat passes values of kube-scheduler's concrete types to plugins.
//
// Plugins assert types of k8s.io/kubernetes/pkg/scheduler/framework: *PodsToActivate in
// the CycleState, *CycleState, *NodeInfo, *PodInfo, *Resource, *NodeToStatus,
// *QueuedPodInfo, and the Handle as a Framework. A scheduler that passes other types
// seems to work, and leaves pods pending. This module constructs the types, so that Berth
// itself does not import Kubernetes:
//
//	app.NewSchedulerCommand(app.WithTypes(compat.Types()), app.WithPlugin(...))
//
// It takes values of Berth's types and returns equal values of kube-scheduler's types. It
// owns nothing, and never reads Berth's state.
package compat

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	kube "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/berth-scheduler/berth/framework"
)

// Types returns the constructors of kube-scheduler's types.
func Types() *framework.Types {
	metrics.InitMetrics() // plugins may use them; they are not served
	return &framework.Types{
		CycleState:     func() fwk.CycleState { return kube.NewCycleState() },
		PodsToActivate: func() fwk.StateData { return kube.NewPodsToActivate() },
		PodInfo:        podInfo,
		NodeInfo:       nodeInfo,
		NodeToStatus: func(byName map[string]*fwk.Status, absent *fwk.Status) fwk.NodeToStatusReader {
			return kube.NewNodeToStatus(byName, absent)
		},
		Queued: queued,
		Handle: func(h fwk.Handle) fwk.Handle { return &handle{Handle: h} },
		Scheme: scheme.Scheme,
	}
}

func podInfo(from fwk.PodInfo) fwk.PodInfo {
	info := &kube.PodInfo{
		Pod:                        from.GetPod(),
		RequiredAffinityTerms:      from.GetRequiredAffinityTerms(),
		RequiredAntiAffinityTerms:  from.GetRequiredAntiAffinityTerms(),
		PreferredAffinityTerms:     from.GetPreferredAffinityTerms(),
		PreferredAntiAffinityTerms: from.GetPreferredAntiAffinityTerms(),
	}
	info.CalculateResource() // stores the sum without a lock; later calls only read it
	return info
}

func nodeInfo(from fwk.NodeInfo, pods []fwk.PodInfo) fwk.NodeInfo {
	info := kube.NewNodeInfo()
	if node := from.Node(); node != nil {
		info.SetNode(node)
	}
	info.Pods = pods
	for _, p := range pods {
		affinity := p.GetPod().Spec.Affinity
		if affinity == nil || affinity.PodAffinity == nil && affinity.PodAntiAffinity == nil {
			continue
		}
		info.PodsWithAffinity = append(info.PodsWithAffinity, p)
		if a := affinity.PodAntiAffinity; a != nil && len(a.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			info.PodsWithRequiredAntiAffinity = append(info.PodsWithRequiredAntiAffinity, p)
		}
	}
	info.UsedPorts, info.PVCRefCounts, info.ImageStates = from.GetUsedPorts(), from.GetPVCRefCounts(), from.GetImageStates()
	info.Requested, info.NonZeroRequested = resource(from.GetRequested()), resource(from.GetNonZeroRequested())
	info.Allocatable = resource(from.GetAllocatable())
	info.Generation, info.DeclaredFeatures = from.GetGeneration(), from.GetNodeDeclaredFeatures()
	return info
}

func resource(from fwk.Resource) *kube.Resource {
	r := &kube.Resource{
		MilliCPU: from.GetMilliCPU(), Memory: from.GetMemory(), EphemeralStorage: from.GetEphemeralStorage(),
		AllowedPodNumber: from.GetAllowedPodNumber(),
	}
	if scalars := from.GetScalarResources(); scalars != nil {
		r.ScalarResources = make(map[v1.ResourceName]int64, len(scalars))
		for name, n := range scalars {
			r.ScalarResources[name] = n
		}
	}
	return r
}

func queued(from fwk.QueuedEntityInfo, pod fwk.PodInfo) fwk.QueuedEntityInfo {
	own, _ := pod.(*kube.PodInfo)
	return &kube.QueuedPodInfo{PodInfo: own, QueueingParams: kube.QueueingParams{
		Timestamp:               from.GetTimestamp(),
		Attempts:                from.GetAttempts(),
		BackoffExpiration:       from.GetBackoffExpiration(),
		UnschedulableCount:      from.GetUnschedulableCount(),
		ConsecutiveErrorsCount:  from.GetConsecutiveErrorsCount(),
		InitialAttemptTimestamp: from.GetInitialAttemptTimestamp(),
		UnschedulablePlugins:    orEmpty(from.GetUnschedulablePlugins()),
		PendingPlugins:          orEmpty(from.GetPendingPlugins()),
		GatingPlugin:            from.GetGatingPlugin(),
		GatingPluginEvents:      from.GetGatingPluginEvents(),
	}}
}

func orEmpty(set sets.Set[string]) sets.Set[string] {
	if set == nil {
		return sets.New[string]()
	}
	return set
}
