package framework

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// PodsToActivateKey is the CycleState key of a *PodsToActivate that plugins may fill.
// Pending pods in it move to the active queue after a successful attempt of the
// CycleState's pod, and once more when that pod is bound.
const PodsToActivateKey fwk.StateKey = "kubernetes.io/pods-to-activate"

// PodsToActivate is a set of pods that a plugin wants retried.
type PodsToActivate struct {
	sync.Mutex
	// Map is keyed by namespace/name, see GetNamespacedName. Hold the mutex to read or
	// write it.
	Map map[string]*v1.Pod
}

// NewPodsToActivate returns an empty set.
func NewPodsToActivate() *PodsToActivate { return &PodsToActivate{Map: map[string]*v1.Pod{}} }

// Clone returns the same pointer, so that dry runs activate the same pods.
func (p *PodsToActivate) Clone() fwk.StateData { return p }
