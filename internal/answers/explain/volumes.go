package explain

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/cluster/storage"
	"github.com/berth-scheduler/berth/internal/decide/plugins/dynamicresources"
	"github.com/berth-scheduler/berth/internal/decide/plugins/nodevolumelimits"
	"github.com/berth-scheduler/berth/internal/decide/plugins/volumebinding"
	"github.com/berth-scheduler/berth/internal/decide/plugins/volumerestrictions"
	"github.com/berth-scheduler/berth/internal/decide/plugins/volumezone"
	"github.com/berth-scheduler/berth/internal/model"
)

func (s *Snapshot) store() *storage.Store { return s.state.View().Storage() }

// inTheWay lists the pod's claims, volumes and devices for which a plugin of volumes or
// devices rejects a node. It is empty for other plugins.
func (s *Snapshot) inTheWay(a *Explanation, name string, r *Rejection) []string {
	slot, ok := s.state.Slot(name)
	if !ok {
		return nil
	}
	node := s.state.View().Node(slot)
	if r.Plugin == dynamicresources.Name {
		if lines := s.devicesLacking(a.pod, node); len(lines) > 0 || a.pod.Devices == nil {
			return lines
		}
		return []string{notTogether}
	}
	if a.pod.Volumes == nil || !s.readsClaims {
		return nil
	}
	switch r.Plugin {
	case volumerestrictions.Name:
		return append(s.usedElsewhere(a.pod), s.disksInUse(a.pod, slot)...)
	case nodevolumelimits.Name:
		return s.overLimits(a.pod, node, r)
	case volumezone.Name:
		return s.otherZones(a.pod, node)
	case volumebinding.Name:
		return append(s.boundElsewhere(a.pod, node), s.notToBeBound(a.pod, node)...)
	}
	return nil
}

// claimsOf returns the pod's existing claims, each once.
func (s *Snapshot) claimsOf(pod *model.Pod) []*model.Claim {
	var all []*model.Claim
	for _, use := range pod.Volumes.Claims {
		if claim := s.store().Claim(use.Key); claim != nil && !slices.Contains(all, claim) {
			all = append(all, claim)
		}
	}
	return all
}

// usedElsewhere lists the pods that use a claim of the pod with access mode
// ReadWriteOncePod.
func (s *Snapshot) usedElsewhere(pod *model.Pod) (lines []string) {
	for _, claim := range s.claimsOf(pod) {
		for slot := range s.state.Slots() {
			for user := range s.state.PodsOn(int32(slot)) {
				if claim.Exclusive && user.Volumes.Names(claim.Key, false) {
					lines = append(lines, fmt.Sprintf("claim %s is for one pod, and %s uses it on %s", claim.Key.Name, user, user.NodeName))
				}
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// disksInUse lists the pods on a slot that use the same disk.
func (s *Snapshot) disksInUse(pod *model.Pod, slot int32) (lines []string) {
	for i := range pod.Volumes.Disks {
		disk := &pod.Volumes.Disks[i]
		for user := range s.state.PodsOn(slot) {
			if user.Volumes != nil && slices.ContainsFunc(user.Volumes.Disks, func(d model.Disk) bool { return disk.Conflicts(&d) }) {
				lines = append(lines, fmt.Sprintf("disk %s is used by %s", disk.Name, user))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// overLimits lists the drivers whose volume limit on the node the pod would exceed.
func (s *Snapshot) overLimits(pod *model.Pod, node state.Node, r *Rejection) (lines []string) {
	usage := node.Volumes()
	csi := usage.CSINode()
	if csi == nil || !slices.Contains(r.Reasons, "node(s) exceed max volume count") {
		return nil
	}
	added := map[string][]string{}
	for _, claim := range s.claimsOf(pod) {
		driver, handle, name := s.attachable(claim)
		if driver != "" && (handle == "" || !usage.Has(driver, handle)) && !slices.Contains(added[driver], name) {
			added[driver] = append(added[driver], name)
		}
	}
	for driver, names := range added {
		limit, listed := csi.Drivers[driver]
		if count := int64(usage.Count(driver)); listed && limit != model.Unlimited && count+int64(len(names)) > limit {
			lines = append(lines, fmt.Sprintf("driver %s: the node has %d of at most %d volumes, and the pod brings %d more (%s)",
				driver, count, limit, len(names), strings.Join(names, ", ")))
		}
	}
	slices.Sort(lines)
	return lines
}

// attachable returns the driver that attaches a claim's volume, the driver's handle of
// the volume (empty if unknown) and a name for people.
func (s *Snapshot) attachable(claim *model.Claim) (driver, handle, name string) {
	if volume := s.store().Volume(claim.Object.Spec.VolumeName); volume != nil {
		return volume.Driver, volume.Handle, volume.Name
	}
	if class := s.store().Class(claim.Class); class != nil {
		driver, _ = model.DriverOf(class.Object.Provisioner)
	}
	return driver, "", "the volume of claim " + claim.Key.Name
}

// otherZones lists the volumes whose zones do not match the node's.
func (s *Snapshot) otherZones(pod *model.Pod, node state.Node) (lines []string) {
	for _, claim := range s.claimsOf(pod) {
		volume := s.store().Volume(claim.Object.Spec.VolumeName)
		if volume == nil {
			continue
		}
		for _, zone := range model.ZonesOf(volume.Zones) {
			if zone.Matches(node.Object().Labels) {
				continue
			}
			lines = append(lines, fmt.Sprintf("volume %s of claim %s is in %s %s%s", volume.Name, claim.Key.Name, zone.Label,
				strings.Join(zone.Values, " or "), here(node, zone.Label)))
		}
	}
	return lines
}

// here describes the node's values of some labels.
func here(node state.Node, keys ...string) string {
	var all []string
	for _, key := range keys {
		if value, ok := node.Object().Labels[key]; !ok {
			all = append(all, key+" is not set")
		} else {
			all = append(all, key+" is "+value)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "; here " + strings.Join(slices.Compact(all), " and ")
}

// boundElsewhere lists bound claims whose volumes are not usable on the node or do not
// exist.
func (s *Snapshot) boundElsewhere(pod *model.Pod, node state.Node) (lines []string) {
	for _, claim := range s.claimsOf(pod) {
		if !claim.Bound {
			continue
		}
		volume := s.store().Volume(claim.Object.Spec.VolumeName)
		if volume == nil {
			lines = append(lines, fmt.Sprintf("claim %s is bound to volume %s, which does not exist", claim.Key.Name, claim.Object.Spec.VolumeName))
			continue
		}
		affinity, err := volume.AffinityOn(node.Volumes().CSINode())
		if err != nil || model.NodeSelectorOf(affinity).Matches(node.Object().Labels) {
			continue
		}
		// The affinity of a translated volume may differ from its own.
		required := model.NodeSelectorTerms(affinity)
		lines = append(lines, fmt.Sprintf("claim %s is bound to volume %s, which can be used where %s%s", claim.Key.Name, volume.Name,
			textOfSelector(required), here(node, keysOf(required)...)))
	}
	return lines
}

// keysOf returns the label keys of a selector, each once.
func keysOf(selector *v1.NodeSelector) (keys []string) {
	for i := range selector.NodeSelectorTerms {
		for _, r := range selector.NodeSelectorTerms[i].MatchExpressions {
			if !slices.Contains(keys, r.Key) {
				keys = append(keys, r.Key)
			}
		}
	}
	return keys
}

// notToBeBound explains, for each unbound claim, why no volume is available for it on the
// node.
func (s *Snapshot) notToBeBound(pod *model.Pod, node state.Node) (lines []string) {
	var fit []string
	for _, claim := range s.claimsOf(pod) {
		class := s.store().Class(claim.Class)
		if claim.Bound || class == nil {
			continue
		}
		if claim.IsSelected && claim.SelectedNode != node.Name() {
			lines = append(lines, fmt.Sprintf("claim %s %s", claim.Key.Name, s.provisionedFor(claim)))
			continue
		}
		volumes, fits := s.volumesFor(claim, node)
		if fits && !claim.IsSelected {
			fit = append(fit, claim.Key.Name)
			continue
		}
		if no := s.notProvisioned(claim, class, node); no != "" {
			lines = append(lines, fmt.Sprintf("claim %s: %s; %s", claim.Key.Name, volumes, no))
		}
	}
	if len(lines) == 0 && len(fit) > 1 {
		lines = append(lines, "there are volumes for each of the claims "+strings.Join(fit, ", ")+", and not for all of them")
	}
	return lines
}

// volumesFor explains why no volume of the claim's class fits on the node. fits is true
// if one does.
func (s *Snapshot) volumesFor(claim *model.Claim, node state.Node) (text string, fits bool) {
	var all, taken, small, unlike, elsewhere int
	for _, volume := range s.volumes {
		if volume.Class != claim.Class {
			continue
		}
		all++
		switch ref := volume.Object.Spec.ClaimRef; {
		case ref != nil && (ref.Namespace != claim.Key.Namespace || ref.Name != claim.Key.Name || ref.UID != "" && ref.UID != claim.Object.UID),
			ref == nil && volume.Object.Status.Phase != v1.VolumeAvailable:
			taken++
		case volume.Capacity < claim.Request:
			small++
		case !isLike(volume, claim):
			unlike++
		case !model.NodeSelectorOf(volume.Affinity).Matches(node.Object().Labels):
			elsewhere++
		default:
			return "", true
		}
	}
	if all == 0 {
		return fmt.Sprintf("there is no volume of class %s", claim.Class), false
	}
	var parts []string
	for _, part := range []struct {
		count int
		text  string
	}{
		{taken, "not available"}, {small, "smaller than " + sizeOf(claim)}, {unlike, "not of the kind that is claimed"}, {elsewhere, "not to be used on this node"},
	} {
		if part.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.count, part.text))
		}
	}
	return fmt.Sprintf("of the volumes of class %s (%d) are %s", claim.Class, all, strings.Join(parts, ", ")), false
}

func sizeOf(claim *model.Claim) string {
	request := claim.Object.Spec.Resources.Requests[v1.ResourceStorage]
	return request.String()
}

// isLike compares access modes, selector, volume mode and attributes class.
func isLike(volume *model.Volume, claim *model.Claim) bool {
	has, asks := &volume.Object.Spec, &claim.Object.Spec
	for _, mode := range asks.AccessModes {
		if !slices.Contains(has.AccessModes, mode) {
			return false
		}
	}
	if asks.Selector != nil {
		selector, err := metav1.LabelSelectorAsSelector(asks.Selector)
		if err != nil || !selector.Matches(labels.Set(volume.Object.Labels)) {
			return false
		}
	}
	return orElse(has.VolumeMode, v1.PersistentVolumeFilesystem) == orElse(asks.VolumeMode, v1.PersistentVolumeFilesystem) &&
		orElse(has.VolumeAttributesClassName, "") == orElse(asks.VolumeAttributesClassName, "")
}

func orElse[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}

// notProvisioned explains why no volume can be provisioned for the claim on the node;
// empty if one can.
func (s *Snapshot) notProvisioned(claim *model.Claim, class *model.StorageClass, node state.Node) string {
	provisioner := class.Object.Provisioner
	if provisioner == "" || provisioner == "kubernetes.io/no-provisioner" {
		return "the class has no provisioner"
	}
	if !model.NodeSelectorOf(class.Topologies).Matches(node.Object().Labels) {
		var terms []string
		var keys []string
		for i := range class.Object.AllowedTopologies {
			for _, r := range class.Object.AllowedTopologies[i].MatchLabelExpressions {
				terms = append(terms, fmt.Sprintf("%s is one of %s", r.Key, strings.Join(r.Values, ", ")))
				keys = append(keys, r.Key)
			}
		}
		return "the class is provisioned where " + strings.Join(terms, ", or ") + here(node, keys...)
	}
	driver := s.store().Driver(provisioner)
	if driver == nil || !driver.TracksCapacity || !claim.HasRequest || s.store().CapacityAt(node.Slot(), claim.Class, claim.Request) != nil {
		return ""
	}
	largest := int64(-1)
	for _, c := range s.capacities {
		if selector, err := metav1.LabelSelectorAsSelector(c.Object.NodeTopology); c.Class == claim.Class && c.Usable && err == nil &&
			selector.Matches(labels.Set(node.Object().Labels)) {
			largest = max(largest, c.Limit)
		}
	}
	if largest < 0 {
		return fmt.Sprintf("driver %s publishes no capacity for this node", provisioner)
	}
	return fmt.Sprintf("it requests %s, and the largest volume that driver %s can provision here has %s", sizeOf(claim), provisioner,
		resource.NewQuantity(largest, resource.BinarySI))
}
