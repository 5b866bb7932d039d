package random

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

// Kind names the change of a mutation.
type Kind string

// The kinds. Each adds, removes or replaces exactly one object.
const (
	NodeAdded       Kind = "node added"
	NodeRemoved     Kind = "node removed" // its pods stay behind
	NodeRelabelled  Kind = "node relabelled"
	NodeTainted     Kind = "node tainted" // all taints drawn anew
	NodeCordoned    Kind = "node cordoned or uncordoned"
	NodeAllocatable Kind = "node allocatable changed"
	NodeImages      Kind = "node images changed"
	NodeFeatures    Kind = "node features changed"
	PodPending      Kind = "pod created"
	// A pending pod of the cluster is bound, or a bound pod appears.
	PodPlaced     Kind = "pod placed"
	PodDeleted    Kind = "pod deleted"
	PodDeleting   Kind = "pod deletion requested"
	PodFinished   Kind = "pod finished"
	PodResized    Kind = "pod resized" // by status, sometimes also by spec
	PodRelabelled Kind = "pod relabelled"
	// The nomination of a pending pod is set or cleared.
	PodNominated Kind = "pod nominated"

	// Only TopologyChange draws these.
	NamespaceAdded      Kind = "namespace added"
	NamespaceRemoved    Kind = "namespace removed" // its pods stay behind
	NamespaceRelabelled Kind = "namespace relabelled"
	ServiceAdded        Kind = "service added"
	ServiceRemoved      Kind = "service removed"
	ServiceChanged      Kind = "service selector changed"
	// A ReplicationController, ReplicaSet or StatefulSet.
	ControllerAdded   Kind = "controller added"
	ControllerRemoved Kind = "controller removed"

	// Only StorageChange draws these.
	StorageSet     Kind = "storage object added or replaced" // by another of its name
	StorageChanged Kind = "storage object changed"
	StorageRemoved Kind = "storage object removed"

	// Only PreemptionChange draws these.
	BudgetSet     Kind = "budget added, replaced or changed"
	BudgetRemoved Kind = "budget removed"
	PodEvicted    Kind = "pod evicted" // its deletion is requested, mostly by a scheduler
	PodStarted    Kind = "pod started" // or its start time is lost
)

// Mutation is a change to a cluster. Of the six objects only the relevant ones are set:
// old without new is a removal, new without old an addition. The new object has a higher
// resourceVersion. It may otherwise equal the old one, because the draw may repeat.
type Mutation struct {
	Kind             Kind
	OldNode, NewNode *v1.Node
	OldPod, NewPod   *v1.Pod
	// Of another kind, such as *v1.Namespace, *appsv1.ReplicaSet or *v1.PersistentVolume.
	Old, New metav1.Object
	// The changed cluster; the old cluster is not modified.
	After oracle.Cluster
}

// String describes the change, for a test's log.
func (m Mutation) String() string {
	for _, o := range []metav1.Object{object(m.NewNode), object(m.OldNode), object(m.NewPod), object(m.OldPod), m.New, m.Old} {
		if o != nil {
			return fmt.Sprintf("%s: %s", m.Kind, o.GetName())
		}
	}
	return string(m.Kind)
}

// object turns a nil pointer into a nil interface.
func object[T any, P interface {
	*T
	metav1.Object
}](p P) metav1.Object {
	if p == nil {
		return nil
	}
	return p
}

// Change draws a mutation of the cluster. If no pod or node of the drawn kind exists, it
// adds one.
func Change(r *rand.Rand, c oracle.Cluster) Mutation { return nodeLocal().change(r, c) }

// maker draws the objects that changes add, and the labels they change.
type maker struct {
	node       func(r *rand.Rand, i int) *v1.Node
	nodeLabels func(r *rand.Rand, name string) map[string]string
	pod        func(r *rand.Rand, i int) *v1.Pod
	placedPod  func(r *rand.Rand, i int, nodeName string) *v1.Pod
	podLabels  func(r *rand.Rand) map[string]string
}

func nodeLocal() maker { return maker{Node, nodeLabels, Pod, PlacedPod, podLabels} }

func (m maker) change(r *rand.Rand, c oracle.Cluster) Mutation {
	kind := pick(r,
		NodeAdded, NodeRemoved, NodeRelabelled, NodeTainted, NodeCordoned, NodeAllocatable, NodeImages, NodeFeatures,
		PodPending, PodPlaced, PodPlaced, PodPlaced, PodPlaced, PodDeleted, PodDeleted, PodDeleting, PodFinished, PodResized, PodResized, PodRelabelled, PodNominated, PodNominated)
	switch kind {
	case NodeAdded:
		return m.addNode(r, c)
	case NodeRemoved, NodeRelabelled, NodeTainted, NodeCordoned, NodeAllocatable, NodeImages, NodeFeatures:
		if len(c.Nodes) == 0 {
			return m.addNode(r, c)
		}
		return m.changeNode(r, c, kind)
	case PodPending:
		return addPod(c, PodPending, m.pod(r, freePod(c)))
	case PodPlaced:
		return m.placePod(r, c)
	case PodNominated:
		return m.nominatePod(r, c)
	}
	return m.changePod(r, c, kind)
}

func (m maker) addNode(r *rand.Rand, c oracle.Cluster) Mutation {
	added := Mutation{Kind: NodeAdded, NewNode: m.node(r, freeNode(c)), After: cloned(c)}
	added.After.Nodes = append(added.After.Nodes, added.NewNode)
	return added
}

func addPod(c oracle.Cluster, kind Kind, p *v1.Pod) Mutation {
	m := Mutation{Kind: kind, NewPod: p, After: cloned(c)}
	m.After.Pods = append(m.After.Pods, p)
	return m
}

// cloned returns a cluster of the same objects, with its own lists.
func cloned(c oracle.Cluster) oracle.Cluster {
	return oracle.Cluster{
		Nodes: slices.Clone(c.Nodes), Pods: slices.Clone(c.Pods), Namespaces: slices.Clone(c.Namespaces), Services: slices.Clone(c.Services),
		ReplicationControllers: slices.Clone(c.ReplicationControllers), ReplicaSets: slices.Clone(c.ReplicaSets), StatefulSets: slices.Clone(c.StatefulSets),
		PersistentVolumes: slices.Clone(c.PersistentVolumes), PersistentVolumeClaims: slices.Clone(c.PersistentVolumeClaims),
		StorageClasses: slices.Clone(c.StorageClasses), CSINodes: slices.Clone(c.CSINodes), CSIDrivers: slices.Clone(c.CSIDrivers),
		CSIStorageCapacities: slices.Clone(c.CSIStorageCapacities), VolumeAttachments: slices.Clone(c.VolumeAttachments),
		DisruptionBudgets: slices.Clone(c.DisruptionBudgets), Evicted: slices.Clone(c.Evicted),
	}
}

// freeNode returns the lowest unused node number, so that a removed node's name is used
// again, with another UID.
func freeNode(c oracle.Cluster) int {
	for i := 0; ; i++ {
		name := fmt.Sprintf("node-%d", i)
		if !slices.ContainsFunc(c.Nodes, func(n *v1.Node) bool { return n.Name == name }) {
			return i
		}
	}
}

func freePod(c oracle.Cluster) int {
	for i := 0; ; i++ {
		name := fmt.Sprintf("pod-%d", i)
		if !slices.ContainsFunc(c.Pods, func(p *v1.Pod) bool { return p.Name == name }) {
			return i
		}
	}
}

func (m maker) changeNode(r *rand.Rand, c oracle.Cluster, kind Kind) Mutation {
	at := r.IntN(len(c.Nodes))
	changed := Mutation{Kind: kind, OldNode: c.Nodes[at], After: cloned(c)}
	if kind == NodeRemoved {
		changed.After.Nodes = slices.Delete(changed.After.Nodes, at, at+1)
		return changed
	}
	n := c.Nodes[at].DeepCopy()
	n.ResourceVersion = next(n.ResourceVersion)
	switch kind {
	case NodeRelabelled:
		n.Labels = m.nodeLabels(r, n.Name)
	case NodeTainted:
		n.Spec.Taints = taints(r)
	case NodeCordoned:
		n.Spec.Unschedulable = !n.Spec.Unschedulable
	case NodeAllocatable:
		n.Status.Allocatable = allocatable(r)
	case NodeImages:
		n.Status.Images = images(r)
	case NodeFeatures:
		n.Status.DeclaredFeatures = features(r)
	}
	changed.NewNode = n
	changed.After.Nodes[at] = n
	return changed
}

// placePod binds a pending pod of the cluster. Without one, and sometimes otherwise, it
// adds a pod that is already bound.
func (m maker) placePod(r *rand.Rand, c oracle.Cluster) Mutation {
	if len(c.Nodes) == 0 {
		return m.addNode(r, c)
	}
	where := pick(r, c.Nodes...).Name
	pending := indexes(c.Pods, func(p *v1.Pod) bool { return p.Spec.NodeName == "" })
	if len(pending) == 0 || chance(r, 30) {
		return addPod(c, PodPlaced, m.placedPod(r, freePod(c), where))
	}
	return replacePod(c, PodPlaced, pick(r, pending...), func(p *v1.Pod) { p.Spec.NodeName, p.Status.NominatedNodeName = where, "" })
}

// nominatePod nominates a pending pod to a node, which may be full or missing, or to
// none.
func (m maker) nominatePod(r *rand.Rand, c oracle.Cluster) Mutation {
	pending := indexes(c.Pods, func(p *v1.Pod) bool { return p.Spec.NodeName == "" })
	if len(pending) == 0 || len(c.Nodes) == 0 {
		return addPod(c, PodPending, m.pod(r, freePod(c)))
	}
	return replacePod(c, PodNominated, pick(r, pending...), func(p *v1.Pod) {
		p.Status.NominatedNodeName = pick(r, c.Nodes...).Name
		if chance(r, 15) {
			p.Status.NominatedNodeName = pick(r, "", "gone")
		}
	})
}

func (m maker) changePod(r *rand.Rand, c oracle.Cluster, kind Kind) Mutation {
	placed := indexes(c.Pods, func(p *v1.Pod) bool { return p.Spec.NodeName != "" })
	if len(placed) == 0 {
		return m.placePod(r, c)
	}
	at := pick(r, placed...)
	switch kind {
	case PodDeleted:
		deleted := Mutation{Kind: kind, OldPod: c.Pods[at], After: cloned(c)}
		deleted.After.Pods = slices.Delete(deleted.After.Pods, at, at+1)
		return deleted
	case PodDeleting:
		return replacePod(c, kind, at, func(p *v1.Pod) { p.DeletionTimestamp = ptr(epoch); p.DeletionGracePeriodSeconds = ptr(int64(30)) })
	case PodFinished:
		return replacePod(c, kind, at, func(p *v1.Pod) { p.Status.Phase = pick(r, v1.PodSucceeded, v1.PodFailed) })
	case PodRelabelled:
		return replacePod(c, kind, at, func(p *v1.Pod) { p.Labels = m.podLabels(r) })
	}
	return replacePod(c, PodResized, at, func(p *v1.Pod) {
		if chance(r, 50) {
			resizeSpec(r, &p.Spec.Containers[0])
		}
		setResize(r, p)
	})
}

// resizeSpec requests other amounts of cpu and memory, the only resources that can be
// resized in place.
func resizeSpec(r *rand.Rand, c *v1.Container) {
	if c.Resources.Requests == nil {
		c.Resources.Requests = v1.ResourceList{}
	}
	set(r, c.Resources.Requests, 80, v1.ResourceCPU, "100m", "500m", "1", "2")
	set(r, c.Resources.Requests, 60, v1.ResourceMemory, "64Mi", "512Mi", "1Gi")
}

func replacePod(c oracle.Cluster, kind Kind, at int, change func(*v1.Pod)) Mutation {
	p := c.Pods[at].DeepCopy()
	p.ResourceVersion = next(p.ResourceVersion)
	change(p)
	m := Mutation{Kind: kind, OldPod: c.Pods[at], NewPod: p, After: cloned(c)}
	m.After.Pods[at] = p
	return m
}

func indexes(pods []*v1.Pod, wanted func(*v1.Pod) bool) []int {
	var at []int
	for i, p := range pods {
		if wanted(p) {
			at = append(at, i)
		}
	}
	return at
}

// next increments a resource version. This package only makes numeric versions.
func next(version string) string {
	n, _ := strconv.Atoi(version)
	return strconv.Itoa(n + 1)
}
