package nodedeclaredfeatures

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures/types"

	"github.com/berth-scheduler/berth/internal/model"
)

// newer are the features that 1.38 adds to those of the library's version.
func newer() []types.Feature {
	return []types.Feature{
		added{"PodCertificateMLDSA", requestsMLDSA},
		added{"SecurityProfileOCI", usesOCIProfile},
	}
}

// added is a feature that a pod's spec requires. A kubelet declares it; a scheduler does
// not discover it.
type added struct {
	name     string
	requires func(*v1.PodSpec) bool
}

// Name returns the name in a node's status.
func (f added) Name() string { return f.name }

// Discover returns false.
func (added) Discover(*types.NodeConfiguration) bool { return false }

// Requirements returns none.
func (added) Requirements() *types.FeatureRequirements { return &types.FeatureRequirements{} }

// InferForScheduling reports whether the pod requires the feature.
func (f added) InferForScheduling(pod *types.PodInfo) bool { return f.requires(pod.Spec) }

// InferForUpdate reports whether an update makes the pod require the feature.
func (f added) InferForUpdate(before, after *types.PodInfo) bool {
	return !f.requires(before.Spec) && f.requires(after.Spec)
}

// MaxVersion returns nil: no later version drops the requirement.
func (added) MaxVersion() *version.Version { return nil }

// requestsMLDSA reports whether a projected volume has a certificate with an ML-DSA key.
func requestsMLDSA(spec *v1.PodSpec) bool {
	for i := range spec.Volumes {
		if model.RequestsMLDSA(&spec.Volumes[i]) {
			return true
		}
	}
	return false
}

// usesOCIProfile reports whether the pod or any of its containers has a seccomp profile
// from an OCI registry.
func usesOCIProfile(spec *v1.PodSpec) bool {
	if own := spec.SecurityContext; own != nil && model.IsOCIProfile(own.SeccompProfile) {
		return true
	}
	for _, containers := range [...][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			if own := containers[i].SecurityContext; own != nil && model.IsOCIProfile(own.SeccompProfile) {
				return true
			}
		}
	}
	for i := range spec.EphemeralContainers {
		if own := spec.EphemeralContainers[i].SecurityContext; own != nil && model.IsOCIProfile(own.SeccompProfile) {
			return true
		}
	}
	return false
}
