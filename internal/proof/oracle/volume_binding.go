package oracle

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/klog/v2"
)

// VolumeBinding: a pod's bound volumes must be reachable from the node, and its unbound claims must find volumes there or be provisioned.

// What VolumeBinding says about a node, in the order in which it says it.
const (
	volumeElsewhere = "node(s) didn't match PersistentVolume's node affinity"
	noVolumeToBind  = "node(s) didn't find available persistent volumes to bind"
	noFreeStorage   = "node(s) did not have enough free storage"
	volumeVanished  = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
)

func volumeBindingPreFilter(cy *cycle) ([]string, *Rejection, error) {
	for _, c := range claimNames(cy.pod) {
		if text := cy.unusable(c); text != "" {
			return nil, unresolvable(text), nil
		}
	}
	claims, err := cy.podClaims()
	if err == nil && claims.immediate {
		return nil, unresolvable("pod has unbound immediate PersistentVolumeClaims"), nil
	}
	return nil, nil, err
}

// unusable says why the pod cannot use a claim; "" if it can.
func (cy *cycle) unusable(c claimName) string {
	claim := cy.claim(cy.pod, c.name)
	switch {
	case claim == nil && c.ephemeral:
		return fmt.Sprintf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", c.name)
	case claim == nil:
		return missingClaim(c.name)
	case claim.Status.Phase == v1.ClaimLost:
		return fmt.Sprintf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", c.name, claim.Spec.VolumeName)
	case claim.DeletionTimestamp != nil:
		return fmt.Sprintf("persistentvolumeclaim %q is being deleted", c.name)
	case c.ephemeral:
		return notOwned(cy.pod, claim)
	}
	return ""
}

// podClaims are the pod's claims by what has to be done about them. A claim that two volumes use is in it twice.
type podClaims struct {
	bound, delayed []*v1.PersistentVolumeClaim
	immediate      bool // there are claims that somebody else has to bind first
}

// podClaims leaves out claims that are missing: volumeBindingPreFilter has rejected the pod for them.
func (cy *cycle) podClaims() (podClaims, error) {
	var all podClaims
	for _, c := range claimNames(cy.pod) {
		claim := cy.claim(cy.pod, c.name)
		if claim == nil {
			continue
		}
		if isBound(claim) {
			all.bound = append(all.bound, claim)
			continue
		}
		class := cy.storageClass(classOfClaim(claim))
		if class != nil && class.VolumeBindingMode == nil {
			return podClaims{}, modeNotSet(class)
		}
		if class != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer && claim.Spec.VolumeName == "" {
			all.delayed = append(all.delayed, claim)
		} else {
			all.immediate = true
		}
	}
	return all, nil
}

func modeNotSet(class *storagev1.StorageClass) error {
	return fmt.Errorf("VolumeBindingMode not set for StorageClass %q", class.Name)
}

func volumeBindingFilter(cy *cycle) func(node) (*Rejection, error) {
	claims, err := cy.podClaims()
	return func(n node) (*Rejection, error) {
		if err != nil {
			return nil, err
		}
		vanished, elsewhere, err := cy.boundElsewhere(claims.bound, n)
		if err != nil {
			return nil, err
		}
		bindings, err := cy.bind(claims.delayed, n)
		if err != nil {
			return nil, err
		}
		no := unresolvable()
		for _, flag := range []struct {
			raised bool
			reason string
		}{
			{elsewhere, volumeElsewhere}, {bindings.conflict, noVolumeToBind}, {bindings.noStorage, noFreeStorage}, {vanished, volumeVanished},
		} {
			if flag.raised {
				no.Reasons = append(no.Reasons, flag.reason)
			}
		}
		if len(no.Reasons) == 0 {
			return nil, nil
		}
		return no, nil
	}
}

// boundElsewhere stops at the first bound claim with a problem, so at most one of the two is true.
func (cy *cycle) boundElsewhere(bound []*v1.PersistentVolumeClaim, n node) (vanished, elsewhere bool, err error) {
	for _, claim := range bound {
		pv := cy.volume(claim.Spec.VolumeName)
		if pv == nil {
			return true, false, nil
		}
		if migratedOn(cy.csiNode(n), inTreePlugin(pv, nil)) {
			if pv, err = translator.TranslateInTreePVToCSI(klog.Background(), pv); err != nil {
				return false, false, fmt.Errorf("could not translate pv: %w", err)
			}
		}
		if !reachable(pv, n) {
			return false, true, nil
		}
	}
	return false, false, nil
}

// reachable reports whether the volume's node affinity selects the node, by labels alone: field requirements are not looked at, but a term
// with nothing else is not empty and matches.
func reachable(pv *v1.PersistentVolume, n node) bool {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return true
	}
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		labels := selector{requirements: term.MatchExpressions}
		if parse(term) == nil && !empty(term) && labels.matches(n.Labels) {
			return true
		}
	}
	return false
}

// bindings are what would be done on a node for the claims that are to be bound there.
type bindings struct {
	static      []match     // in the order in which volumes were found
	provisioned []provision // in the order in which they were checked

	conflict, noStorage bool // the node will not do
}

// match is a volume found for a claim.
type match struct {
	claim  *v1.PersistentVolumeClaim
	volume *v1.PersistentVolume
}

// provision is a claim for which a volume is to be made, and where it has room; nil if nobody asked for room.
type provision struct {
	claim    *v1.PersistentVolumeClaim
	capacity *storagev1.CSIStorageCapacity
}

// bind looks for volumes for the claims on a node, the smallest claim first, and checks whether the claims that find none can be provisioned.
func (cy *cycle) bind(claims []*v1.PersistentVolumeClaim, n node) (bindings, error) {
	var b bindings
	var toFind, toProvision []*v1.PersistentVolumeClaim
	for _, claim := range claims {
		selected, ok := claim.Annotations[annSelectedNode]
		switch {
		case !ok:
			toFind = append(toFind, claim)
		case selected != n.Name:
			return bindings{conflict: true}, nil
		default:
			toProvision = append(toProvision, claim)
		}
	}
	slices.SortStableFunc(toFind, func(a, b *v1.PersistentVolumeClaim) int {
		small, large := a.Spec.Resources.Requests[v1.ResourceStorage], b.Spec.Resources.Requests[v1.ResourceStorage]
		return small.Cmp(large)
	})
	for _, claim := range toFind {
		pv, err := cy.find(claim, n, b.static)
		if err != nil {
			return bindings{}, err
		}
		if pv == nil {
			toProvision = append(toProvision, claim)
		} else {
			b.static = append(b.static, match{claim, pv})
		}
	}
	drawn, seen := map[string]int64{}, map[*v1.PersistentVolumeClaim]bool{} // drawn by class
	for _, claim := range toProvision {
		room, conflict, noStorage := cy.provision(claim, n)
		if room != nil && !seen[claim] {
			seen[claim] = true
			drawn[classOfClaim(claim)] = plus(drawn[classOfClaim(claim)], storageOf(claim.Spec.Resources.Requests))
			alone := drawn[classOfClaim(claim)] == storageOf(claim.Spec.Resources.Requests)
			noStorage = !alone && drawn[classOfClaim(claim)] > cy.roomFor(classOfClaim(claim), n)
		}
		if conflict || noStorage {
			return bindings{conflict: conflict, noStorage: noStorage}, nil
		}
		b.provisioned = append(b.provisioned, provision{claim, room})
	}
	return b, nil
}

// find chooses a volume for a claim on a node; nil if there is none. A volume that is meant for the claim wins over all others, and if it is
// not reachable from the node it hides them. Upstream visits the volumes in any order, and takes any of several smallest ones or
// of several that are meant for the claim; here the smallest and, of equal ones, the first by name comes first.
func (cy *cycle) find(claim *v1.PersistentVolumeClaim, n node, taken []match) (*v1.PersistentVolume, error) {
	if claim.Spec.Selector != nil {
		if err := parseSelector(claim.Spec.Selector); err != nil {
			return nil, fmt.Errorf("error creating internal label selector for claim: %s/%s: %w", claim.Namespace, claim.Name, err)
		}
	}
	var smallest *v1.PersistentVolume
	for _, pv := range cy.volumesOf(classOfClaim(claim)) {
		chosen := slices.ContainsFunc(taken, func(m match) bool { return m.volume == pv })
		switch {
		case chosen || !canHold(pv, claim):
		case meantFor(pv, claim) && reachable(pv, n):
			return pv, nil
		case meantFor(pv, claim):
			return nil, nil
		case smallest == nil && isFree(pv, claim) && reachable(pv, n):
			smallest = pv
		}
	}
	return smallest, nil
}

// volumesOf are the volumes of a class, sorted by capacity, then by name.
func (cy *cycle) volumesOf(class string) []*v1.PersistentVolume {
	var all []*v1.PersistentVolume
	for _, pv := range cy.cluster.PersistentVolumes {
		if classOfVolume(pv) == class {
			all = append(all, pv)
		}
	}
	slices.SortFunc(all, func(a, b *v1.PersistentVolume) int {
		small, large := a.Spec.Capacity[v1.ResourceStorage], b.Spec.Capacity[v1.ResourceStorage]
		return cmp.Or(small.Cmp(large), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// canHold reports whether the volume is large enough and of the right kind, and is not somebody else's or about to go.
func canHold(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) bool {
	capacity, request := pv.Spec.Capacity[v1.ResourceStorage], claim.Spec.Resources.Requests[v1.ResourceStorage]
	return (pv.Spec.ClaimRef == nil || meantFor(pv, claim)) && capacity.Cmp(request) >= 0 &&
		valueOr(pv.Spec.VolumeMode, v1.PersistentVolumeFilesystem) == valueOr(claim.Spec.VolumeMode, v1.PersistentVolumeFilesystem) &&
		valueOr(pv.Spec.VolumeAttributesClassName, "") == valueOr(claim.Spec.VolumeAttributesClassName, "") &&
		pv.DeletionTimestamp == nil
}

// meantFor reports whether the volume names the claim. A reference without UID names every claim of that name.
func meantFor(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) bool {
	ref := pv.Spec.ClaimRef
	return ref != nil && ref.Namespace == claim.Namespace && ref.Name == claim.Name && (ref.UID == "" || ref.UID == claim.UID)
}

// isFree reports whether a volume that names no claim may be bound to this one.
func isFree(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) bool {
	for _, mode := range claim.Spec.AccessModes {
		if !slices.Contains(pv.Spec.AccessModes, mode) {
			return false
		}
	}
	selected := claim.Spec.Selector == nil || selectorOf(claim.Spec.Selector).matches(pv.Labels)
	return selected && pv.Status.Phase == v1.VolumeAvailable
}

// provision reports whether a volume for the claim can be made for the node and, if its driver publishes capacities, which of them has room.
// Upstream remembers any of several; here it is the first by namespace and name.
func (cy *cycle) provision(claim *v1.PersistentVolumeClaim, n node) (room *storagev1.CSIStorageCapacity, conflict, noStorage bool) {
	class := cy.storageClass(classOfClaim(claim))
	if class.Provisioner == "" || class.Provisioner == "kubernetes.io/no-provisioner" || !allows(class, n) {
		return nil, true, false
	}
	request, ok := claim.Spec.Resources.Requests[v1.ResourceStorage]
	driver := named(cy.cluster.CSIDrivers, "", class.Provisioner)
	if !ok || driver == nil || !valueOr(driver.Spec.StorageCapacity, false) {
		return nil, false, false
	}
	for _, c := range cy.cluster.CSIStorageCapacities {
		limit := c.Capacity
		if c.MaximumVolumeSize != nil && (limit == nil || c.MaximumVolumeSize.Cmp(*limit) < 0) {
			limit = c.MaximumVolumeSize // upstream takes it instead of the capacity
		}
		reaches := parseSelector(c.NodeTopology) == nil && selectorOf(c.NodeTopology).matches(n.Labels)
		if c.StorageClassName != class.Name || !reaches || limit == nil || ceiling(*limit, units) < ceiling(request, units) {
			continue
		}
		if room == nil || cmp.Or(cmp.Compare(c.Namespace, room.Namespace), cmp.Compare(c.Name, room.Name)) < 0 {
			room = c
		}
	}
	return room, false, room == nil
}

// roomFor is how much all capacities of a class for a node have together. Upstream compares each claim alone.
func (cy *cycle) roomFor(class string, n node) (sum int64) {
	for _, c := range cy.cluster.CSIStorageCapacities {
		if c.StorageClassName != class || parseSelector(c.NodeTopology) != nil || !selectorOf(c.NodeTopology).matches(n.Labels) {
			continue
		}
		switch {
		case c.Capacity != nil:
			sum = plus(sum, ceiling(*c.Capacity, units))
		case c.MaximumVolumeSize != nil:
			sum = beyond
		}
	}
	return sum
}

// allows reports whether the class may be provisioned for the node: it says nothing, or one of its terms matches.
func allows(class *storagev1.StorageClass, n node) bool {
	for _, term := range class.AllowedTopologies {
		var t v1.NodeSelectorTerm
		for _, e := range term.MatchLabelExpressions {
			t.MatchExpressions = append(t.MatchExpressions, v1.NodeSelectorRequirement{Key: e.Key, Operator: v1.NodeSelectorOpIn, Values: e.Values})
		}
		if parse(t) == nil && termMatches(t, n) {
			return true
		}
	}
	return len(class.AllowedTopologies) == 0
}
