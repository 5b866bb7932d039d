package model

import (
	"slices"
	"strings"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	volume "k8s.io/component-helpers/storage/volume"
	csitranslation "k8s.io/csi-translation-lib"

	"github.com/berth-scheduler/berth/internal/model/amount"
)

// Volume is a compiled PersistentVolume.
type Volume struct {
	// Object is the API object, trimmed to what scheduling reads. Shared; never written.
	Object *v1.PersistentVolume
	Name   string
	// Class is the name of the StorageClass. The beta annotation takes precedence, even
	// if it is empty.
	Class string
	// Capacity is the size in bytes.
	Capacity int64
	// Affinity is the canonical text of the node affinity. Zero means that every node can
	// use the volume.
	Affinity Need
	// Zones is the canonical text of the zone and region labels, or zero without such
	// labels.
	Zones Need
	// InTree is the volume's in-tree plugin, if a CSI driver may serve the volume on some
	// nodes. The node affinity on these nodes is Migrated. MigrationErr is set if it
	// cannot be determined.
	InTree       string
	Migrated     Need
	MigrationErr error
	// Driver is the CSI driver that attaches the volume, after translation of an in-tree
	// volume. Handle is the driver's name of the volume. Both are empty if no driver
	// attaches it.
	Driver, Handle string
}

// NewVolume compiles an API object. It keeps the object, which must not be changed
// afterwards.
func NewVolume(object *v1.PersistentVolume) *Volume {
	size := object.Spec.Capacity[v1.ResourceStorage]
	v := &Volume{
		Object: object, Name: object.Name, Class: Interned(volume.GetPersistentVolumeClass(object)), Capacity: amount.Whole(size),
		Affinity: affinityOf(object), Zones: zonesOf(object.Labels),
	}
	if csi := object.Spec.CSI; csi != nil {
		v.Driver, v.Handle = Interned(csi.Driver), csi.VolumeHandle
		return v
	}
	name, err := translator.GetInTreePluginNameFromSpec(object, nil)
	if err != nil || !isMigrated(name) {
		return v
	}
	v.InTree = name
	translated, err := translator.TranslateInTreePVToCSI(logr.Discard(), object)
	if err != nil {
		v.MigrationErr = err
		return v
	}
	v.Migrated = affinityOf(translated)
	if csi := translated.Spec.CSI; csi != nil {
		v.Driver, v.Handle = Interned(csi.Driver), csi.VolumeHandle
	}
	return v
}

// Ref returns the reference of the volume.
func (v *Volume) Ref() Ref { return VolumeRef(v.Name) }

// VolumeRef returns the reference of a PersistentVolume.
func VolumeRef(name string) Ref { return Ref{Kind: PersistentVolumeKind, Name: name} }

// UID returns the object's UID.
func (v *Volume) UID() types.UID { return v.Object.UID }

// Version returns the object's resourceVersion.
func (v *Volume) Version() string { return v.Object.ResourceVersion }

// AffinityOn returns the node affinity that applies on a node. If a CSI driver serves the
// in-tree volume there, it is the affinity of the translated volume, or the error of the
// translation. csi is nil if the node has no CSINode.
func (v *Volume) AffinityOn(csi *CSINode) (Need, error) {
	if v.InTree == "" || csi == nil || !csi.Migrated[v.InTree] {
		return v.Affinity, nil
	}
	return v.Migrated, v.MigrationErr
}

// ClaimKey returns the key of the claim that the volume names. ok is false if it names
// none.
func (v *Volume) ClaimKey() (key ClaimKey, ok bool) {
	ref := v.Object.Spec.ClaimRef
	if ref == nil {
		return key, false
	}
	return ClaimKey{ref.Namespace, ref.Name}, true
}

// translator translates in-tree volumes to CSI volumes. It is stateless.
var translator = csitranslation.New()

// inTree are the in-tree plugins that kube-scheduler considers as migrated to CSI.
// Volumes of azure-file and vsphere-volume could be translated too, but kube-scheduler
// neither counts nor translates them.
var inTree = map[string]bool{
	"kubernetes.io/aws-ebs": true, "kubernetes.io/gce-pd": true, "kubernetes.io/azure-disk": true, "kubernetes.io/cinder": true,
	"kubernetes.io/portworx-volume": true,
}

func isMigrated(plugin string) bool { return inTree[plugin] }

// DriverOf returns the CSI driver that provisions for a StorageClass: the provisioner, or
// the driver that replaces an in-tree plugin. inTree is the in-tree plugin, or empty.
// driver is empty for an in-tree plugin without a replacement.
func DriverOf(provisioner string) (driver, inTree string) {
	if !translator.IsMigratableIntreePluginByName(provisioner) {
		return provisioner, ""
	}
	if !isMigrated(provisioner) {
		return "", provisioner
	}
	name, err := translator.GetCSINameFromInTreeName(provisioner)
	if err != nil {
		return "", provisioner
	}
	return name, provisioner
}

// ZoneLabels are the zone and region labels of nodes and volumes, in the order of their
// evaluation.
var ZoneLabels = [...]string{v1.LabelFailureDomainBetaZone, v1.LabelFailureDomainBetaRegion, v1.LabelTopologyZone, v1.LabelTopologyRegion}

// Zone is a label of nodes with the values that it may have on the nodes of a volume.
type Zone struct {
	Label  string
	Values []string
}

const zoneSeparator = "__"

// zonesOf returns the canonical text of a volume's zone labels, in the order of
// ZoneLabels. The values of a label are sorted and distinct. A label with an empty part
// is ignored.
func zonesOf(of map[string]string) Need {
	var text strings.Builder
	for _, label := range ZoneLabels {
		value, ok := of[label]
		if !ok {
			continue
		}
		if values := zoneValues(value); values != nil {
			text.WriteString(label + "=" + strings.Join(values, zoneSeparator) + "\n")
		}
	}
	if text.Len() == 0 {
		return Need{}
	}
	return NeedOf(text.String())
}

func zoneValues(label string) []string {
	values := strings.Split(label, zoneSeparator)
	for i := range values {
		if values[i] = strings.TrimSpace(values[i]); values[i] == "" {
			return nil
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// ZonesOf decodes a text of Volume.Zones.
func ZonesOf(text Need) []Zone {
	var zones []Zone
	for line := range strings.Lines(text.String()) {
		label, values, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		zones = append(zones, Zone{label, strings.Split(values, zoneSeparator)})
	}
	return zones
}

// Matches reports whether a node with these labels is in one of the zones. If the node
// lacks a beta label, its GA name is looked up.
func (z *Zone) Matches(of labels.Set) bool {
	value, ok := of[z.Label]
	if !ok {
		switch z.Label {
		case v1.LabelFailureDomainBetaZone:
			value, ok = of[v1.LabelTopologyZone]
		case v1.LabelFailureDomainBetaRegion:
			value, ok = of[v1.LabelTopologyRegion]
		}
	}
	if !ok {
		return false
	}
	for _, v := range z.Values {
		if v == value {
			return true
		}
	}
	return false
}
