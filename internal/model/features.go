package model

import v1 "k8s.io/api/core/v1"

// ociProfile is a type of Kubernetes 1.38.
const ociProfile v1.SeccompProfileType = "OCI"

// IsOCIProfile reports whether a seccomp profile comes from an OCI registry.
func IsOCIProfile(p *v1.SeccompProfile) bool { return p != nil && p.Type == ociProfile }

// RequestsMLDSA reports whether a volume has a pod certificate with an ML-DSA key.
func RequestsMLDSA(volume *v1.Volume) bool {
	if volume.Projected == nil {
		return false
	}
	for i := range volume.Projected.Sources {
		if c := volume.Projected.Sources[i].PodCertificate; c != nil && isMLDSA(c.KeyType) {
			return true
		}
	}
	return false
}

func isMLDSA(keyType string) bool {
	return keyType == "MLDSA44" || keyType == "MLDSA65" || keyType == "MLDSA87"
}
