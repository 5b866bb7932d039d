package oracle

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/klog/v2"
)

// VolumeBinding: a pod's bound volumes must be reachable from the node, and its unbound
// claims must find volumes there or be provisioned.

// VolumeBinding's reasons for a node, in its order.
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

// unusable returns why the pod cannot use a claim; "" if it can.
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

// podClaims divides the pod's claims by whether they are bound. A claim that two volumes
// use is in it twice.
type podClaims struct {
	bound, delayed []*v1.PersistentVolumeClaim
	immediate      bool // another component must bind some claims first
}

// podClaims leaves out missing claims: volumeBindingPreFilter has rejected the pod for
// them.
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

// boundElsewhere stops at the first bound claim with a problem, so at most one of the
// results is true.
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

// reachable reports whether the volume's node affinity selects the node, by labels alone.
// Field requirements are ignored, but a term with only these is not empty and matches.
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

// bindings are the volumes for a pod's unbound claims on a node.
type bindings struct {
	static      []match     // in the order in which volumes were found
	provisioned []provision // in the order in which they were checked

	conflict, noStorage bool // the node is infeasible
}

// match is a volume found for a claim.
type match struct {
	claim  *v1.PersistentVolumeClaim
	volume *v1.PersistentVolume
}

// provision is a claim to provision, and the capacity to use; nil if capacity is not
// tracked.
type provision struct {
	claim    *v1.PersistentVolumeClaim
	capacity *storagev1.CSIStorageCapacity
}

// bind finds volumes for the claims on a node, the smallest claim first. For claims
// without a volume, it checks whether one can be provisioned.
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
	// drawn is by class.
	drawn, seen := map[string]int64{}, map[*v1.PersistentVolumeClaim]bool{}
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

// find chooses a volume for a claim on a node, or returns nil. A volume that is meant for
// the claim comes before all others, and hides them even if it is not reachable from the
// node. Upstream visits the volumes in any order, and takes any of several smallest
// volumes, or of several meant for the claim. Here the smallest comes first, then the
// first by name.
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

// canHold reports whether the volume is large enough, of the right kind, not assigned to
// another claim, and not being deleted.
func canHold(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) bool {
	capacity, request := pv.Spec.Capacity[v1.ResourceStorage], claim.Spec.Resources.Requests[v1.ResourceStorage]
	return (pv.Spec.ClaimRef == nil || meantFor(pv, claim)) && capacity.Cmp(request) >= 0 &&
		valueOr(pv.Spec.VolumeMode, v1.PersistentVolumeFilesystem) == valueOr(claim.Spec.VolumeMode, v1.PersistentVolumeFilesystem) &&
		valueOr(pv.Spec.VolumeAttributesClassName, "") == valueOr(claim.Spec.VolumeAttributesClassName, "") &&
		pv.DeletionTimestamp == nil
}

// meantFor reports whether the volume names the claim. A reference without UID names
// every claim of that name.
func meantFor(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) bool {
	ref := pv.Spec.ClaimRef
	return ref != nil && ref.Namespace == claim.Namespace && ref.Name == claim.Name && (ref.UID == "" || ref.UID == claim.UID)
}

// isFree reports whether a volume that names no claim may be bound to this claim.
func isFree(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) bool {
	for _, mode := range claim.Spec.AccessModes {
		if !slices.Contains(pv.Spec.AccessModes, mode) {
			return false
		}
	}
	selected := claim.Spec.Selector == nil || selectorOf(claim.Spec.Selector).matches(pv.Labels)
	return selected && pv.Status.Phase == v1.VolumeAvailable
}

// provision reports whether a volume for the claim can be provisioned for the node. If
// its driver publishes capacities, it returns one that suffices. Upstream remembers any
// of several; here it is the first by namespace and name.
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
			limit = c.MaximumVolumeSize // upstream uses it instead of the capacity
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

// roomFor is the sum of a class's capacities for a node. Upstream compares each claim
// alone.
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

// allows reports whether the class may be provisioned for the node: it has no terms, or a
// term matches.
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
