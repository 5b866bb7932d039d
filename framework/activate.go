package framework

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// PodsToActivateKey is the key of the CycleState under which plugins leave a *PodsToActivate. Its pods are tried again at once, if they wait, when the
// pod's turn has ended with a node, and once more when it is bound.
const PodsToActivateKey fwk.StateKey = "kubernetes.io/pods-to-activate"

// PodsToActivate are pods that a plugin wants tried again.
type PodsToActivate struct {
	sync.Mutex
	// Map is by namespace/name, see GetNamespacedName. It is read and written under the mutex.
	Map map[string]*v1.Pod
}

// NewPodsToActivate returns an empty list.
func NewPodsToActivate() *PodsToActivate { return &PodsToActivate{Map: map[string]*v1.Pod{}} }

// Clone returns the same pointer: a dry run wants the same pods tried.
func (p *PodsToActivate) Clone() fwk.StateData { return p }
