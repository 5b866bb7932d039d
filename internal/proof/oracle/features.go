package oracle

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

const (
	restartAllContainers = "RestartAllContainersOnContainerExits"
	userNamespaces       = "UserNamespacesHostNetworkSupport"
	bindMountOptions     = "VolumeBindMountOptions"
)

// featureRegistry lists the node features of 1.37, sorted. A pod can need only the three
// named above.
var featureRegistry = []string{
	"DRANodeAllocatableResources",
	"DRAOptionalNodeOperations",
	"ExtendWebSocketsToKubelet",
	"InPlacePodLevelResourcesVerticalScaling",
	"InPlacePodVerticalScalingInitContainers",
	"InPlacePodVerticalScalingMemoryBackedVolumes",
	restartAllContainers,
	userNamespaces,
	bindMountOptions,
}

func nodeDeclaredFeaturesFilter(cy *cycle, n node) *Rejection {
	declared := recognised(n.Status.DeclaredFeatures)
	for _, f := range requiredFeatures(cy.pod) {
		if !slices.Contains(declared, f) {
			return &Rejection{Unresolvable: true, Reasons: []string{"node(s) didn't match Pod's required features"}}
		}
	}
	return nil
}

// recognised merges a node's published features with the sorted registry, as upstream
// does. An unsorted list loses names: a registered name that the merge has passed is no
// longer found.
func recognised(published []string) []string {
	var found []string
	known := featureRegistry
	for len(published) > 0 && len(known) > 0 {
		switch {
		case published[0] == known[0]:
			found = append(found, known[0])
			published, known = published[1:], known[1:]
		case published[0] < known[0]:
			published = published[1:]
		default:
			known = known[1:]
		}
	}
	return found
}

func requiredFeatures(p *v1.Pod) []string {
	var required []string
	if restartsAllContainers(p) {
		required = append(required, restartAllContainers)
	}
	if p.Spec.HostNetwork && p.Spec.HostUsers != nil && !*p.Spec.HostUsers {
		required = append(required, userNamespaces)
	}
	if hasBindMountOptions(p) {
		required = append(required, bindMountOptions)
	}
	return required
}

func restartsAllContainers(p *v1.Pod) bool {
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		for _, rule := range c.RestartPolicyRules {
			if rule.Action == v1.ContainerRestartRuleActionRestartAllContainers {
				return true
			}
		}
	}
	return false
}

func hasBindMountOptions(p *v1.Pod) bool {
	var mounts []v1.VolumeMount
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		mounts = append(mounts, c.VolumeMounts...)
	}
	for _, c := range p.Spec.EphemeralContainers {
		mounts = append(mounts, c.VolumeMounts...)
	}
	for _, m := range mounts {
		if len(m.BindMountOptions) > 0 {
			return true
		}
	}
	return false
}
