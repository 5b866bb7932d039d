package random

import (
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

const (
	zoneKey    = v1.LabelTopologyZone
	hostKey    = v1.LabelHostname
	rackKey    = "rack"
	nowhereKey = "nowhere" // no node has it
)

// TopologyCluster returns a cluster like Cluster, with labels, constraints and terms for
// PodTopologySpread and InterPodAffinity, and with the namespaces, services and
// controllers that they read.
func TopologyCluster(r *rand.Rand, size Size) oracle.Cluster {
	var c oracle.Cluster
	c.Namespaces = namespaces(r)
	for i := range r.IntN(4) {
		c.Services = append(c.Services, service(r, i))
	}
	for range r.IntN(5) {
		c = addController(r, c).After
	}
	for i := range size.Nodes {
		c.Nodes = append(c.Nodes, TopologyNode(r, i))
	}
	for range size.Placed {
		if size.Nodes > 0 {
			c.Pods = append(c.Pods, TopologyPlacedPod(r, len(c.Pods), pick(r, c.Nodes...).Name))
		}
	}
	for range size.Pending {
		c.Pods = append(c.Pods, TopologyPod(r, len(c.Pods)))
	}
	return c
}

// TopologyNode returns a node like Node, with topology labels, and mostly large enough
// for every pod.
func TopologyNode(r *rand.Rand, i int) *v1.Node {
	n := Node(r, i)
	n.Labels = topologyNodeLabels(r, n.Name)
	if chance(r, 80) {
		n.Status.Allocatable = v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("16"), v1.ResourceMemory: resource.MustParse("16Gi"), v1.ResourcePods: resource.MustParse("110"),
		}
	}
	if chance(r, 50) {
		n.Spec.Taints, n.Spec.Unschedulable = nil, false
	}
	return n
}

func topologyNodeLabels(r *rand.Rand, name string) map[string]string {
	if chance(r, 3) {
		return nil
	}
	labels := nodeLabels(r, name)
	if chance(r, 92) {
		labels[zoneKey] = pick(r, "za", "za", "za", "zb", "zb", "zb", "zc", "zc", "")
	}
	if chance(r, 85) {
		labels[rackKey] = pick(r, "r1", "r2", "r3")
	}
	switch {
	case chance(r, 4):
		delete(labels, hostKey)
	case chance(r, 6):
		labels[hostKey] = "node-0"
	}
	return labels
}

// TopologyPod returns a pending pod like Pod. It often has spread constraints, terms
// about other pods and a controller, and mostly no other fields that reject nodes.
func TopologyPod(r *rand.Rand, i int) *v1.Pod {
	p := Pod(r, i)
	p.Namespace = pick(r, "default", "default", "default", "default", "default", "other", "other", "third")
	p.Labels = topologyPodLabels(r)
	if chance(r, 75) {
		simplify(r, p)
	}
	if chance(r, 60) {
		p.Spec.NodeSelector, p.Spec.Affinity = nil, nil
	}
	if chance(r, 50) {
		p.OwnerReferences = owners(r)
	}
	if chance(r, 50) {
		p.Spec.TopologySpreadConstraints = spreadConstraints(r, p.Labels)
	}
	if chance(r, 45) {
		addPodAffinity(r, p)
	}
	return p
}

// simplify reduces a pod to one small container and the volumes.
func simplify(r *rand.Rand, p *v1.Pod, volumes ...v1.Volume) {
	p.Spec.Containers, p.Spec.InitContainers, p.Spec.Volumes = p.Spec.Containers[:1], nil, volumes
	c := &p.Spec.Containers[0]
	*c = v1.Container{Name: c.Name, Image: c.Image}
	c.Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(pick(r, "100m", "250m"))}
	p.Spec.Overhead, p.Spec.Resources = nil, nil
	p.Spec.HostNetwork, p.Spec.HostUsers = false, nil
}

// TopologyPlacedPod returns a TopologyPod on a node, like PlacedPod; more of them are
// terminating.
func TopologyPlacedPod(r *rand.Rand, i int, nodeName string) *v1.Pod {
	p := TopologyPod(r, i)
	settle(r, p, nodeName)
	if chance(r, 8) {
		p.DeletionTimestamp = ptr(epoch)
		p.DeletionGracePeriodSeconds = ptr(int64(30))
	}
	return p
}

func topologyPodLabels(r *rand.Rand) map[string]string {
	labels := podLabels(r)
	if chance(r, 60) {
		labels["version"] = pick(r, "v1", "v2")
	}
	return labels
}

// owners returns at most one controller. Some references name a deleted controller, a
// kind or version that does not count, or an owner that does not control.
func owners(r *rand.Rand) []metav1.OwnerReference {
	o := metav1.OwnerReference{Name: pick(r, "web", "web", "db", "db", "gone"), UID: uid(r), Controller: ptr(!chance(r, 8))}
	switch r.IntN(10) {
	case 0, 1:
		o.APIVersion, o.Kind = "v1", "ReplicationController"
	case 2, 3, 4:
		o.APIVersion, o.Kind = "apps/v1", "StatefulSet"
	case 5:
		o.APIVersion, o.Kind = pick(r, "batch/v1", "apps/v1beta1"), pick(r, "Job", "ReplicaSet")
	default:
		o.APIVersion, o.Kind = "apps/v1", "ReplicaSet"
	}
	if chance(r, 10) {
		return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: uid(r)}, o}
	}
	return []metav1.OwnerReference{o}
}
