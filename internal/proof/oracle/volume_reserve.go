package oracle

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reservation is VolumeBinding's reservation for a pod on a node. The volumes are written
// first, then the claims.
type Reservation struct {
	Node string
	// Static are the volumes found for claims.
	Static []StaticBinding
	// Provisioned are the claims to provision for the node. A claim that two volumes of
	// the pod use may be in it twice.
	Provisioned []*v1.PersistentVolumeClaim
}

// StaticBinding is a volume found for a claim, with both versions at that time.
type StaticBinding struct {
	Claim  *v1.PersistentVolumeClaim
	Volume *v1.PersistentVolume
}

// ReserveVolumes returns VolumeBinding's reservation for the pod on the node. It returns
// false if the plugin rejects the pod or the node, or fails. A pod whose claims are all
// bound reserves nothing.
//
// Of several equally good volumes or capacities, upstream takes any. Here it is the
// smallest volume, then the first by name.
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

// Volumes returns the volumes of Static as the scheduler assumes and writes them: with a
// reference to their claim. A volume that already named its claim with the UID is
// unchanged. A volume that named it without UID does not get the annotation that the
// controller chose the claim.
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

// Claims are the claims of Provisioned in their assumed and written form: they name the
// node.
func (r Reservation) Claims() []*v1.PersistentVolumeClaim {
	var all []*v1.PersistentVolumeClaim
	for _, claim := range r.Provisioned {
		claim = claim.DeepCopy()
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, annSelectedNode, r.Node)
		all = append(all, claim)
	}
	return all
}

// Assume returns the scheduler's view of the cluster after Reserve. It does not change c.
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

// replace replaces the object of the same name.
func replace[T metav1.Object](all []T, object T) {
	for i, o := range all {
		if o.GetNamespace() == object.GetNamespace() && o.GetName() == object.GetName() {
			all[i] = object
		}
	}
}
