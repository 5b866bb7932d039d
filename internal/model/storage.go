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

	"github.com/berth-scheduler/berth/internal/model/amount"
)

// Compiled is a compiled object. It is immutable.
//
// For storage it is a *Volume, *Claim, *StorageClass, *CSINode, *CSIDriver,
// *StorageCapacity or *VolumeAttachment. For devices it is a *ResourceClaim,
// *ResourceSlice, *DeviceClass or *DeviceTaintRule. The others are *DisruptionBudget,
// *PodGroup and *CompositeGroup.
type Compiled interface {
	// Ref returns the reference of the object.
	Ref() Ref
	// UID and Version return the object's UID and resourceVersion.
	UID() types.UID
	Version() string
}

// OrNil converts an object to an interface, which is nil for a nil object.
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

// Ref returns the reference of the PersistentVolumeClaim with this key.
func (k ClaimKey) Ref() Ref { return Ref{PersistentVolumeClaimKind, k.Namespace, k.Name} }

// ClaimKey returns the key of the claim that the reference names.
func (r Ref) ClaimKey() ClaimKey { return ClaimKey{r.Namespace, r.Name} }

// Claim is a compiled PersistentVolumeClaim.
type Claim struct {
	// Object is the API object, trimmed to what scheduling reads. Shared; never written.
	Object *v1.PersistentVolumeClaim
	Key    ClaimKey
	// Class is the name of the StorageClass. The beta annotation takes precedence, even
	// if it is empty.
	Class string
	// Request is the requested storage in bytes. HasRequest is false without a request.
	Request    int64
	HasRequest bool
	// Bound means that the claim has a volume and the binding is complete. The phase is
	// ignored.
	Bound bool
	// SelectedNode is the annotation with the node for which to provision a volume.
	// IsSelected reports whether the annotation is present.
	SelectedNode string
	IsSelected   bool
	// Owner is the UID of the controlling object, such as the pod of an ephemeral claim.
	Owner types.UID
	// Exclusive means that only one pod may use the claim (ReadWriteOncePod).
	Exclusive bool
}

// NewClaim compiles an API object. It keeps the object, which must not be changed
// afterwards.
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

// Deleting reports whether the claim is terminating.
func (c *Claim) Deleting() bool { return c.Object.DeletionTimestamp != nil }

// StorageClass is a compiled StorageClass.
type StorageClass struct {
	// Object is the API object, trimmed to what scheduling reads. Shared; never written.
	Object *storagev1.StorageClass
	Name   string
	// Topologies is the canonical text of allowedTopologies: the nodes for which volumes
	// may be provisioned. Zero means all nodes.
	Topologies Need
}

// NewStorageClass compiles an API object. It keeps the object, which must not be changed
// afterwards.
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

// Waits reports whether claims of the class are bound only when a pod that uses them is
// placed: the mode WaitForFirstConsumer.
func (c *StorageClass) Waits() bool {
	mode := c.Object.VolumeBindingMode
	return mode != nil && *mode == storagev1.VolumeBindingWaitForFirstConsumer
}

// CSIDriver is a compiled CSIDriver.
type CSIDriver struct {
	Object *storagev1.CSIDriver
	Name   string
	// TracksCapacity means that the driver publishes the capacity that it can provision.
	TracksCapacity bool
	// MustBeInstalled means that pods with the driver's volumes may only use nodes on
	// which the driver is registered.
	MustBeInstalled bool
}

// NewCSIDriver compiles an API object. It keeps the object, which must not be changed
// afterwards.
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

// migratedPlugins is the annotation of a CSINode that lists in-tree plugins. A CSI driver
// serves their volumes on the node.
const migratedPlugins = v1.MigratedPluginsAnnotationKey

// CSINode is a compiled CSINode: the CSI drivers on the node of the same name.
type CSINode struct {
	Object *storagev1.CSINode
	Name   string
	// Drivers maps installed drivers to the number of volumes that the node can attach,
	// or Unlimited.
	Drivers map[string]int64
	// Limited means that at least one driver has a limit.
	Limited bool
	// Migrated are the in-tree plugins whose volumes a CSI driver serves on the node.
	Migrated map[string]bool
}

// Unlimited is the limit of a driver without a limit.
const Unlimited = -1

// NewCSINode compiles an API object. It keeps the object, which must not be changed
// afterwards.
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

// LimitOf returns the number of volumes of a driver that the node can attach; limited is
// false if the node has no such limit.
func (n *CSINode) LimitOf(driver string) (limit int64, limited bool) {
	limit, listed := n.Drivers[driver]
	return limit, listed && limit != Unlimited
}

// Ref returns the reference of the CSINode.
func (n *CSINode) Ref() Ref { return Ref{Kind: CSINodeKind, Name: n.Name} }

// UID returns the object's UID.
func (n *CSINode) UID() types.UID { return n.Object.UID }

// Version returns the object's resourceVersion.
func (n *CSINode) Version() string { return n.Object.ResourceVersion }

// MigratedText returns the unparsed list of migrated plugins.
func (n *CSINode) MigratedText() string { return n.Object.Annotations[migratedPlugins] }

// Equal reports whether both objects are equal for scheduling.
func (n *CSINode) Equal(o *CSINode) bool {
	return maps.Equal(n.Drivers, o.Drivers) && maps.Equal(n.Migrated, o.Migrated)
}

// StorageCapacity is a compiled CSIStorageCapacity: the storage of a class that a driver
// can provision for some nodes.
type StorageCapacity struct {
	Object *storagev1.CSIStorageCapacity
	Class  string
	// Nodes is the canonical text of the node selector, or zero if it selects none.
	Nodes Need
	// Limit is the size in bytes of the largest volume that can be provisioned. Usable is
	// false if the limit is unknown; no volume can then be provisioned.
	Limit  int64
	Usable bool
	// Capacity is the total number of bytes that can be provisioned. HasCapacity is false
	// if it is unknown.
	Capacity    int64
	HasCapacity bool
}

// Room returns the total number of bytes that can be provisioned, or amount.Max if
// unknown.
func (c *StorageCapacity) Room() int64 {
	if !c.HasCapacity {
		return amount.Max
	}
	return c.Capacity
}

// NewStorageCapacity compiles an API object. It keeps the object, which must not be
// changed afterwards.
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

// VolumeAttachment is a compiled VolumeAttachment of a PersistentVolume, which is
// attached to a node or will be.
type VolumeAttachment struct {
	Object     *storagev1.VolumeAttachment
	Name, Node string
	// Attacher is the driver. Volume is the name of the PersistentVolume; empty if
	// inline.
	Attacher, Volume string
}

// NewVolumeAttachment compiles an API object. It keeps the object, which must not be
// changed afterwards.
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
