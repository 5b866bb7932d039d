package config

import (
	"fmt"

	"k8s.io/component-base/featuregate"
)

// Gates says which features are on.
type Gates interface {
	Enabled(name featuregate.Feature) bool
}

// Feature gates that change what a configuration means. Whatever asks for one asks here.
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

// withoutGroups is what becomes of pods with a spec.schedulingGroup.
const withoutGroups = "pods of a pod group stay pending where GangScheduling is enabled, and are scheduled one by one where it is not"

// without are the gates whose other state kube-scheduler follows and Berth does not, with what holds instead. Gates that only
// change how kube-scheduler does its work are not among them, nor are those that choose plugins, for plugins that are lacking are
// named anyway.
func without() []ineffective {
	return []ineffective{
		{popFromBackoff, false, "pods that back off are tried when nothing else waits"},
		{podLevelResources, false, "resources of a whole pod count"},
		{podLevelResourcesResize, false, "resources of a whole pod count as they were allocated"},
		{matchLabelKeysInSpread, false, "matchLabelKeys of topology spread constraints count"},
		{matchLabelKeysMerge, false, "matchLabelKeys count even where the API server has merged them into the selector"},
		{nominatedNodeNameBeforeBinding, false, "nothing is done between decision and binding that a nomination would announce"},
		{genericWorkload, true, withoutGroups},
		{compositePodGroup, true, withoutGroups},
		{podGroupPreemption, true, withoutGroups},
		{topologyAwareScheduling, true, withoutGroups},
		{draWorkloadClaims, true, withoutGroups},
		{deferredPodScheduling, true, "resizes that wait for resources do not preempt pods"},
	}
}

// ineffective is a state of a gate that is not followed.
type ineffective struct {
	gate    featuregate.Feature
	on      bool
	instead string
}

// notesOnGates says which gates are in a state that is not followed.
func notesOnGates(gates Gates) []string {
	var notes []string
	for _, row := range without() {
		if gates.Enabled(row.gate) == row.on {
			notes = append(notes, fmt.Sprintf("feature gate %s=%v has no effect: %s", row.gate, row.on, row.instead))
		}
	}
	return notes
}
