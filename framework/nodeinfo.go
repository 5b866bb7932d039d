package framework

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/amount"
)

var (
	_ fwk.NodeInfo   = (*NodeInfo)(nil)
	_ klog.KMetadata = (*NodeInfo)(nil)
)

// NodeInfo is a node with its pods and their resource usage. The sums are always present.
// Ports, claims, images and similar data are computed on first use and updated
// afterwards.
//
// A plugin may change a NodeInfo that it constructed or got from Snapshot. NodeInfos from
// a lister or an extension point are shared by all plugins and must not be changed. Berth
// does not read them, but a change would stay until the node's next NodeInfo. Methods
// without side effects may run concurrently.
type NodeInfo struct {
	node *v1.Node
	// compiled is the node in Berth's state; nil for a node of a plugin.
	compiled *model.Node
	// pods is never changed below its length. Only a NodeInfo that owns it appends in
	// place.
	pods               []fwk.PodInfo
	owned              bool
	requested, nonZero Resource
	generation         int64
	imageSource        ImageSource

	// Nil until first use. If two goroutines compute a value at the same time, one result
	// wins.
	allocatable atomic.Pointer[Resource]
	features    atomic.Pointer[ndf.FeatureSet]
	images      atomic.Pointer[map[string]*fwk.ImageStateSummary]
	ports       atomic.Pointer[fwk.HostPortInfo]
	claims      atomic.Pointer[map[string]int]
	subsets     atomic.Pointer[subsets]
	shown       atomic.Pointer[fwk.NodeInfo] // see Types
}

// subsets are the pods with affinity or anti-affinity to other pods, and among them the
// pods with required anti-affinity.
type subsets struct{ affinity, antiAffinity []fwk.PodInfo }

// generations counts the changes of all NodeInfos, so that different contents have
// different generations.
var generations atomic.Int64

// NewNodeInfo returns a NodeInfo with these pods. Its node is set later.
func NewNodeInfo(pods ...*v1.Pod) *NodeInfo {
	n := &NodeInfo{pods: make([]fwk.PodInfo, 0, len(pods)), owned: true, generation: generations.Add(1)}
	for _, pod := range pods {
		n.AddPod(pod)
	}
	return n
}

// Node returns the node, or nil. It must not be changed.
func (n *NodeInfo) Node() *v1.Node {
	if n == nil {
		return nil
	}
	return n.node
}

// GetName returns the node's name, or a note in angle brackets if the node is missing.
func (n *NodeInfo) GetName() string {
	switch {
	case n == nil:
		return "<nil>"
	case n.node == nil:
		return "<no node>"
	}
	return n.node.Name
}

// GetNamespace returns "": a node has no namespace.
func (n *NodeInfo) GetNamespace() string { return "" }

// GetPods returns the pods on the node, assumed pods included. The slice must not be
// changed. Adding or removing pods does not change it.
func (n *NodeInfo) GetPods() []fwk.PodInfo { return n.pods }

// GetPodsWithAffinity returns the pods with affinity or anti-affinity to other pods.
func (n *NodeInfo) GetPodsWithAffinity() []fwk.PodInfo { return n.subset().affinity }

// GetPodsWithRequiredAntiAffinity returns the pods with required anti-affinity.
func (n *NodeInfo) GetPodsWithRequiredAntiAffinity() []fwk.PodInfo { return n.subset().antiAffinity }

// GetPodsWithRequiredNonHostScopedAntiAffinity returns nil. So does kube-scheduler unless
// InterPodAffinityHostnameFastPath, an alpha feature, is on.
func (n *NodeInfo) GetPodsWithRequiredNonHostScopedAntiAffinity() []fwk.PodInfo { return nil }

func (n *NodeInfo) subset() *subsets {
	return once(&n.subsets, func() *subsets {
		s := new(subsets)
		for _, p := range n.pods {
			if pod := p.GetPod(); hasAffinity(pod) {
				s.affinity = append(s.affinity, p)
				if hasRequiredAntiAffinity(pod) {
					s.antiAffinity = append(s.antiAffinity, p)
				}
			}
		}
		return s
	})
}

// once returns the pointer's value, and computes it first if it is nil.
func once[T any](p *atomic.Pointer[T], make func() *T) *T {
	if have := p.Load(); have != nil {
		return have
	}
	p.CompareAndSwap(nil, make())
	return p.Load()
}

// GetUsedPorts returns the host ports in use. The map is not a copy.
func (n *NodeInfo) GetUsedPorts() fwk.HostPortInfo {
	return *once(&n.ports, func() *fwk.HostPortInfo {
		used := fwk.HostPortInfo{}
		for _, p := range n.pods {
			usePorts(used, p)
		}
		return &used
	})
}

func usePorts(used fwk.HostPortInfo, p fwk.PodInfo) {
	for _, port := range portsOf(p) {
		used.Add(port.IP, string(port.Protocol), port.Port)
	}
}

func portsOf(p fwk.PodInfo) []model.HostPort {
	if own, ok := p.(*PodInfo); ok && own.compiled != nil {
		return own.compiled.Ports
	}
	return model.HostPortsOf(p.GetPod())
}

// GetPVCRefCounts returns the number of pods that use each claim, by namespace/name. A
// pod with two volumes of a claim counts twice. The map is not a copy.
func (n *NodeInfo) GetPVCRefCounts() map[string]int {
	return *once(&n.claims, func() *map[string]int {
		counts := map[string]int{}
		for _, p := range n.pods {
			countClaims(counts, p.GetPod(), +1)
		}
		return &counts
	})
}

func countClaims(counts map[string]int, pod *v1.Pod, sign int) {
	for i := range pod.Spec.Volumes {
		claim := pod.Spec.Volumes[i].PersistentVolumeClaim
		if claim == nil {
			continue
		}
		key := GetNamespacedName(pod.Namespace, claim.ClaimName)
		if counts[key] += sign; counts[key] <= 0 {
			delete(counts, key)
		}
	}
}

// GetRequested returns the sum of the pods' resources.
func (n *NodeInfo) GetRequested() fwk.Resource { return &n.requested }

// GetNonZeroRequested returns the pods' cpu and memory, with default amounts for
// containers without requests.
func (n *NodeInfo) GetNonZeroRequested() fwk.Resource { return &n.nonZero }

// GetAllocatable returns the node's allocatable resources; empty without a node.
func (n *NodeInfo) GetAllocatable() fwk.Resource {
	return once(&n.allocatable, func() *Resource {
		if n.compiled != nil {
			r := resourceOf(&n.compiled.Allocatable)
			r.AllowedPodNumber = int(n.compiled.AllowedPods)
			return &r
		}
		if n.node != nil {
			return NewResource(n.node.Status.Allocatable)
		}
		return new(Resource)
	})
}

// GetImageStates returns the node's images by name, with the number of nodes that have
// each image. The map is not a copy. It is empty unless the NodeInfo comes from Berth.
func (n *NodeInfo) GetImageStates() map[string]*fwk.ImageStateSummary {
	return *once(&n.images, func() *map[string]*fwk.ImageStateSummary {
		states := map[string]*fwk.ImageStateSummary{}
		if n.imageSource != nil {
			states = n.imageSource.ImageStates(n.compiled)
		}
		return &states
	})
}

// GetGeneration returns a number that grows with every change of the NodeInfo. A later
// NodeInfo of the same node has a larger number if anything changed.
func (n *NodeInfo) GetGeneration() int64 { return n.generation }

// GetNodeDeclaredFeatures returns the node's declared features that this version
// supports.
func (n *NodeInfo) GetNodeDeclaredFeatures() ndf.FeatureSet {
	return *once(&n.features, func() *ndf.FeatureSet {
		var set ndf.FeatureSet
		if n.node != nil {
			set = ndf.DefaultFramework.TryMap(n.node.Status.DeclaredFeatures)
		}
		return &set
	})
}

// Snapshot returns an independent copy. Nodes and PodInfos are shared.
func (n *NodeInfo) Snapshot() fwk.NodeInfo { return n.SnapshotConcrete() }

// SnapshotConcrete is Snapshot with the concrete type.
func (n *NodeInfo) SnapshotConcrete() *NodeInfo {
	c := &NodeInfo{
		node: n.node, compiled: n.compiled, pods: n.pods, generation: n.generation, imageSource: n.imageSource,
		requested: *n.requested.Clone(), nonZero: *n.nonZero.Clone(),
	}
	if r := n.allocatable.Load(); r != nil {
		c.allocatable.Store(r.Clone())
	}
	if f := n.features.Load(); f != nil {
		features := f.Clone()
		c.features.Store(&features)
	}
	if ports := n.ports.Load(); ports != nil {
		used := make(fwk.HostPortInfo, len(*ports))
		for ip, at := range *ports {
			used[ip] = maps.Clone(at)
		}
		c.ports.Store(&used)
	}
	if counts := n.claims.Load(); counts != nil {
		claims := maps.Clone(*counts)
		c.claims.Store(&claims)
	}
	if states := n.images.Load(); states != nil {
		images := make(map[string]*fwk.ImageStateSummary, len(*states))
		for name, s := range *states {
			images[name] = &fwk.ImageStateSummary{Size: s.Size, NumNodes: s.NumNodes}
		}
		c.images.Store(&images)
	}
	c.subsets.Store(n.subsets.Load()) // replaced at every change
	return c
}

// String returns the names of the pods, and the sums, for people.
func (n *NodeInfo) String() string {
	names := make([]string, len(n.pods))
	for i, p := range n.pods {
		names[i] = p.GetPod().Name
	}
	return fmt.Sprintf("&NodeInfo{Pods:%v, RequestedResource:%+v, NonZeroRequest: %+v, UsedPort: %v, AllocatableResource:%+v}",
		names, n.requested, n.nonZero, n.GetUsedPorts(), n.GetAllocatable())
}

// AddPod adds a pod.
func (n *NodeInfo) AddPod(pod *v1.Pod) { n.AddPodInfo(&PodInfo{pod: pod}) }

// AddPodInfo adds a pod. The PodInfo may be of any type and is kept. Its resources must
// not change.
func (n *NodeInfo) AddPodInfo(p fwk.PodInfo) {
	if !n.owned {
		n.pods, n.owned = append(make([]fwk.PodInfo, 0, len(n.pods)+4), n.pods...), true
	}
	n.pods = append(n.pods, p)
	n.count(p, +1)
	if ports := n.ports.Load(); ports != nil {
		usePorts(*ports, p)
	}
}

// RemovePod removes the pod with this pod's UID, with the resources it was added with.
// Without such a pod it returns an error.
func (n *NodeInfo) RemovePod(_ klog.Logger, pod *v1.Pod) error {
	if _, err := GetPodKey(pod); err != nil {
		return err
	}
	at := slices.IndexFunc(n.pods, func(p fwk.PodInfo) bool { return p.GetPod().UID == pod.UID })
	if at < 0 {
		return fmt.Errorf("no corresponding pod %s in pods of node %s", pod.Name, n.GetName())
	}
	removed := n.pods[at]
	left := append(make([]fwk.PodInfo, 0, len(n.pods)), n.pods[:at]...)
	n.pods, n.owned = append(left, n.pods[at+1:]...), true
	n.count(removed, -1)
	if ports := n.ports.Load(); ports != nil {
		n.freePorts(*ports, removed)
	}
	return nil
}

// freePorts removes the ports of a removed pod from the map, unless another pod of the
// node uses them.
func (n *NodeInfo) freePorts(used fwk.HostPortInfo, removed fwk.PodInfo) {
	for _, port := range portsOf(removed) {
		if !slices.ContainsFunc(n.pods, func(p fwk.PodInfo) bool { return slices.Contains(portsOf(p), port) }) {
			used.Remove(port.IP, string(port.Protocol), port.Port)
		}
	}
}

// count adds a pod to the sums (+1) or subtracts it (-1).
func (n *NodeInfo) count(p fwk.PodInfo, sign int64) {
	if sign < 0 && (n.requested.isSaturated() || n.nonZero.isSaturated()) {
		n.requested, n.nonZero = Resource{}, Resource{}
		for _, other := range n.pods {
			n.sum(other, +1)
		}
	} else {
		n.sum(p, sign)
	}
	if counts := n.claims.Load(); counts != nil {
		countClaims(*counts, p.GetPod(), int(sign))
	}
	n.subsets.Store(nil)
	n.shown.Store(nil)
	n.generation = generations.Add(1)
}

// sum adds sign times the pod's resources. A saturated sum must be recomputed instead.
func (n *NodeInfo) sum(p fwk.PodInfo, sign int64) {
	r := p.CalculateResource()
	n.requested.count(r.Resource, sign)
	n.nonZero.MilliCPU = amount.Add(n.nonZero.MilliCPU, sign*r.Non0CPU)
	n.nonZero.Memory = amount.Add(n.nonZero.Memory, sign*r.Non0Mem)
}

// SetNode sets the node, which must not change afterwards. The images stay those of the
// previous node.
func (n *NodeInfo) SetNode(node *v1.Node) {
	if n.imageSource != nil {
		n.GetImageStates()
	}
	n.node, n.compiled, n.imageSource = node, nil, nil
	n.allocatable.Store(nil)
	n.features.Store(nil)
	n.shown.Store(nil)
	n.generation = generations.Add(1)
}

// RemoveNode removes the node. The pods and the data of the node stay.
func (n *NodeInfo) RemoveNode() {
	n.GetAllocatable()
	n.GetNodeDeclaredFeatures()
	n.GetImageStates()
	n.node, n.compiled, n.imageSource = nil, nil, nil
	n.shown.Store(nil)
	n.generation = generations.Add(1)
}
