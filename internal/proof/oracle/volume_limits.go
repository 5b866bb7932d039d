package oracle

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/klog/v2"
)

// NodeVolumeLimits: a node has at most as many volumes of a CSI driver as its CSINode
// allows.

// attachable is a volume that counts. Equal values are the same volume.
type attachable struct {
	driver, handle string
	// The handle is <namespace>/<claim>, of a claim without a known volume.
	unbound bool
}

func volumeLimitsFilter(cy *cycle) func(node) (*Rejection, error) {
	return func(n node) (*Rejection, error) {
		on := cy.csiNode(n)
		wanted, no, err := cy.attachables(cy.pod, on, true)
		if no != nil || err != nil || len(wanted) == 0 {
			return no, err
		}
		if driver := cy.notInstalled(wanted, on); driver != "" {
			return &Rejection{Reasons: []string{driver + " CSI driver is not installed on the node"}}, nil
		}
		limits := volumeLimits(on)
		if len(limits) == 0 {
			return nil, nil
		}
		used := map[attachable]bool{}
		for _, p := range n.pods {
			its, _, err := cy.attachables(p, on, false)
			if err != nil {
				return nil, err
			}
			maps.Copy(used, its)
		}
		if exceeds(limits, wanted, used, cy.attached(n)) {
			return &Rejection{Reasons: []string{"node(s) exceed max volume count"}}, nil
		}
		return nil, nil
	}
}

// exceeds compares the used volumes and the pod's new volumes with the limits, by driver.
// A volume that is attached to the node counts once, whoever uses it. Upstream counts it
// twice if the pod uses it and no other pod does.
func exceeds(limits map[string]int64, wanted, used, attached map[attachable]bool) bool {
	needed, count := map[string]int64{}, map[string]int64{}
	for v := range wanted {
		if !used[v] && !attached[v] {
			needed[v.driver]++
		}
	}
	for v := range used {
		count[v.driver]++
	}
	for v := range attached {
		if !used[v] {
			count[v.driver]++
		}
	}
	for driver, need := range needed {
		if limit, limited := limits[driver]; limited && count[driver]+need > limit {
			return true
		}
	}
	return false
}

// volumeLimits are the limits of the CSINode by driver; drivers without a limit are
// unlimited.
func volumeLimits(on *storagev1.CSINode) map[string]int64 {
	limits := map[string]int64{}
	if on == nil {
		return limits
	}
	for _, d := range on.Spec.Drivers {
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			limits[d.Name] = int64(*d.Allocatable.Count)
		}
	}
	return limits
}

// notInstalled is a driver that must be on the node and is not, or "". Upstream reports
// any of several; here it is the first by name.
func (cy *cycle) notInstalled(wanted map[attachable]bool, on *storagev1.CSINode) string {
	var missing []string
	for v := range wanted {
		driver := named(cy.cluster.CSIDrivers, "", v.driver)
		if driver == nil || !valueOr(driver.Spec.PreventPodSchedulingIfMissing, false) {
			continue
		}
		if on == nil || !slices.ContainsFunc(on.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == v.driver }) {
			missing = append(missing, v.driver)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return slices.Min(missing)
}

// attached are the volumes of the node's VolumeAttachments that count, whatever their
// status.
func (cy *cycle) attached(n node) map[attachable]bool {
	all := map[attachable]bool{}
	for _, a := range cy.cluster.VolumeAttachments {
		if a.Spec.NodeName != n.Name || a.Spec.Attacher == "" || a.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		if pv := cy.volume(*a.Spec.Source.PersistentVolumeName); pv != nil && pv.Spec.CSI != nil {
			all[attachable{driver: a.Spec.Attacher, handle: pv.Spec.CSI.VolumeHandle}] = true
		}
	}
	return all
}

// attachables are the volumes of a pod that count on a node. A missing claim rejects the
// pending pod; missing claims of placed pods are left out.
func (cy *cycle) attachables(p *v1.Pod, on *storagev1.CSINode, pending bool) (map[attachable]bool, *Rejection, error) {
	all := map[attachable]bool{}
	for _, v := range p.Spec.Volumes {
		var counted attachable
		var no *Rejection
		var err error
		if c, ok := claimOf(p, v); ok {
			if counted, no, err = cy.attachableClaim(p, c, on); counted.driver == "" || counted.handle == "" {
				counted = attachable{} // a class without provisioner
			}
		} else {
			counted, err = attachableInline(p, v, on)
		}
		if err != nil {
			return nil, nil, err
		}
		if no != nil && pending {
			return nil, no, nil
		}
		if counted != (attachable{}) {
			all[counted] = true
		}
	}
	return all, nil, nil
}

// attachableClaim returns the zero value for a claim that does not count.
func (cy *cycle) attachableClaim(p *v1.Pod, c claimName, on *storagev1.CSINode) (attachable, *Rejection, error) {
	if c.name == "" {
		return attachable{}, nil, fmt.Errorf("PersistentVolumeClaim had no name")
	}
	claim := cy.claim(p, c.name)
	if claim == nil {
		return attachable{}, unresolvable(fmt.Sprintf("looking up PVC %s/%s: %s", p.Namespace, c.name, missingClaim(c.name))), nil
	}
	if c.ephemeral {
		if text := notOwned(p, claim); text != "" {
			return attachable{}, nil, fmt.Errorf("%s", text)
		}
	}
	pv := cy.volume(claim.Spec.VolumeName)
	if claim.Spec.VolumeName == "" || pv == nil {
		return cy.attachableUnbound(claim, on), nil, nil
	}
	if pv.Spec.CSI != nil {
		return attachable{driver: pv.Spec.CSI.Driver, handle: pv.Spec.CSI.VolumeHandle}, nil, nil
	}
	if on == nil || !migratable(inTreePlugin(pv, nil)) {
		return attachable{}, nil, nil
	}
	translated, err := translator.TranslateInTreePVToCSI(klog.Background(), pv)
	if err != nil {
		return attachable{}, nil, nil
	}
	return attachable{driver: translated.Spec.CSI.Driver, handle: translated.Spec.CSI.VolumeHandle}, nil, nil
}

// attachableUnbound stands for the volume that the claim's class will provision.
func (cy *cycle) attachableUnbound(claim *v1.PersistentVolumeClaim, on *storagev1.CSINode) attachable {
	class := cy.storageClass(classOfClaim(claim))
	if class == nil {
		return attachable{}
	}
	driver := class.Provisioner
	if translator.IsMigratableIntreePluginByName(driver) {
		if on == nil || !migratable(driver) {
			return attachable{}
		}
		var err error
		if driver, err = translator.GetCSINameFromInTreeName(driver); err != nil {
			return attachable{}
		}
	}
	return attachable{driver: driver, handle: claim.Namespace + "/" + claim.Name, unbound: true}
}

func attachableInline(p *v1.Pod, v v1.Volume, on *storagev1.CSINode) (attachable, error) {
	if on == nil || !migratable(inTreePlugin(nil, &v)) {
		return attachable{}, nil
	}
	translated, err := translator.TranslateInTreeInlineVolumeToCSI(klog.Background(), &v, p.Namespace)
	if err != nil {
		return attachable{}, fmt.Errorf("converting volume(%s) from inline to csi: %w", v.Name, err)
	}
	return attachable{driver: translated.Spec.CSI.Driver, handle: translated.Spec.CSI.VolumeHandle}, nil
}
