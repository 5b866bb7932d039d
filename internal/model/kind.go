package model

// Kind is a kind of API object that scheduling can read. Package kinds has a table with
// one row for each.
type Kind uint8

// The kinds.
const (
	PodKind Kind = iota
	NodeKind
	NamespaceKind
	ServiceKind
	ReplicationControllerKind
	ReplicaSetKind
	StatefulSetKind
	PersistentVolumeKind
	PersistentVolumeClaimKind
	StorageClassKind
	CSINodeKind
	CSIDriverKind
	CSIStorageCapacityKind
	VolumeAttachmentKind
	PodDisruptionBudgetKind
	ResourceClaimKind
	ResourceSliceKind
	DeviceClassKind
	DeviceTaintRuleKind
	PodGroupKind
	CompositePodGroupKind
	// KindCount is the number of kinds.
	KindCount
)

// Ref names an API object. Objects of kinds without namespaces have no Namespace.
type Ref struct {
	Kind            Kind
	Namespace, Name string
}

// Ref returns the reference of the pod with this key.
func (k PodKey) Ref() Ref { return Ref{PodKind, k.Namespace, k.Name} }
