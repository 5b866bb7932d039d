package config

import (
	"fmt"

	"k8s.io/component-base/featuregate"
)

// Gates are the states of feature gates.
type Gates interface {
	Enabled(name featuregate.Feature) bool
}

// The feature gates that change the meaning of a configuration.
const (
	componentFlagz                 featuregate.Feature = "ComponentFlagz"
	componentStatusz               featuregate.Feature = "ComponentStatusz"
	coordinatedLeaderElection      featuregate.Feature = "CoordinatedLeaderElection"
	deferredPodScheduling          featuregate.Feature = "InPlacePodVerticalScalingSchedulerPreemption"
	draDeviceBindingConditions     featuregate.Feature = "DRADeviceBindingConditions"
	draSchedulerFilterTimeout      featuregate.Feature = "DRASchedulerFilterTimeout"
	genericWorkload                featuregate.Feature = "GenericWorkload"
	storageCapacityScoring         featuregate.Feature = "StorageCapacityScoring"
	taintTolerationComparison      featuregate.Feature = "TaintTolerationComparisonOperators"
	topologyAwareScheduling        featuregate.Feature = "TopologyAwareWorkloadScheduling"
	matchLabelKeysInSpread         featuregate.Feature = "MatchLabelKeysInPodTopologySpread"
	matchLabelKeysMerge            featuregate.Feature = "MatchLabelKeysInPodTopologySpreadSelectorMerge"
	podLevelResources              featuregate.Feature = "PodLevelResources"
	podLevelResourcesResize        featuregate.Feature = "InPlacePodLevelResourcesVerticalScaling"
	popFromBackoff                 featuregate.Feature = "SchedulerPopFromBackoffQ"
	draWorkloadClaims              featuregate.Feature = "DRAWorkloadResourceClaims"
	compositePodGroup              featuregate.Feature = "CompositePodGroup"
	podGroupPreemption             featuregate.Feature = "PodGroupPreemptionPolicy"
	nominatedNodeNameBeforeBinding featuregate.Feature = "NominatedNodeNameForExpectation"
)

// without lists the gate states that kube-scheduler supports and Berth ignores, with
// Berth's behaviour instead. It omits gates that only change kube-scheduler's
// implementation. Gates that choose plugins are omitted, too, because missing plugins are
// reported anyway.
func without() []ineffective {
	return []ineffective{
		{popFromBackoff, false, "pods that back off are tried when nothing else waits"},
		{podLevelResources, false, "pod-level resources count"},
		{podLevelResourcesResize, false, "pod-level resources count as allocated"},
		{matchLabelKeysInSpread, false, "matchLabelKeys of topology spread constraints count"},
		{matchLabelKeysMerge, false, "matchLabelKeys count even where the API server has merged them into the selector"},
		{draNodeAllocatable, true, "cpu and memory of a node that devices represent are not counted"},
		{deferredPodScheduling, true, "resizes that wait for resources do not preempt pods"},
	}
}

// ineffective is a gate state that Berth ignores.
type ineffective struct {
	gate    featuregate.Feature
	on      bool
	instead string
}

// notesOnGates returns notes on the gates in such a state.
func notesOnGates(gates Gates) []string {
	var notes []string
	for _, row := range without() {
		if gates.Enabled(row.gate) == row.on {
			notes = append(notes, fmt.Sprintf("feature gate %s=%v has no effect: %s", row.gate, row.on, row.instead))
		}
	}
	return notes
}
