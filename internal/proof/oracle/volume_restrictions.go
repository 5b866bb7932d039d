package oracle

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// VolumeRestrictions: a node uses an inline disk once, unless all its users only read. A
// ReadWriteOncePod claim has one user.

func volumeRestrictionsPreFilter(cy *cycle) ([]string, *Rejection, error) {
	for _, name := range directClaims(cy.pod) {
		if cy.claim(cy.pod, name) == nil {
			return nil, unresolvable(missingClaim(name)), nil
		}
	}
	return nil, nil, nil
}

func volumeRestrictionsFilter(cy *cycle) func(node) *Rejection {
	exclusive := cy.exclusiveClaims()
	conflicts := 0
	for _, name := range exclusive {
		if cy.anyoneUses(name) {
			conflicts++
		}
	}
	if conflicts == 0 && !slices.ContainsFunc(cy.pod.Spec.Volumes, isExclusiveDisk) {
		// PreFilter's Skip applies whatever pods the dry run adds.
		return func(node) *Rejection { return nil }
	}
	// AddPod and RemovePod count volumes, not claims, and compare only their claims'
	// names: a pod of another namespace changes the count.
	for _, p := range cy.dryRun.Added {
		conflicts += countClaims(p, exclusive)
	}
	for _, p := range cy.dryRun.Removed {
		conflicts -= countClaims(p, exclusive)
	}
	return func(n node) *Rejection {
		if diskInUse(cy.pod, n) {
			return &Rejection{Reasons: []string{"node(s) had no available disk"}}
		}
		if conflicts > 0 {
			return &Rejection{Reasons: []string{
				"node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
			}}
		}
		return nil
	}
}

// exclusiveClaims are the names of the pod's ReadWriteOncePod claims, each once.
func (cy *cycle) exclusiveClaims() []string {
	var names []string
	for _, name := range directClaims(cy.pod) {
		claim := cy.claim(cy.pod, name)
		if claim != nil && slices.Contains(claim.Spec.AccessModes, v1.ReadWriteOncePod) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// anyoneUses reports whether a pod on any node names the claim of the pod's namespace.
func (cy *cycle) anyoneUses(claim string) bool {
	for _, n := range cy.nodes {
		for _, p := range n.pods {
			if p.Namespace == cy.pod.Namespace && slices.Contains(directClaims(p), claim) {
				return true
			}
		}
	}
	return false
}

func countClaims(p *v1.Pod, names []string) int {
	count := 0
	for _, name := range directClaims(p) {
		if slices.Contains(names, name) {
			count++
		}
	}
	return count
}

func isExclusiveDisk(v v1.Volume) bool {
	return v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.ISCSI != nil || v.RBD != nil
}

func diskInUse(p *v1.Pod, n node) bool {
	for _, wanted := range p.Spec.Volumes {
		for _, other := range n.pods {
			for _, used := range other.Spec.Volumes {
				if disksConflict(wanted, used) {
					return true
				}
			}
		}
	}
	return false
}

func disksConflict(a, b v1.Volume) bool {
	switch {
	case a.GCEPersistentDisk != nil && b.GCEPersistentDisk != nil:
		x, y := a.GCEPersistentDisk, b.GCEPersistentDisk
		return x.PDName == y.PDName && !(x.ReadOnly && y.ReadOnly)
	case a.AWSElasticBlockStore != nil && b.AWSElasticBlockStore != nil:
		return a.AWSElasticBlockStore.VolumeID == b.AWSElasticBlockStore.VolumeID
	case a.ISCSI != nil && b.ISCSI != nil:
		return a.ISCSI.IQN == b.ISCSI.IQN && !(a.ISCSI.ReadOnly && b.ISCSI.ReadOnly)
	case a.RBD != nil && b.RBD != nil:
		x, y := a.RBD, b.RBD
		same := x.RBDPool == y.RBDPool && x.RBDImage == y.RBDImage && len(intersection(x.CephMonitors, y.CephMonitors)) > 0
		return same && !(x.ReadOnly && y.ReadOnly)
	}
	return false
}
