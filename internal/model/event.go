package model

import (
	"cmp"
	"maps"
	"math/bits"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/model/amount"
)

// EventResource is the kind of object that a cluster event is about, in kube-scheduler's
// terms.
type EventResource uint8

// The resources of events. AnyPodEvent is only registered, never raised: it covers the
// three kinds of pod.
const (
	NodeEvent EventResource = iota
	AssignedPodEvent
	UnscheduledPodEvent
	TargetPodEvent
	AnyPodEvent
	PersistentVolumeEvent
	PersistentVolumeClaimEvent
	StorageClassEvent
	CSINodeEvent
	CSIDriverEvent
	CSIStorageCapacityEvent
	VolumeAttachmentEvent
	ResourceClaimEvent
	// ResourceSliceEvent is about a slice, or about a rule that taints its devices.
	ResourceSliceEvent
	DeviceClassEvent
	PodGroupEvent
	CompositePodGroupEvent
	// NamespaceEvent and SelectorEvent have no counterpart in kube-scheduler, whose hints
	// ignore these changes. NamespaceEvent is about the labels of a namespace.
	// SelectorEvent is about the pods that a Service or a controller selects, which
	// default spread constraints use. Out-of-tree plugins never get either event.
	NamespaceEvent
	SelectorEvent
	// OtherEvent is about an object that Berth itself does not read. Event and
	// EventToRegister name its resource in Other.
	OtherEvent
	// AnyEvent is registered for all resources. When raised, it replaces more events than
	// could be kept: every parked pod is tried again.
	AnyEvent
)

var eventResourceNames = [...]string{
	"Node", "AssignedPod", "UnscheduledPod", "TargetPod", "Pod", "PersistentVolume", "PersistentVolumeClaim", "storage.k8s.io/StorageClass",
	"storage.k8s.io/CSINode", "storage.k8s.io/CSIDriver", "storage.k8s.io/CSIStorageCapacity", "storage.k8s.io/VolumeAttachment",
	"resource.k8s.io/ResourceClaim", "resource.k8s.io/ResourceSlice", "resource.k8s.io/DeviceClass",
	"scheduling.k8s.io/PodGroup", "scheduling.k8s.io/CompositePodGroup", "Namespace", "Selector",
	"", "*",
}

// EventResourceNamed returns the resource that a plugin registers by kube-scheduler's
// name.
//
// Names such as Node or * map to the constants above. Other names map to OtherEvent with
// the name, such as resource.k8s.io/DeviceTaintRule. A custom resource has a name of the
// form <plural>.<version>.<group>.
func EventResourceNamed(name string) (resource EventResource, other string) {
	for i, known := range eventResourceNames {
		if resource = EventResource(i); name == known && resource != OtherEvent && !resource.isOwn() {
			return resource, ""
		}
	}
	return OtherEvent, name
}

// String returns kube-scheduler's name, as used in metric labels.
func (r EventResource) String() string { return eventResourceNames[r] }

// isOwn reports whether only Berth has events about the resource.
func (r EventResource) isOwn() bool { return r == NamespaceEvent || r == SelectorEvent }

// Covers reports whether a registration for r includes events about raised.
func (r EventResource) Covers(raised EventResource) bool {
	return r == raised || r == AnyEvent && !raised.isOwn() || r == AnyPodEvent && (raised == AssignedPodEvent || raised == UnscheduledPodEvent || raised == TargetPodEvent)
}

// Action is the kind of change. A registration may combine several actions.
type Action uint32

// The actions of cluster events, with kube-scheduler's meaning and order.
const (
	Add Action = 1 << iota
	Delete
	UpdateNodeAllocatable
	UpdateNodeLabel
	UpdateNodeTaint
	UpdateNodeCondition
	UpdateNodeAnnotation
	UpdateNodeDeclaredFeature
	UpdateNodePreemptionPolicy
	UpdatePodLabel
	UpdatePodScaleDown
	UpdatePodScaleUp
	UpdatePodToleration
	UpdatePodSchedulingGatesEliminated
	UpdatePodGeneratedResourceClaim

	// Update combines all updates. A registration for it includes every kind of update.
	Update = UpdateNodeAllocatable | UpdateNodeLabel | UpdateNodeTaint | UpdateNodeCondition | UpdateNodeAnnotation |
		UpdateNodeDeclaredFeature | UpdateNodePreemptionPolicy | UpdatePodLabel | UpdatePodScaleDown | UpdatePodScaleUp |
		UpdatePodToleration | UpdatePodSchedulingGatesEliminated | UpdatePodGeneratedResourceClaim
)

// Event is a change in the cluster that may help a waiting pod.
type Event struct {
	Resource EventResource
	Action   Action
	// OldNode and Node are set for node events. OldNode is nil for Add, Node for Delete.
	OldNode, Node *Node
	// Classes resolves extended resources that devices provide, for node events.
	Classes ClassResolver
	// OldPod and Pod are set for pod events. OldPod is nil for Add, Pod for Delete.
	OldPod, Pod *Pod
	// Cluster resolves names that a pod refers to, for pod events.
	Cluster Cluster
	// Labels is the change of a NamespaceEvent or a SelectorEvent.
	Labels *LabelsChange
	// OldObject and Object are set for events about compiled objects. OldObject is nil
	// for Add, Object for Delete.
	OldObject, Object Compiled
	// Volumes, unless nil, has the volumes that came or went on nodes because of the
	// object: volumes of claims in use there, or attachments.
	Volumes *VolumesChange
	// Pools, for events about claims and slices, are the current pools whose devices were
	// released or whose slices have changed. Deleted pools are left out.
	Pools []*DevicePool
	// Other is set for OtherEvent. It holds kube-scheduler's name of the resource, and
	// the versions of the object.
	Other *OtherChange
	// OnlyUpTo, unless nil, limits the event to pods of at most that priority. The event
	// is about room reserved for a nominated pod, and pods of higher priority could use
	// that room before.
	OnlyUpTo *int32
	// OnlyHeld limits the event to two groups: pods that a PreEnqueue plugin holds, and
	// pods parked while a write in flight was releasing a claim of theirs.
	OnlyHeld bool
}

// Cluster resolves names in their current state, for hints. Later changes have events of
// their own.
type Cluster interface {
	// NamespaceLabels returns the labels of a namespace, or nil if the namespace is
	// unknown.
	NamespaceLabels(name string) labels.Set
	// NamespacesSelected returns the existing namespaces that a selector selects, in no
	// order. ok is false if they are more than most.
	NamespacesSelected(by labels.Selector, most int) (names []string, ok bool)
	// Attachable returns the CSI driver and the handle of a claim's volume. The driver is
	// empty if no CSI driver attaches the volume.
	Attachable(key ClaimKey) (driver, handle string)
}

// NamespaceLabels returns the labels of a namespace, or nil if the namespace is unknown.
func (e *Event) NamespaceLabels(name string) labels.Set {
	if e.Cluster == nil {
		return nil
	}
	return e.Cluster.NamespaceLabels(name)
}

// LabelsChange is a change of a namespace's labels, or of a service's selector. Before is
// nil only for a new object, After only for a deleted object. Changes of controllers have
// neither.
type LabelsChange struct {
	Ref           Ref
	Before, After labels.Set
}

// Reaches reports whether the event concerns pods of the priority.
func (e *Event) Reaches(priority int32) bool { return e.OnlyUpTo == nil || priority <= *e.OnlyUpTo }

// actionNames are kube-scheduler's names of the actions.
var actionNames = [...]struct {
	action Action
	name   string
}{
	{Add, "Add"}, {Delete, "Delete"},
	{UpdateNodeAllocatable, "UpdateNodeAllocatable"}, {UpdateNodeLabel, "UpdateNodeLabel"}, {UpdateNodeTaint, "UpdateNodeTaint"},
	{UpdateNodeCondition, "UpdateNodeCondition"}, {UpdateNodeAnnotation, "UpdateNodeAnnotation"},
	{UpdateNodeDeclaredFeature, "UpdateNodeDeclaredFeature"}, {UpdateNodePreemptionPolicy, "UpdateNodePreemptionPolicy"},
	{UpdatePodLabel, "UpdatePodLabel"}, {UpdatePodScaleDown, "UpdatePodScaleDown"}, {UpdatePodScaleUp, "UpdatePodScaleUp"},
	{UpdatePodToleration, "UpdatePodToleration"}, {UpdatePodSchedulingGatesEliminated, "UpdatePodSchedulingGatesEliminated"},
	{UpdatePodGeneratedResourceClaim, "UpdatePodGeneratedResourceClaim"},
}

// eventLabels holds the label of each resource and action, indexed by the action's bit.
// Counting events therefore does not allocate.
var eventLabels = func() (labels [len(eventResourceNames)][len(actionNames)]string) {
	for resource, name := range eventResourceNames {
		for _, a := range actionNames {
			labels[resource][bits.TrailingZeros32(uint32(a.action))] = name + a.name
		}
	}
	return labels
}()

// Label returns kube-scheduler's name of the event, as used in metric labels and logs,
// such as AssignedPodDelete.
func (e *Event) Label() string {
	if e.Other != nil {
		return e.Other.label(e.Action)
	}
	if bits.OnesCount32(uint32(e.Action)) == 1 {
		return eventLabels[e.Resource][bits.TrailingZeros32(uint32(e.Action))]
	}
	return e.Resource.String() + "Update"
}

// EventToRegister is a registration of a plugin: the events that can help a pod that the
// plugin rejected, and a hint that checks an event for a pod. All fields except Resource
// and Actions may be nil. Alike, Cause and Touches reduce the number of hints. They are
// not called for events about the waiting pod itself.
type EventToRegister struct {
	Resource EventResource
	// Other is kube-scheduler's name of the resource if Resource is OtherEvent. See
	// EventResourceNamed.
	Other   string
	Actions Action
	// Hint reports whether the event may help the waiting pod. Nil means always. If an
	// out-of-tree plugin's hint fails, it returns true.
	Hint func(waiting *Pod, event Event) bool
	// Alike returns the part of the pod that the hint depends on: pods with equal results
	// get equal hints for every event. Nil means that the hint is the same for all pods.
	Alike func(waiting *Pod) Need
	// Cause returns a necessary condition for an event to help the pod, and pods that are
	// alike. Nil means that any event may help.
	Cause func(waiting *Pod) Cause
	// Asked, unless nil, replaces Hint, Alike and Cause if these depend on objects that
	// the pod refers to.
	Asked *AskedHint
	// Touches fills an empty Touch from the event. It is set if Cause is set.
	Touches func(event Event, to *Touch)
}

// AskedHint checks events by the demands of each pod at the time when the plugin rejected
// or held it. See plugin.EnqueueExtensions. Pods with equal demands are alike.
type AskedHint struct {
	// Hint and Cause correspond to those of EventToRegister.
	Hint  func(asked Need, event Event) bool
	Cause func(asked Need) Cause
	// Begin and Spent are nil for hints that are always cheap. Begin starts an event;
	// waiting is the number of events behind it. All hints about one event share a budget
	// of work. Spent returns the units that all hints have cost so far, see package
	// price.
	Begin func(waiting int)
	Spent func() int64
}

// Concerns reports whether the registration includes the event. A registration for a
// specific update does not include an unspecific Update, because kube-scheduler compares
// the numbers.
func (r EventToRegister) Concerns(e Event) bool {
	if r.Resource == OtherEvent && (e.Other == nil || e.Other.Resource != r.Other) {
		return false
	}
	return r.Resource.Covers(e.Resource) && r.Actions&e.Action != 0 && e.Action <= r.Actions
}

// Labels returns kube-scheduler's names of the registered events, such as NodeAdd. The
// name NodeUpdate covers all updates of nodes, and * covers all events.
func (r *EventToRegister) Labels() []string {
	if r.Resource == AnyEvent {
		return []string{r.Resource.String()}
	}
	resource := cmp.Or(r.Other, r.Resource.String())
	var labels []string
	left := r.Actions
	if left&Update == Update {
		left &^= Update
		labels = append(labels, resource+"Update")
	}
	for _, a := range actionNames {
		if left&a.action != 0 {
			labels = append(labels, resource+a.name)
		}
	}
	return labels
}

// Helps reports whether the registration includes the event and its hint is positive. A
// hint in Asked counts as positive.
func (r EventToRegister) Helps(waiting *Pod, e Event) bool {
	return r.Concerns(e) && (r.Hint == nil || r.Hint(waiting, e))
}

// NodeUpdates returns the actions of a node's update, in the order in which
// kube-scheduler raises them. A heartbeat has none.
func NodeUpdates(before, after *Node) []Action {
	var actions []Action
	a, b := before.Object, after.Object
	changed := Changed(before, after)
	when := func(condition bool, action Action) {
		if condition {
			actions = append(actions, action)
		}
	}
	when(a.Spec.Unschedulable && !b.Spec.Unschedulable, UpdateNodeTaint)
	// The whole list is compared instead of the compiled amounts: kube-scheduler raises
	// the event even for resources that scheduling does not count.
	when(!equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable), UpdateNodeAllocatable)
	when(changed&Labels != 0, UpdateNodeLabel)
	when(!equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints), UpdateNodeTaint)
	when(!sameConditions(a.Status.Conditions, b.Status.Conditions), UpdateNodeCondition)
	when(!equality.Semantic.DeepEqual(a.Annotations, b.Annotations), UpdateNodeAnnotation)
	when(!equality.Semantic.DeepEqual(a.Spec.PodPreemptionPolicy, b.Spec.PodPreemptionPolicy), UpdateNodePreemptionPolicy)
	when(changed&Features != 0, UpdateNodeDeclaredFeature)
	return actions
}

// sameConditions compares condition types and their status, but not heartbeats and
// messages. If a type is listed twice, its last status counts.
func sameConditions(a, b []v1.NodeCondition) bool {
	return maps.Equal(statusByType(a), statusByType(b))
}

func statusByType(conditions []v1.NodeCondition) map[v1.NodeConditionType]v1.ConditionStatus {
	status := make(map[v1.NodeConditionType]v1.ConditionStatus, len(conditions))
	for i := range conditions {
		status[conditions[i].Type] = conditions[i].Status
	}
	return status
}

// PodUpdates returns the specific actions of a pod's update. Without any, it returns the
// unspecific Update.
func PodUpdates(before, after *Pod) []Action {
	var actions []Action
	when := func(condition bool, action Action) {
		if condition {
			actions = append(actions, action)
		}
	}
	a, b := before.Object, after.Object
	down, up := scaled(before, after)
	when(!equality.Semantic.DeepEqual(a.Labels, b.Labels), UpdatePodLabel)
	when(down, UpdatePodScaleDown)
	when(up, UpdatePodScaleUp)
	when(len(a.Spec.SchedulingGates) > 0 && len(b.Spec.SchedulingGates) == 0, UpdatePodSchedulingGatesEliminated)
	when(len(a.Spec.Tolerations) != len(b.Spec.Tolerations), UpdatePodToleration)
	when(!equality.Semantic.DeepEqual(a.Status.ResourceClaimStatuses, b.Status.ResourceClaimStatuses), UpdatePodGeneratedResourceClaim)
	if len(actions) == 0 {
		actions = append(actions, Update)
	}
	return actions
}

// scaled reports whether any amount that a pod occupies fell, and whether any rose. A
// removed resource fell and an added resource rose, whatever the amount.
func scaled(before, after *Pod) (down, up bool) {
	if before.occupiesAll && after.occupiesAll {
		return scaledAmounts(&before.Occupies, &after.Occupies)
	}
	return scaledLists(occupiedList(before.Object), occupiedList(after.Object))
}

// scaledAmounts compares dense vectors. It is exact only if the vectors are equivalent to
// the lists, see isComplete.
func scaledAmounts(before, after *Resources) (down, up bool) {
	compare := func(a, b int64) {
		down = down || b < a
		up = up || b > a
	}
	compare(before.CPUMilli, after.CPUMilli)
	compare(before.MemoryBytes, after.MemoryBytes)
	compare(before.EphemeralBytes, after.EphemeralBytes)
	x, y := before.Scalars, after.Scalars
	for len(x) > 0 || len(y) > 0 {
		switch {
		case len(y) == 0 || len(x) > 0 && x[0].Name.Value() < y[0].Name.Value():
			down = true
			x = x[1:]
		case len(x) == 0 || x[0].Name != y[0].Name:
			up = true
			y = y[1:]
		default:
			compare(x[0].Value, y[0].Value)
			x, y = x[1:], y[1:]
		}
	}
	return down, up
}

// scaledLists compares in thousandths, and includes resources that scheduling does not
// count.
func scaledLists(before, after v1.ResourceList) (down, up bool) {
	for name, was := range before {
		is, ok := after[name]
		down = down || !ok || amount.CompareMilli(is, was) < 0
		up = up || ok && amount.CompareMilli(is, was) > 0
	}
	for name := range after {
		_, ok := before[name]
		up = up || !ok
	}
	return down, up
}
