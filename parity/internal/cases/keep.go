package cases

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

// aspect is a set of fields through which nodes and pods affect each other.
type aspect uint8

const (
	resources aspect = 1 << iota
	tolerations
	nodeAffinity
	ports
	images
	features
)

func keepResources(c *oracle.Cluster)    { keep(c, resources) }
func keepTolerations(c *oracle.Cluster)  { keep(c, tolerations) }
func keepNodeAffinity(c *oracle.Cluster) { keep(c, nodeAffinity) }
func keepPorts(c *oracle.Cluster)        { keep(c, ports) }
func keepImages(c *oracle.Cluster)       { keep(c, images) }
func keepFeatures(c *oracle.Cluster)     { keep(c, features) }
func keepAll(*oracle.Cluster)            {}

// keep removes the fields of every other aspect.
func keep(c *oracle.Cluster, kept aspect) {
	for _, n := range c.Nodes {
		keepOfNode(n, kept)
	}
	for _, p := range c.Pods {
		keepOfPod(p, kept)
	}
}

func keepOfNode(n *v1.Node, kept aspect) {
	if kept&resources == 0 {
		n.Status.Allocatable = v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("64"), v1.ResourceMemory: resource.MustParse("256Gi"), v1.ResourcePods: resource.MustParse("110"),
		}
	}
	if kept&tolerations == 0 {
		n.Spec.Taints, n.Spec.Unschedulable = nil, false
	}
	if kept&images == 0 {
		n.Status.Images = nil
	}
}

func keepOfPod(p *v1.Pod, kept aspect) {
	s := &p.Spec
	if kept&resources == 0 {
		s.Overhead, s.Resources, s.InitContainers = nil, nil, nil
		p.Status.Resources, p.Status.AllocatedResources, p.Status.ContainerStatuses, p.Status.InitContainerStatuses = nil, nil, nil, nil
		for i := range s.Containers {
			s.Containers[i].Resources = v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m")}}
		}
	}
	if kept&tolerations == 0 {
		s.Tolerations = nil
	}
	if kept&nodeAffinity == 0 {
		s.NodeSelector, s.Affinity = nil, nil
	}
	if kept&features == 0 {
		s.HostNetwork, s.HostUsers = false, nil
	}
	for i := range s.Containers {
		keepOfContainer(&s.Containers[i], kept)
	}
	for i := range s.InitContainers {
		keepOfContainer(&s.InitContainers[i], kept)
	}
	if kept&(images|features) == 0 {
		s.Volumes = nil
	}
}

func keepOfContainer(c *v1.Container, kept aspect) {
	if kept&ports == 0 {
		c.Ports = nil
	}
	if kept&features == 0 {
		c.RestartPolicyRules = nil
		c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m v1.VolumeMount) bool { return len(m.BindMountOptions) > 0 })
	}
	if kept&images == 0 {
		c.Image = "unknown:2"
	}
}

func noConstraints(p *v1.Pod) { p.Spec.TopologySpreadConstraints = nil }

func keepConstraints(p *v1.Pod, action v1.UnsatisfiableConstraintAction) {
	p.Spec.TopologySpreadConstraints = slices.DeleteFunc(p.Spec.TopologySpreadConstraints,
		func(c v1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable != action })
}

func anyTerms(*v1.Pod) {}

func noTerms(p *v1.Pod) {
	if a := p.Spec.Affinity; a != nil {
		a.PodAffinity, a.PodAntiAffinity = nil, nil
	}
}

func onlyAffinity(p *v1.Pod) {
	if a := p.Spec.Affinity; a != nil {
		a.PodAntiAffinity = nil
	}
}

func onlyAntiAffinity(p *v1.Pod) {
	if a := p.Spec.Affinity; a != nil {
		a.PodAffinity = nil
	}
}

// inNamespaces keeps only the terms that select namespaces.
func inNamespaces(p *v1.Pod) {
	a := p.Spec.Affinity
	if a == nil {
		return
	}
	plain := func(t v1.PodAffinityTerm) bool { return t.NamespaceSelector == nil }
	weighted := func(t v1.WeightedPodAffinityTerm) bool { return plain(t.PodAffinityTerm) }
	if pa := a.PodAffinity; pa != nil {
		pa.RequiredDuringSchedulingIgnoredDuringExecution = slices.DeleteFunc(pa.RequiredDuringSchedulingIgnoredDuringExecution, plain)
		pa.PreferredDuringSchedulingIgnoredDuringExecution = slices.DeleteFunc(pa.PreferredDuringSchedulingIgnoredDuringExecution, weighted)
	}
	if pa := a.PodAntiAffinity; pa != nil {
		pa.RequiredDuringSchedulingIgnoredDuringExecution = slices.DeleteFunc(pa.RequiredDuringSchedulingIgnoredDuringExecution, plain)
		pa.PreferredDuringSchedulingIgnoredDuringExecution = slices.DeleteFunc(pa.PreferredDuringSchedulingIgnoredDuringExecution, weighted)
	}
}
