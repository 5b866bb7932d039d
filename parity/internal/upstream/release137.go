//go:build !release138

package upstream

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// This file and release138.go have the same names. They adapt the package to Go
// interfaces that differ between releases of k8s.io/kubernetes.

// victimsOnNode is a candidate of preemption.
type victimsOnNode = preemption.Candidate

// deleted is the first result of PreemptPod for a pod that the API server deletes.
const deleted = false

// executor returns the part of the plugin that evicts.
func executor(plugin *defaultpreemption.DefaultPreemption) *preemption.Executor {
	return plugin.Executor
}

// orderVictims makes the order of victims certain.
func orderVictims(plugin *defaultpreemption.DefaultPreemption) {
	inAnyOrder := plugin.MoreImportantVictim
	plugin.MoreImportantVictim = func(a, b preemption.Victim) bool { return moreImportant(inAnyOrder, a, b) }
}

// moreImportant orders pods that kube-scheduler regards as equally important by name. All
// pods that have not started are equal: kube-scheduler regards them as started at the
// moment of the comparison.
func moreImportant(inAnyOrder defaultpreemption.MoreImportantVictimFunc, a, b preemption.Victim) bool {
	p, q := a.Pods()[0].GetPod(), b.Pods()[0].GetPod()
	if a.Priority() == b.Priority() && p.Status.StartTime == nil && q.Status.StartTime == nil {
		return byName(p, q) < 0
	}
	return inAnyOrder(a, b) || !inAnyOrder(b, a) && byName(p, q) < 0
}

// frameworkOptions returns the options that only one release has.
func frameworkOptions() []frameworkruntime.Option { return nil }

// sliceKind is the type of ResourceSlices in informers.
var sliceKind = &resourcev1.ResourceSlice{}

// sliceOptions returns the options for a tracker that reads the factory's ResourceSlices.
func sliceOptions(factory informers.SharedInformerFactory) resourceslicetracker.Options {
	return resourceslicetracker.Options{SliceInformer: factory.Resource().V1().ResourceSlices()}
}

// stored converts an object to its type in informers.
func stored(object runtime.Object) (runtime.Object, error) { return object, nil }

// NominatedPodsForNode lists the pods that are nominated to the node, by namespace and
// name.
func (n nominations) NominatedPodsForNode(nodeName string) []fwk.PodInfo { return n.on(nodeName) }
