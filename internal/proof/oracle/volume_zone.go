package oracle

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// VolumeZone: a volume with zone or region labels is used in those zones and regions.

const (
	betaZone   = "failure-domain.beta.kubernetes.io/zone"
	betaRegion = "failure-domain.beta.kubernetes.io/region"
	gaZone     = "topology.kubernetes.io/zone"
	gaRegion   = "topology.kubernetes.io/region"
)

// place is a label of a volume with the values that it lists.
type place struct {
	key    string
	values []string
}

func volumeZonePreFilter(cy *cycle) ([]string, *Rejection, error) {
	for _, name := range directClaims(cy.pod) {
		if text := cy.withoutPlace(name); text != "" {
			return nil, unresolvable(text), nil
		}
	}
	return nil, nil, nil
}

// withoutPlace returns why the place of a claim's volume is unknown. It returns "" if the
// place is known, or will be decided with the pod's.
func (cy *cycle) withoutPlace(name string) string {
	if name == "" {
		return "PersistentVolumeClaim had no name"
	}
	claim := cy.claim(cy.pod, name)
	if claim == nil {
		return missingClaim(name)
	}
	if claim.Spec.VolumeName != "" {
		if cy.volume(claim.Spec.VolumeName) == nil {
			return missingVolume(claim.Spec.VolumeName)
		}
		return ""
	}
	className := classOfClaim(claim)
	if className == "" {
		return "PersistentVolumeClaim had no pv name and storageClass name"
	}
	class := cy.storageClass(className)
	switch {
	case class == nil:
		return missingClass(className)
	case class.VolumeBindingMode == nil:
		return modeNotSet(class).Error()
	case *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer:
		return ""
	}
	return "PersistentVolume had no name"
}

func volumeZoneFilter(cy *cycle) func(node) *Rejection {
	var wanted []place
	for _, name := range directClaims(cy.pod) {
		if claim := cy.claim(cy.pod, name); claim != nil && cy.volume(claim.Spec.VolumeName) != nil {
			wanted = append(wanted, placesOf(cy.volume(claim.Spec.VolumeName))...)
		}
	}
	return func(n node) *Rejection {
		if !slices.ContainsFunc([]string{betaZone, betaRegion, gaZone, gaRegion}, func(key string) bool { _, ok := n.Labels[key]; return ok }) {
			return nil
		}
		for _, p := range wanted {
			if value, ok := labelOf(n, p.key); !ok || !slices.Contains(p.values, value) {
				return unresolvable("node(s) had no available volume zone")
			}
		}
		return nil
	}
}

// placesOf leaves out labels with an empty part.
func placesOf(pv *v1.PersistentVolume) []place {
	var all []place
	for _, key := range []string{betaZone, betaRegion, gaZone, gaRegion} {
		text, ok := pv.Labels[key]
		if !ok {
			continue
		}
		var values []string
		for _, part := range strings.Split(text, "__") {
			values = append(values, strings.TrimSpace(part))
		}
		if !slices.Contains(values, "") {
			all = append(all, place{key, values})
		}
	}
	return all
}

// labelOf is the node's label. A missing beta label is looked up under its present name,
// but not the other way round.
func labelOf(n node, key string) (string, bool) {
	present := map[string]string{betaZone: gaZone, betaRegion: gaRegion}[key]
	if value, ok := n.Labels[key]; ok || present == "" {
		return value, ok
	}
	value, ok := n.Labels[present]
	return value, ok
}
