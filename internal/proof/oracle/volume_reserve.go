package oracle

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reservation is what VolumeBinding reserves on a node for a pod, and then writes, in this order: first the volumes, then the claims.
type Reservation struct {
	Node string
	// Static are the volumes that were found for claims.
	Static []StaticBinding
	// Provisioned are the claims for which volumes are to be made on the node. A claim that two volumes of the pod use may be in it twice.
	Provisioned []*v1.PersistentVolumeClaim
}

// StaticBinding is a volume that was found for a claim; both as they were then.
type StaticBinding struct {
	Claim  *v1.PersistentVolumeClaim
	Volume *v1.PersistentVolume
}

// ReserveVolumes returns what VolumeBinding would reserve for the pod on the node; false if it rejects the pod or the node, or fails. A pod
// whose claims are all bound reserves nothing.
//
// Of several volumes or capacities that are equally good, upstream takes any; this is the smallest volume and the first by name.
func ReserveVolumes(c Cluster, p *v1.Pod, nodeName string) (Reservation, bool) {
	cy := newCycle(c, p, Profile{})
	at := slices.IndexFunc(cy.nodes, func(n node) bool { return n.Name == nodeName })
	if at < 0 {
		return Reservation{}, false
	}
	if _, no, err := volumeBindingPreFilter(cy); no != nil || err != nil {
		return Reservation{}, false
	}
	if no, err := volumeBindingFilter(cy)(cy.nodes[at]); no != nil || err != nil {
		return Reservation{}, false
	}
	claims, err := cy.podClaims()
	if err != nil {
		return Reservation{}, false
	}
	b, err := cy.bind(claims.delayed, cy.nodes[at])
	if err != nil {
		return Reservation{}, false
	}
	r := Reservation{Node: nodeName}
	for _, m := range b.static {
		r.Static = append(r.Static, StaticBinding{m.claim, m.volume})
	}
	for _, p := range b.provisioned {
		r.Provisioned = append(r.Provisioned, p.claim)
	}
	return r, true
}

// Volumes are the volumes of Static as they are assumed and written: they name their claims. One that named its claim with the UID already is as
// it was; one that named it without is not marked as bound by the controller.
func (r Reservation) Volumes() []*v1.PersistentVolume {
	var all []*v1.PersistentVolume
	for _, b := range r.Static {
		pv := b.Volume.DeepCopy()
		if !meantFor(pv, b.Claim) {
			metav1.SetMetaDataAnnotation(&pv.ObjectMeta, annBoundByController, "yes")
		}
		if !meantFor(pv, b.Claim) || pv.Spec.ClaimRef.UID != b.Claim.UID {
			pv.Spec.ClaimRef = &v1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: b.Claim.Namespace, Name: b.Claim.Name, UID: b.Claim.UID,
				ResourceVersion: b.Claim.ResourceVersion,
			}
		}
		all = append(all, pv)
	}
	return all
}

// Claims are the claims of Provisioned as they are assumed and written: they name the node.
func (r Reservation) Claims() []*v1.PersistentVolumeClaim {
	var all []*v1.PersistentVolumeClaim
	for _, claim := range r.Provisioned {
		claim = claim.DeepCopy()
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, annSelectedNode, r.Node)
		all = append(all, claim)
	}
	return all
}

// Assume returns the cluster as the scheduler sees it after Reserve. It does not change the cluster that it is given.
func (r Reservation) Assume(c Cluster) Cluster {
	c.PersistentVolumes, c.PersistentVolumeClaims = slices.Clone(c.PersistentVolumes), slices.Clone(c.PersistentVolumeClaims)
	for _, pv := range r.Volumes() {
		replace(c.PersistentVolumes, pv)
	}
	for _, claim := range r.Claims() {
		replace(c.PersistentVolumeClaims, claim)
	}
	return c
}

// replace puts an object in the place of its namesake.
func replace[T metav1.Object](all []T, object T) {
	for i, o := range all {
		if o.GetNamespace() == object.GetNamespace() && o.GetName() == object.GetName() {
			all[i] = object
		}
	}
}
