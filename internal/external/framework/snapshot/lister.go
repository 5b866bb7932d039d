package snapshot

import (
	"errors"
	"fmt"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

var (
	_ fwk.MutableSnapshotSharedLister = (*Lister)(nil)
	_ fwk.NodeInfoLister              = (*Lister)(nil)
	_ fwk.StorageInfoLister           = (*Lister)(nil)
)

// Lister has the nodes as of the beginning of the last turn; none before the first.
// Plugins may keep it. The slices and NodeInfos that it returns must not be changed: see
// framework.NodeInfo.
type Lister struct{ content atomic.Pointer[content] }

// NodeInfos returns the nodes.
func (l *Lister) NodeInfos() fwk.NodeInfoLister { return l }

// StorageInfos returns the lister of claims in use.
func (l *Lister) StorageInfos() fwk.StorageInfoLister { return l }

// List returns all nodes, in Berth's internal order. The error is nil.
func (l *Lister) List() ([]fwk.NodeInfo, error) { return l.content.Load().nodes(), nil }

// HavePodsWithAffinityList returns the nodes with pods that have affinity or
// anti-affinity to others. The error is nil.
func (l *Lister) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) {
	return l.content.Load().withAffinity(), nil
}

// HavePodsWithRequiredAntiAffinityList returns the nodes with pods that have required
// anti-affinity. The error is nil.
func (l *Lister) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	return l.content.Load().withRequiredAntiAffinity(), nil
}

// HavePodsWithRequiredNonHostScopedAntiAffinityList returns none. So does kube-scheduler
// unless InterPodAffinityHostnameFastPath is on.
func (l *Lister) HavePodsWithRequiredNonHostScopedAntiAffinityList() ([]fwk.NodeInfo, error) {
	return nil, nil
}

// Get returns a node, or an error if the name is unknown.
func (l *Lister) Get(name string) (fwk.NodeInfo, error) {
	c := l.content.Load()
	slot, ok := c.byName[name]
	if !ok {
		return nil, fmt.Errorf("nodeinfo not found for node name %q", name)
	}
	return c.types.ShownNode(c.at(slot).info), nil
}

// IsPVCUsedByPods reports whether a pod on a node uses the claim, which is
// namespace/name.
func (l *Lister) IsPVCUsedByPods(key string) bool {
	for _, e := range l.content.Load().each {
		if e.info.GetPVCRefCounts()[key] > 0 {
			return true
		}
	}
	return false
}

// Berth has no pod groups for out-of-tree plugins. All of the listers below are empty,
// like kube-scheduler's without GenericWorkload.

// PodGroupStates returns a lister without groups.
func (l *Lister) PodGroupStates() fwk.PodGroupStateLister { return noGroupStates{} }

// PodGroups returns a lister without groups.
func (l *Lister) PodGroups() fwk.PodGroupLister { return noGroups{} }

// CompositePodGroupStates returns a lister without groups.
func (l *Lister) CompositePodGroupStates() fwk.CompositePodGroupStateLister {
	return noCompositeGroupStates{}
}

// CompositePodGroups returns a lister without groups.
func (l *Lister) CompositePodGroups() fwk.CompositePodGroupLister { return noCompositeGroups{} }

type (
	noGroups               struct{}
	noGroupStates          struct{}
	noCompositeGroups      struct{}
	noCompositeGroupStates struct{}
)

func (noGroups) Get(string, string) (*schedulingv1beta1.PodGroup, error) {
	return nil, errors.New("generic workload feature gate is disabled")
}

func (noGroupStates) Get(namespace, name string) (fwk.PodGroupState, error) {
	return nil, fmt.Errorf("pod group state not found for pod group %s/%s", namespace, name)
}

func (noCompositeGroups) Get(string, string) (*schedulingv1alpha3.CompositePodGroup, error) {
	return nil, errors.New("composite pod group feature gate is disabled")
}

func (noCompositeGroupStates) Get(namespace, name string) (fwk.CompositePodGroupState, error) {
	return nil, fmt.Errorf("composite pod group state not found for pod group %s/%s", namespace, name)
}

// errNoMutation is the error of methods that change a snapshot. They are for
// PodGroupPostFilter plugins, which Berth does not run.
var errNoMutation = errors.New("the snapshot cannot be changed: only PodGroupPostFilter plugins may do that, and GenericWorkload is not supported for out-of-tree plugins; " +
	"change what NodeInfo.Snapshot() returns instead")

// StartMutations returns an error: a snapshot cannot be changed.
func (l *Lister) StartMutations() error { return errNoMutation }

// EndMutations returns an error: a snapshot cannot be changed.
func (l *Lister) EndMutations() error { return errNoMutation }

// AddPod returns an error: a snapshot cannot be changed.
func (l *Lister) AddPod(fwk.PodInfo, string) error { return errNoMutation }

// RemovePod returns an error: a snapshot cannot be changed.
func (l *Lister) RemovePod(klog.Logger, *v1.Pod, string) error { return errNoMutation }
