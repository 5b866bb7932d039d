package config

import (
	"slices"

	"k8s.io/component-base/featuregate"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/decide/allocator"
	"github.com/berth-scheduler/berth/internal/decide/plugins/dynamicresources"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// The feature gates of parts of DynamicResources.
const (
	draAdminAccess             featuregate.Feature = "DRAAdminAccess"
	draConsumableCapacity      featuregate.Feature = "DRAConsumableCapacity"
	draDerivedAttributes       featuregate.Feature = "DRADerivedAttributes"
	draDeviceCompatibility     featuregate.Feature = "DRADeviceCompatibilityGroups"
	draDeviceTaintRules        featuregate.Feature = "DRADeviceTaintRules"
	draDeviceTaints            featuregate.Feature = "DRADeviceTaints"
	draFractionalCapacityRange featuregate.Feature = "DRAFractionalCapacityRange"
	draNodeAllocatable         featuregate.Feature = "DRANodeAllocatableResources"
	draListTypeAttributes      featuregate.Feature = "DRAListTypeAttributes"
	draPartitionableDevices    featuregate.Feature = "DRAPartitionableDevices"
	draPrioritizedList         featuregate.Feature = "DRAPrioritizedList"
)

// barDevices rejects pods that need devices if the profile enables DynamicResources at
// only some of the points that it needs. A profile that enables it at no deciding point
// is unaffected.
func barDevices(profile *plugin.Profile, order *effective) {
	at := func(p point) bool { return slices.Contains(order[p], dynamicresources.Name) }
	if !slices.ContainsFunc(deciding[:], at) {
		return
	}
	var missing []string
	for _, p := range []point{preFilter, filter, reserve, preBind} {
		if !at(p) {
			missing = append(missing, pointNames[p].field)
		}
	}
	if len(missing) > 0 {
		profile.PreFilters = append(profile.PreFilters, dynamicresources.NewBar(missing...))
	}
}

// hasGroupClaims reports whether PodGroups have claims of their own.
func hasGroupClaims(gates Gates) bool {
	return gates.Enabled(genericWorkload) && gates.Enabled(draWorkloadClaims)
}

// newDynamicResources returns the constructor of DynamicResources with the parts that the
// gates choose.
func newDynamicResources(gates Gates) func(args *configv1.DynamicResourcesArgs) (*dynamicresources.Plugin, error) {
	return func(args *configv1.DynamicResourcesArgs) (*dynamicresources.Plugin, error) {
		config := dynamicresources.Config{
			TaintRules:  gates.Enabled(draDeviceTaintRules),
			GroupClaims: hasGroupClaims(gates),
			Features: allocator.Features{
				AdminAccess:             gates.Enabled(draAdminAccess),
				CompatibilityGroups:     gates.Enabled(draDeviceCompatibility),
				ConsumableCapacity:      gates.Enabled(draConsumableCapacity),
				DerivedAttributes:       gates.Enabled(draDerivedAttributes),
				DeviceBindingAndStatus:  gates.Enabled(draDeviceBindingConditions),
				DeviceTaints:            gates.Enabled(draDeviceTaints),
				FractionalCapacityRange: gates.Enabled(draFractionalCapacityRange),
				ListTypeAttributes:      gates.Enabled(draListTypeAttributes),
				PartitionableDevices:    gates.Enabled(draPartitionableDevices),
				PrioritizedList:         gates.Enabled(draPrioritizedList),
			},
		}
		if args.FilterTimeout != nil {
			config.FilterTimeout = args.FilterTimeout.Duration
		}
		if args.BindingTimeout != nil {
			config.BindingTimeout = args.BindingTimeout.Duration
		}
		return dynamicresources.New(config), nil
	}
}
