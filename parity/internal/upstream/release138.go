//go:build release138

package upstream

import (
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	draapi "k8s.io/dynamic-resource-allocation/api"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	plfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// victimsOnNode is a candidate of preemption.
type victimsOnNode = fwk.PreemptionCandidate

// deleted is the first result of PreemptPod for a pod that the API server deletes.
const deleted = true

// executor returns the part of the plugin that evicts.
func executor(plugin *defaultpreemption.DefaultPreemption) *preemption.Executor {
	return plugin.Executor.(*preemption.Executor)
}

// orderVictims does nothing, because the order of victims is certain.
func orderVictims(*defaultpreemption.DefaultPreemption) {}

// frameworkOptions returns the options that only one release has.
func frameworkOptions() []frameworkruntime.Option {
	return []frameworkruntime.Option{frameworkruntime.WithPreemptionManager(func(handle fwk.Handle) fwk.PreemptionManager {
		return preemption.NewPreemptionManager(handle, plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	})}
}

// sliceKind is the type of ResourceSlices in informers.
var sliceKind = &draapi.ResourceSlice{}

// sliceOptions returns the options for a tracker that reads the factory's ResourceSlices.
func sliceOptions(factory informers.SharedInformerFactory) resourceslicetracker.Options {
	informer := draapi.NewInformerForResourceSlice(factory)
	return resourceslicetracker.Options{SliceInformer: informer, SliceLister: draapi.NewResourceSliceLister(informer.GetIndexer())}
}

// stored converts an object to its type in informers.
func stored(object runtime.Object) (runtime.Object, error) {
	slice, ok := object.(*resourcev1.ResourceSlice)
	if !ok {
		return object, nil
	}
	made := &draapi.ResourceSlice{}
	if err := draapi.Convert_v1_ResourceSlice_To_api_ResourceSlice(slice, made, nil); err != nil {
		return nil, fmt.Errorf("convert ResourceSlice %s: %w", slice.Name, err)
	}
	return made, nil
}

// NominatedPodsForNode lists the pods that are nominated to the node, by namespace and
// name.
func (n nominations) NominatedPodsForNode(_ klog.Logger, nodeName string) []fwk.PodInfo {
	return n.on(nodeName)
}
