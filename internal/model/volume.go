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

	"github.com/berth-scheduler/berth/internal/amount"
)

// Volume is a compiled PersistentVolume.
type Volume struct {
	// Object is the API object, trimmed to what scheduling reads. Shared; never written.
	Object *v1.PersistentVolume
	Name   string
	// Class is the name of its StorageClass: that of the beta annotation if there is one, even if it is empty.
	Class string
	// Capacity is its size in bytes.
	Capacity int64
	// Affinity is the canonical text of its node affinity; zero if it can be used on every node.
	Affinity Need
	// Zones is the canonical text of its zone and region labels; zero if it has none.
	Zones Need
	// InTree is the in-tree plugin that it belongs to, if a CSI driver may serve such volumes on some nodes; empty otherwise. Its node affinity
	// there is Migrated, or MigrationErr says why it has none.
	InTree       string
	Migrated     Need
	MigrationErr error
	// Driver is the CSI driver that attaches it, after translation if it is in-tree, and Handle the driver's name of it; both are empty if it is not
	// attached by a driver.
	Driver, Handle string
}

// NewVolume compiles an API object. The object is kept and must not be changed afterwards.
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

// AffinityOn returns the node affinity that counts on a node: of an in-tree volume that a CSI driver serves there, that of the translated volume,
// or why it cannot be translated. csi is nil if the node has no CSINode.
func (v *Volume) AffinityOn(csi *CSINode) (Need, error) {
	if v.InTree == "" || csi == nil || !csi.Migrated[v.InTree] {
		return v.Affinity, nil
	}
	return v.Migrated, v.MigrationErr
}

// ClaimKey returns the key of the claim that the volume names; ok is false if it names none.
func (v *Volume) ClaimKey() (key ClaimKey, ok bool) {
	ref := v.Object.Spec.ClaimRef
	if ref == nil {
		return key, false
	}
	return ClaimKey{ref.Namespace, ref.Name}, true
}

// translator translates in-tree volumes into volumes of CSI drivers. It has no state.
var translator = csitranslation.New()

// inTree are the in-tree plugins whose volumes CSI drivers serve, as far as kube-scheduler considers them: volumes of azure-file and vsphere-volume
// can be translated, but it neither counts nor translates them.
var inTree = map[string]bool{
	"kubernetes.io/aws-ebs": true, "kubernetes.io/gce-pd": true, "kubernetes.io/azure-disk": true, "kubernetes.io/cinder": true,
	"kubernetes.io/portworx-volume": true,
}

func isMigrated(plugin string) bool { return inTree[plugin] }

// DriverOf returns the CSI driver that provisions for a StorageClass: the provisioner itself, or the driver that has replaced an in-tree plugin.
// inTree is that plugin, empty if there is none. It is empty if the provisioner is in-tree and no driver has replaced it.
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

// ZoneLabels are the labels of nodes and volumes by which volumes are in zones and regions, in the order in which they are looked at.
var ZoneLabels = [...]string{v1.LabelFailureDomainBetaZone, v1.LabelFailureDomainBetaRegion, v1.LabelTopologyZone, v1.LabelTopologyRegion}

// Zone is the zones or regions of which a volume is in one, by a label of nodes.
type Zone struct {
	Label  string
	Values []string
}

const zoneSeparator = "__"

// zonesOf returns the canonical text of the zone labels among the labels of a volume, in the order of ZoneLabels; the values of a label are sorted, each
// once. A label with an empty part is ignored.
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

// ZonesOf returns what a text of Volume.Zones stands for.
func ZonesOf(text Need) []Zone {
	var zones []Zone
	for line := range strings.Lines(text.String()) {
		label, values, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		zones = append(zones, Zone{label, strings.Split(values, zoneSeparator)})
	}
	return zones
}

// Matches reports whether a node with these labels is in one of the zones. A beta label that the node lacks is looked up under its new name.
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
