package model

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
)

// PodVolumes are the volumes of a pod that scheduling reads.
type PodVolumes struct {
	// Claims are the claims that the pod uses, in the order of its volumes. A claim that
	// is named twice is listed twice.
	Claims []PodClaim
	// Disks are inline volumes that two pods on a node can share only under conditions.
	Disks []Disk
	// Inline are inline volumes of in-tree plugins that a CSI driver serves.
	Inline []InlineVolume
}

// PodClaim is a claim that a pod uses.
type PodClaim struct {
	Key ClaimKey
	// Ephemeral means that the claim is created for the pod, which must be its owner.
	Ephemeral bool
	// Repeated means that an earlier volume of the pod names the same claim.
	Repeated bool
}

// Names reports whether the pod uses the claim. Ephemeral claims count only if ephemeral
// is set.
func (v *PodVolumes) Names(key ClaimKey, ephemeral bool) bool {
	return v != nil && slices.ContainsFunc(v.Claims, func(c PodClaim) bool { return c.Key == key && (ephemeral || !c.Ephemeral) })
}

// NamedSet returns the claims that the pod uses, without ephemeral claims.
func (v *PodVolumes) NamedSet() map[ClaimKey]bool {
	named := make(map[ClaimKey]bool, len(v.Claims))
	for i := range v.Claims {
		if !v.Claims[i].Ephemeral {
			named[v.Claims[i].Key] = true
		}
	}
	return named
}

// DiskKind is the type of an inline disk.
type DiskKind uint8

// The types of inline disk that are compared.
const (
	GCEDisk DiskKind = iota
	AWSDisk
	ISCSIDisk
	RBDDisk
)

// Disk is an inline disk.
type Disk struct {
	Kind DiskKind
	// Name is unique among the disks of a kind: the name of a GCE disk, the id of an AWS
	// volume, the IQN of an iSCSI target, or the image of an RBD.
	Name string
	// Pool and Monitors are set for RBD.
	Pool     string
	Monitors []string
	ReadOnly bool
}

// Identity returns a text that is equal exactly for equal disks.
func (d *Disk) Identity() string {
	text := append(make([]byte, 0, 64), byte(d.Kind))
	text = strconv.AppendBool(text, d.ReadOnly)
	text = AppendQuote(text, d.Name)
	text = AppendQuote(text, d.Pool)
	for _, monitor := range d.Monitors {
		text = AppendQuote(text, monitor)
	}
	return string(text)
}

// Disks are the disks of a pod, prepared for comparisons with many others.
type Disks struct {
	list []Disk
	// byPart indexes the disks by the parts that conflicting disks share. It is nil for a
	// few disks.
	byPart map[diskPart]access
}

// diskPart is a disk, or an RBD disk on a single monitor.
type diskPart struct {
	kind                DiskKind
	name, pool, monitor string
}

// access describes the use of a part's disks. writes means that a disk is not read-only.
type access struct{ writes bool }

// fewDisks is the limit for comparing disks one at a time.
const fewDisks = 4

// NewDisks prepares disks for comparisons. The list must not be changed afterwards.
func NewDisks(list []Disk) Disks {
	d := Disks{list: list}
	if len(list) <= fewDisks && !slices.ContainsFunc(list, func(d Disk) bool { return len(d.Monitors) > fewDisks }) {
		return d
	}
	d.byPart = map[diskPart]access{}
	for i := range list {
		list[i].eachPart(func(part diskPart) bool {
			d.byPart[part] = access{writes: d.byPart[part].writes || !list[i].ReadOnly}
			return true
		})
	}
	return d
}

// Len returns the number of disks.
func (d Disks) Len() int { return len(d.list) }

// Conflict reports whether a disk conflicts with any of the disks, so that pods on one
// node cannot use both.
func (d Disks) Conflict(o *Disk) bool {
	if d.byPart == nil {
		return slices.ContainsFunc(d.list, func(own Disk) bool { return own.Conflicts(o) })
	}
	conflicts := false
	o.eachPart(func(part diskPart) bool {
		own, shared := d.byPart[part]
		conflicts = shared && (own.writes || !o.ReadOnly || o.Kind == AWSDisk)
		return !conflicts
	})
	return conflicts
}

func (d *Disk) eachPart(yield func(diskPart) bool) {
	part := diskPart{kind: d.Kind, name: d.Name, pool: d.Pool}
	if d.Kind != RBDDisk {
		yield(part)
		return
	}
	for _, part.monitor = range d.Monitors {
		if !yield(part) {
			return
		}
	}
}

// Conflicts reports whether pods on one node cannot use both disks.
func (d *Disk) Conflicts(o *Disk) bool {
	if d.Kind != o.Kind || d.Name != o.Name || d.Pool != o.Pool {
		return false
	}
	switch d.Kind {
	case AWSDisk:
		return true
	case RBDDisk:
		if !slices.ContainsFunc(d.Monitors, func(m string) bool { return slices.Contains(o.Monitors, m) }) {
			return false
		}
	}
	return !d.ReadOnly || !o.ReadOnly
}

// InlineVolume is an inline volume of an in-tree plugin, with the driver and handle of
// the CSI driver that serves it.
type InlineVolume struct {
	Driver, Handle string
	// Err is the error of the translation to CSI, or nil. After is the number of the
	// pod's claims before the volume.
	Err   error
	After int
}

// manyVolumes is the number of volumes above which memory is allocated for all at once.
const manyVolumes = 64

// orNil returns a list, or nil if it is empty.
func orNil[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return slices.Clip(list)
}

// volumesOf returns the volumes of a pod that scheduling reads, or nil.
func volumesOf(pod *v1.Pod) *PodVolumes {
	var volumes PodVolumes
	namespace := ""
	if len(pod.Spec.Volumes) > manyVolumes {
		volumes.Claims, volumes.Disks = make([]PodClaim, 0, len(pod.Spec.Volumes)), make([]Disk, 0, len(pod.Spec.Volumes))
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		switch {
		case v.PersistentVolumeClaim != nil || v.Ephemeral != nil:
			if namespace == "" {
				namespace = Interned(pod.Namespace)
			}
			claim := PodClaim{Key: ClaimKey{Namespace: namespace}, Ephemeral: v.Ephemeral != nil}
			if claim.Key.Name = pod.Name + "-" + v.Name; !claim.Ephemeral {
				claim.Key.Name = v.PersistentVolumeClaim.ClaimName
			}
			volumes.Claims = append(volumes.Claims, claim)
			continue
		case v.GCEPersistentDisk != nil:
			volumes.Disks = append(volumes.Disks, Disk{Kind: GCEDisk, Name: v.GCEPersistentDisk.PDName, ReadOnly: v.GCEPersistentDisk.ReadOnly})
		case v.AWSElasticBlockStore != nil:
			volumes.Disks = append(volumes.Disks, Disk{Kind: AWSDisk, Name: v.AWSElasticBlockStore.VolumeID})
		case v.ISCSI != nil:
			volumes.Disks = append(volumes.Disks, Disk{Kind: ISCSIDisk, Name: v.ISCSI.IQN, ReadOnly: v.ISCSI.ReadOnly})
		case v.RBD != nil:
			volumes.Disks = append(volumes.Disks, Disk{
				Kind: RBDDisk, Name: v.RBD.RBDImage, Pool: v.RBD.RBDPool, Monitors: v.RBD.CephMonitors, ReadOnly: v.RBD.ReadOnly,
			})
		}
		if inline, ok := inlineVolume(v, pod.Namespace); ok {
			inline.After = len(volumes.Claims)
			volumes.Inline = append(volumes.Inline, inline)
		}
	}
	if len(volumes.Claims)+len(volumes.Disks)+len(volumes.Inline) == 0 {
		return nil
	}
	markRepeated(volumes.Claims)
	volumes.Claims, volumes.Disks = orNil(volumes.Claims), orNil(volumes.Disks)
	return &volumes
}

// markRepeated sets Repeated, in time linear in the length of the list.
func markRepeated(claims []PodClaim) {
	if len(claims) < 2 {
		return
	}
	seen := make(map[PodClaim]bool, len(claims))
	for i := range claims {
		c := claims[i]
		claims[i].Repeated = seen[c]
		seen[c] = true
	}
}

// inlineVolume translates an inline volume. ok is false if no CSI driver serves it.
func inlineVolume(v *v1.Volume, namespace string) (inline InlineVolume, ok bool) {
	if v.GCEPersistentDisk == nil && v.AWSElasticBlockStore == nil && v.AzureDisk == nil && v.Cinder == nil && v.PortworxVolume == nil {
		// a quick check, because the translator tries all of its plugins
		return inline, false
	}
	if name, err := translator.GetInTreePluginNameFromSpec(nil, v); err != nil || !isMigrated(name) {
		return inline, false
	}
	translated, err := translator.TranslateInTreeInlineVolumeToCSI(logr.Discard(), v, namespace)
	if err != nil {
		return InlineVolume{Err: fmt.Errorf("converting volume(%s) from inline to csi: %w", v.Name, err)}, true
	}
	return InlineVolume{Driver: Interned(translated.Spec.CSI.Driver), Handle: translated.Spec.CSI.VolumeHandle}, true
}

// InlineDriver returns the CSI driver that replaces the in-tree plugin of an inline
// volume, or empty. It also covers types of volume that are never counted.
func InlineDriver(v *v1.Volume) string {
	plugin, err := translator.GetInTreePluginNameFromSpec(nil, v)
	if err != nil {
		return ""
	}
	driver, err := translator.GetCSINameFromInTreeName(plugin)
	if err != nil {
		return ""
	}
	return driver
}
