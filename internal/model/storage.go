package model

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	volume "k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/internal/amount"
)

// Compiled is a compiled object: a *Volume, *Claim, *StorageClass, *CSINode, *CSIDriver, *StorageCapacity or *VolumeAttachment of storage, a
// *ResourceClaim, *ResourceSlice, *DeviceClass or *DeviceTaintRule of devices, a *DisruptionBudget, or a *PodGroup or *CompositeGroup. It is built once and never changed afterwards.
type Compiled interface {
	// Ref returns the reference of the object.
	Ref() Ref
	// UID and Version return the object's UID and resourceVersion.
	UID() types.UID
	Version() string
}

// OrNil returns an object as an interface that is nil if the object is.
func OrNil[T any, P interface {
	*T
	Compiled
}](object P) Compiled {
	if object == nil {
		return nil
	}
	return object
}

// ClaimKey is a claim's namespace and name.
type ClaimKey struct{ Namespace, Name string }

// String returns namespace/name.
func (k ClaimKey) String() string { return k.Namespace + "/" + k.Name }

// Compare orders keys by namespace and name.
func (k ClaimKey) Compare(o ClaimKey) int {
	return cmp.Or(strings.Compare(k.Namespace, o.Namespace), strings.Compare(k.Name, o.Name))
}

// Ref returns the reference of the claim of a key.
func (k ClaimKey) Ref() Ref { return Ref{PersistentVolumeClaimKind, k.Namespace, k.Name} }

// ClaimKey returns the key of the claim that the reference names.
func (r Ref) ClaimKey() ClaimKey { return ClaimKey{r.Namespace, r.Name} }

// Claim is a compiled PersistentVolumeClaim.
type Claim struct {
	// Object is the API object, trimmed to what scheduling reads. Shared; never written.
	Object *v1.PersistentVolumeClaim
	Key    ClaimKey
	// Class is the name of its StorageClass: that of the beta annotation if there is one, even if it is empty.
	Class string
	// Request is the storage that it requests, in bytes; HasRequest is false if it requests none.
	Request    int64
	HasRequest bool
	// Bound means that it has a volume and that the binding is complete. Phases say nothing about that.
	Bound bool
	// SelectedNode is the annotation that names the node for which its volume is to be provisioned; IsSelected is whether there is one.
	SelectedNode string
	IsSelected   bool
	// Owner is the UID of the object that controls it, such as the pod that an ephemeral claim was made for.
	Owner types.UID
	// Exclusive means that only one pod may use it (ReadWriteOncePod).
	Exclusive bool
}

// NewClaim compiles an API object. The object is kept and must not be changed afterwards.
func NewClaim(object *v1.PersistentVolumeClaim) *Claim {
	request, asks := object.Spec.Resources.Requests[v1.ResourceStorage]
	_, complete := object.Annotations[volume.AnnBindCompleted]
	c := &Claim{
		Object: object, Key: ClaimKey{Interned(object.Namespace), object.Name}, Class: Interned(volume.GetPersistentVolumeClaimClass(object)),
		Request: amount.Whole(request), HasRequest: asks,
		Bound:     object.Spec.VolumeName != "" && complete,
		Exclusive: slices.Contains(object.Spec.AccessModes, v1.ReadWriteOncePod),
	}
	c.SelectedNode, c.IsSelected = object.Annotations[volume.AnnSelectedNode]
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
		c.Owner = owner.UID
	}
	return c
}

// Ref returns the reference of the claim.
func (c *Claim) Ref() Ref { return c.Key.Ref() }

// UID returns the object's UID.
func (c *Claim) UID() types.UID { return c.Object.UID }

// Version returns the object's resourceVersion.
func (c *Claim) Version() string { return c.Object.ResourceVersion }

// Deleting reports whether the claim is being deleted.
func (c *Claim) Deleting() bool { return c.Object.DeletionTimestamp != nil }

// StorageClass is a compiled StorageClass.
type StorageClass struct {
	// Object is the API object, trimmed to what scheduling reads. Shared; never written.
	Object *storagev1.StorageClass
	Name   string
	// Topologies is the canonical text of the nodes for which volumes may be provisioned (allowedTopologies); zero for all.
	Topologies Need
}

// NewStorageClass compiles an API object. The object is kept and must not be changed afterwards.
func NewStorageClass(object *storagev1.StorageClass) *StorageClass {
	c := &StorageClass{Object: object, Name: Interned(object.Name)}
	if len(object.AllowedTopologies) > 0 {
		var nodes v1.NodeSelector
		for i := range object.AllowedTopologies {
			var term v1.NodeSelectorTerm
			for _, e := range object.AllowedTopologies[i].MatchLabelExpressions {
				term.MatchExpressions = append(term.MatchExpressions, v1.NodeSelectorRequirement{Key: e.Key, Operator: v1.NodeSelectorOpIn, Values: e.Values})
			}
			nodes.NodeSelectorTerms = append(nodes.NodeSelectorTerms, term)
		}
		c.Topologies = textOfNodeSelector(&nodes)
	}
	return c
}

// Ref returns the reference of the class.
func (c *StorageClass) Ref() Ref { return Ref{Kind: StorageClassKind, Name: c.Name} }

// UID returns the object's UID.
func (c *StorageClass) UID() types.UID { return c.Object.UID }

// Version returns the object's resourceVersion.
func (c *StorageClass) Version() string { return c.Object.ResourceVersion }

// Waits reports whether claims of the class are bound only when a pod that uses them is placed.
func (c *StorageClass) Waits() bool {
	mode := c.Object.VolumeBindingMode
	return mode != nil && *mode == storagev1.VolumeBindingWaitForFirstConsumer
}

// CSIDriver is a compiled CSIDriver.
type CSIDriver struct {
	Object *storagev1.CSIDriver
	Name   string
	// TracksCapacity means that it publishes how much storage it can provision, and where.
	TracksCapacity bool
	// MustBeInstalled means that pods with its volumes only go to nodes that list it.
	MustBeInstalled bool
}

// NewCSIDriver compiles an API object. The object is kept and must not be changed afterwards.
func NewCSIDriver(object *storagev1.CSIDriver) *CSIDriver {
	is := func(b *bool) bool { return b != nil && *b }
	return &CSIDriver{
		Object: object, Name: Interned(object.Name),
		TracksCapacity: is(object.Spec.StorageCapacity), MustBeInstalled: is(object.Spec.PreventPodSchedulingIfMissing),
	}
}

// Ref returns the reference of the driver.
func (d *CSIDriver) Ref() Ref { return Ref{Kind: CSIDriverKind, Name: d.Name} }

// UID returns the object's UID.
func (d *CSIDriver) UID() types.UID { return d.Object.UID }

// Version returns the object's resourceVersion.
func (d *CSIDriver) Version() string { return d.Object.ResourceVersion }

// migratedPlugins is the annotation of a CSINode that lists the in-tree plugins whose volumes a CSI driver serves on the node.
const migratedPlugins = v1.MigratedPluginsAnnotationKey

// CSINode is a compiled CSINode: what CSI drivers can do on the node of its name.
type CSINode struct {
	Object *storagev1.CSINode
	Name   string
	// Drivers are the names of the drivers that are installed, with how many volumes the node can have of each, -1 for any number.
	Drivers map[string]int64
	// Limited means that one of the drivers has a limit.
	Limited bool
	// Migrated are the in-tree plugins whose volumes a CSI driver serves on the node.
	Migrated map[string]bool
}

// Unlimited is the limit of a driver that has none.
const Unlimited = -1

// NewCSINode compiles an API object. The object is kept and must not be changed afterwards.
func NewCSINode(object *storagev1.CSINode) *CSINode {
	n := &CSINode{Object: object, Name: Interned(object.Name), Drivers: map[string]int64{}}
	for i := range object.Spec.Drivers {
		d := &object.Spec.Drivers[i]
		n.Drivers[Interned(d.Name)] = Unlimited
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			n.Drivers[Interned(d.Name)], n.Limited = int64(*d.Allocatable.Count), true
		}
	}
	if list := object.Annotations[migratedPlugins]; list != "" {
		n.Migrated = map[string]bool{}
		for name := range strings.SplitSeq(list, ",") {
			n.Migrated[Interned(name)] = true
		}
	}
	return n
}

// Ref returns the reference of the CSINode.
func (n *CSINode) Ref() Ref { return Ref{Kind: CSINodeKind, Name: n.Name} }

// UID returns the object's UID.
func (n *CSINode) UID() types.UID { return n.Object.UID }

// Version returns the object's resourceVersion.
func (n *CSINode) Version() string { return n.Object.ResourceVersion }

// MigratedText returns the list of migrated plugins as it is written.
func (n *CSINode) MigratedText() string { return n.Object.Annotations[migratedPlugins] }

// Equal reports whether scheduling reads the same of both.
func (n *CSINode) Equal(o *CSINode) bool {
	return maps.Equal(n.Drivers, o.Drivers) && maps.Equal(n.Migrated, o.Migrated)
}

// StorageCapacity is a compiled CSIStorageCapacity: how much storage of a class a driver can provision for some nodes.
type StorageCapacity struct {
	Object *storagev1.CSIStorageCapacity
	Class  string
	// Nodes is the canonical text of the selector of nodes; zero if it selects none.
	Nodes Need
	// Limit is the size of the largest volume that can be provisioned, in bytes; Usable is false if it is unknown, so that none can be.
	Limit  int64
	Usable bool
	// Capacity is what can be provisioned altogether, in bytes; HasCapacity is false if it is unknown.
	Capacity    int64
	HasCapacity bool
}

// Room returns how much can be provisioned altogether, in bytes; amount.Max if it is unknown.
func (c *StorageCapacity) Room() int64 {
	if !c.HasCapacity {
		return amount.Max
	}
	return c.Capacity
}

// NewStorageCapacity compiles an API object. The object is kept and must not be changed afterwards.
func NewStorageCapacity(object *storagev1.CSIStorageCapacity) *StorageCapacity {
	c := &StorageCapacity{Object: object, Class: Interned(object.StorageClassName)}
	if object.Capacity != nil {
		c.Capacity, c.HasCapacity = amount.Whole(*object.Capacity), true
		c.Limit, c.Usable = c.Capacity, true
	}
	if object.MaximumVolumeSize != nil {
		c.Limit, c.Usable = min(amount.Whole(*object.MaximumVolumeSize), c.Room()), true
	}
	if object.NodeTopology != nil {
		c.Nodes = textOfLabelSelector(object.NodeTopology)
	}
	return c
}

// Ref returns the reference of the object.
func (c *StorageCapacity) Ref() Ref {
	return Ref{CSIStorageCapacityKind, c.Object.Namespace, c.Object.Name}
}

// UID returns the object's UID.
func (c *StorageCapacity) UID() types.UID { return c.Object.UID }

// Version returns the object's resourceVersion.
func (c *StorageCapacity) Version() string { return c.Object.ResourceVersion }

// VolumeAttachment is a compiled VolumeAttachment of a PersistentVolume: the volume is attached to a node, or is to be.
type VolumeAttachment struct {
	Object           *storagev1.VolumeAttachment
	Name, Node       string
	Attacher, Volume string // the driver and the name of the PersistentVolume; empty if the source is inline
}

// NewVolumeAttachment compiles an API object. The object is kept and must not be changed afterwards.
func NewVolumeAttachment(object *storagev1.VolumeAttachment) *VolumeAttachment {
	a := &VolumeAttachment{
		Object: object, Name: object.Name, Node: Interned(object.Spec.NodeName), Attacher: Interned(object.Spec.Attacher),
	}
	if name := object.Spec.Source.PersistentVolumeName; name != nil {
		a.Volume = *name
	}
	return a
}

// Ref returns the reference of the attachment.
func (a *VolumeAttachment) Ref() Ref { return Ref{Kind: VolumeAttachmentKind, Name: a.Name} }

// UID returns the object's UID.
func (a *VolumeAttachment) UID() types.UID { return a.Object.UID }

// Version returns the object's resourceVersion.
func (a *VolumeAttachment) Version() string { return a.Object.ResourceVersion }
