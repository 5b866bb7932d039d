package dynamicresources

import (
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/decide/allocator"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// defaults returns the plugin with kube-scheduler's defaults.
func defaults() *Plugin {
	return New(Config{
		Features: allocator.Features{
			AdminAccess: true, ConsumableCapacity: true, DeviceBindingAndStatus: true, DeviceTaints: true, FractionalCapacityRange: true,
			PartitionableDevices: true, PrioritizedList: true,
		},
		TaintRules: true, FilterTimeout: 10 * time.Second, BindingTimeout: 10 * time.Minute,
	})
}

func TestContract(t *testing.T) {
	plugintest.CheckContract(t, defaults(), plugintest.Contract{
		Name: "DynamicResources", FilterReads: model.Labels | model.Devices | model.Allocatable,
		ScoreReads: model.Labels | model.Devices | model.Allocatable, Normalization: model.Largest,
		Reads: []model.Kind{model.ResourceClaimKind, model.ResourceSliceKind, model.DeviceClassKind, model.DeviceTaintRuleKind},
		Events: []string{
			"NodeAdd NodeUpdateNodeAllocatable NodeUpdateNodeLabel", "resource.k8s.io/DeviceClassAdd resource.k8s.io/DeviceClassUpdate",
			"resource.k8s.io/ResourceSliceAdd resource.k8s.io/ResourceSliceUpdate, asked",
			"resource.k8s.io/ResourceClaimDelete resource.k8s.io/ResourceClaimUpdate, asked",
			"resource.k8s.io/ResourceClaimDelete, hint, alike, cause",
			"resource.k8s.io/ResourceClaimAdd resource.k8s.io/ResourceClaimDelete resource.k8s.io/ResourceClaimUpdate, hint, alike, cause", "TargetPodUpdatePodGeneratedResourceClaim, hint",
		},
	})
}
