package model

import (
	"cmp"
	"maps"
	"math/bits"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/amount"
)

// EventResource is the kind of thing a cluster event is about, in kube-scheduler's terms.
type EventResource uint8

// The resources of events. AnyPod is only registered for, never raised: it stands for the three kinds of pod.
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
	// forget these changes. The first is about the labels of a namespace. The second is
	// about the pods that a Service or a controller selects: default spread constraints
	// use them. Plugins from outside never see either.
	NamespaceEvent
	SelectorEvent
	// OtherEvent is about an object that Berth itself does not read. Event and EventToRegister name its resource in Other.
	OtherEvent
	// AnyEvent is registered for all resources. Where it is raised, it stands for more events than could be kept: every parked pod is tried again.
	AnyEvent
)

var eventResourceNames = [...]string{
	"Node", "AssignedPod", "UnscheduledPod", "TargetPod", "Pod", "PersistentVolume", "PersistentVolumeClaim", "storage.k8s.io/StorageClass",
	"storage.k8s.io/CSINode", "storage.k8s.io/CSIDriver", "storage.k8s.io/CSIStorageCapacity", "storage.k8s.io/VolumeAttachment",
	"resource.k8s.io/ResourceClaim", "resource.k8s.io/ResourceSlice", "resource.k8s.io/DeviceClass",
	"scheduling.k8s.io/PodGroup", "scheduling.k8s.io/CompositePodGroup", "Namespace", "Selector",
	"", "*",
}

// EventResourceNamed returns the resource that a plugin registers under kube-scheduler's name: that of a constant here, such as Node or *, or OtherEvent
// with the name, such as resource.k8s.io/DeviceTaintRule, or <plural>.<version>.<group> for a custom resource.
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

// isOwn reports whether the events about a resource are Berth's own.
func (r EventResource) isOwn() bool { return r == NamespaceEvent || r == SelectorEvent }

// Covers reports whether a registration for r includes events about raised.
func (r EventResource) Covers(raised EventResource) bool {
	return r == raised || r == AnyEvent && !raised.isOwn() || r == AnyPodEvent && (raised == AssignedPodEvent || raised == UnscheduledPodEvent || raised == TargetPodEvent)
}

// Action is what happened to the resource. A registration may combine several actions.
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

	// Update is any update; a registration for it includes every kind of update.
	Update = UpdateNodeAllocatable | UpdateNodeLabel | UpdateNodeTaint | UpdateNodeCondition | UpdateNodeAnnotation |
		UpdateNodeDeclaredFeature | UpdateNodePreemptionPolicy | UpdatePodLabel | UpdatePodScaleDown | UpdatePodScaleUp |
		UpdatePodToleration | UpdatePodSchedulingGatesEliminated | UpdatePodGeneratedResourceClaim
)

// Event is a change in the cluster that may help a waiting pod.
type Event struct {
	Resource EventResource
	Action   Action
	// For events about a node; OldNode is nil for Add, Node is nil for Delete.
	OldNode, Node *Node
	// Classes resolves the extended resources that devices stand for; for events about a node.
	Classes ClassResolver
	// For events about a pod; OldPod is nil for Add, Pod is nil for Delete.
	OldPod, Pod *Pod
	// Cluster resolves names that a pod refers to; for events about a pod.
	Cluster Cluster
	// Labels is the change that a NamespaceEvent or a SelectorEvent is about.
	Labels *LabelsChange
	// For events about objects of storage; OldObject is nil for Add, Object is nil for Delete.
	OldObject, Object Compiled
	// Recounted means that the volumes of a node were counted anew because of the object:
	// those of claims in use there, or of attachments.
	Recounted bool
	// Pools, for events about claims and slices, are the pools as they are now whose devices were given back, or whose slices have changed. Those that
	// are gone are left out.
	Pools []*DevicePool
	// For events whose resource is OtherEvent: kube-scheduler's name of the resource, and the versions of the object; see OtherChange.
	Other *OtherChange
	// OnlyUpTo, unless nil, limits the event to pods of at most that priority: it is about room reserved for a nominated pod, which pods of
	// higher priority could use before.
	OnlyUpTo *int32
	// OnlyHeld limits the event to pods that a PreEnqueue plugin holds, and to pods that
	// were parked while a write in flight gave back a claim of theirs.
	OnlyHeld bool
}

// Cluster resolves names to what they stand for now, as hints need it. A change after the
// event is an event of its own.
type Cluster interface {
	// NamespaceLabels returns the labels of a namespace, nil only if it is not known.
	NamespaceLabels(name string) labels.Set
	// NamespacesSelected returns the known namespaces that a selector selects, in no order;
	// ok is false if they are more than the given number.
	NamespacesSelected(by labels.Selector, most int) (names []string, ok bool)
	// Attachable returns the CSI driver and the handle of the volume that a claim stands
	// for; the driver is empty if no CSI driver attaches it.
	Attachable(key ClaimKey) (driver, handle string)
}

// NamespaceLabels returns the labels of a namespace, nil if it is not known.
func (e *Event) NamespaceLabels(name string) labels.Set {
	if e.Cluster == nil {
		return nil
	}
	return e.Cluster.NamespaceLabels(name)
}

// LabelsChange is a change of a namespace's labels, or of the labels that a service
// selects by. Before is nil for a new object, After for an object that is gone, and only
// then. Changes of controllers have neither.
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

// eventLabels holds the label of each resource with each action, by the action's bit, so that counting events allocates no text.
var eventLabels = func() (labels [len(eventResourceNames)][len(actionNames)]string) {
	for resource, name := range eventResourceNames {
		for _, a := range actionNames {
			labels[resource][bits.TrailingZeros32(uint32(a.action))] = name + a.name
		}
	}
	return labels
}()

// Label returns kube-scheduler's name of the event, as used in metric labels and logs, such as AssignedPodDelete.
func (e *Event) Label() string {
	if e.Other != nil {
		return e.Other.label(e.Action)
	}
	if bits.OnesCount32(uint32(e.Action)) == 1 {
		return eventLabels[e.Resource][bits.TrailingZeros32(uint32(e.Action))]
	}
	return e.Resource.String() + "Update"
}

// EventToRegister is one registration of a plugin: the events that can help a pod that the plugin rejected, and a hint that checks one event for
// one pod. All but Resource and Actions may be nil. Alike, Cause and Touches save hints; they are not asked about events of the waiting pod itself.
type EventToRegister struct {
	Resource EventResource
	// Other is kube-scheduler's name of the resource if Resource is OtherEvent; see EventResourceNamed.
	Other   string
	Actions Action
	// Hint reports whether the event may help the waiting pod; nil means always. A hint of a plugin from outside that fails returns true.
	Hint func(waiting *Pod, event Event) bool
	// Alike returns what of the pod the hint depends on: pods with equal results get equal hints for every event. Nil means that the hint is the
	// same for all pods.
	Alike func(waiting *Pod) Need
	// Cause returns what events must touch to help the pod, or pods that are alike. Nil means that any event may help.
	Cause func(waiting *Pod) Cause
	// Asked, unless nil, stands for Hint, Alike and Cause where these depend on more than the pod: on objects that it refers to.
	Asked *AskedHint
	// Touches adds what the event touches to an empty Touch. It is set if there is a Cause.
	Touches func(event Event, to *Touch)
}

// AskedHint checks events for pods by what each asked of the cluster when the plugin rejected or held it: by plugin.StateEnqueueExtensions. Pods that asked alike
// are alike.
type AskedHint struct {
	// Hint and Cause are as those of a registration.
	Hint  func(asked Need, event Event) bool
	Cause func(asked Need) Cause
	// Begin and Spent are nil for hints that are always cheap. Begin begins an event, behind which others wait: the hints about it, of all pods together, have a
	// budget of work. Spent returns how many units all hints have cost so far, see package price.
	Begin func(waiting int)
	Spent func() int64
}

// Concerns reports whether the registration includes the event. A registration for a specific update does not include an unspecific one:
// kube-scheduler compares the numbers.
func (r EventToRegister) Concerns(e Event) bool {
	if r.Resource == OtherEvent && (e.Other == nil || e.Other.Resource != r.Other) {
		return false
	}
	return r.Resource.Covers(e.Resource) && r.Actions&e.Action != 0 && e.Action <= r.Actions
}

// Labels returns kube-scheduler's names of the events that the registration includes, such as NodeAdd; NodeUpdate stands for all updates of nodes, and * for all events.
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

// Helps reports whether the registration includes the event and its hint is positive, as it may be if it depends on what the pod asked.
func (r EventToRegister) Helps(waiting *Pod, e Event) bool {
	return r.Concerns(e) && (r.Hint == nil || r.Hint(waiting, e))
}

// NodeUpdates returns the actions of a node's update, in the order in which kube-scheduler raises them. A heartbeat has none.
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
	// The whole list is compared, not the compiled amounts: kube-scheduler raises the event also for resources that scheduling does not count.
	when(!equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable), UpdateNodeAllocatable)
	when(changed&Labels != 0, UpdateNodeLabel)
	when(!equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints), UpdateNodeTaint)
	when(!sameConditions(a.Status.Conditions, b.Status.Conditions), UpdateNodeCondition)
	when(!equality.Semantic.DeepEqual(a.Annotations, b.Annotations), UpdateNodeAnnotation)
	when(!equality.Semantic.DeepEqual(a.Spec.PodPreemptionPolicy, b.Spec.PodPreemptionPolicy), UpdateNodePreemptionPolicy)
	when(changed&Features != 0, UpdateNodeDeclaredFeature)
	return actions
}

// sameConditions compares condition types and their status; heartbeats and messages do not count. Of a type that is listed twice the last status
// counts.
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

// PodUpdates returns the specific actions of a pod's update, or the unspecific Update if there is none.
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

// scaled reports whether some amount that a pod occupies fell, and whether some rose. A resource that disappeared fell, one that appeared rose,
// whatever its amount.
func scaled(before, after *Pod) (down, up bool) {
	if before.occupiesAll && after.occupiesAll {
		return scaledAmounts(&before.Occupies, &after.Occupies)
	}
	return scaledLists(occupiedList(before.Object), occupiedList(after.Object))
}

// scaledAmounts compares dense vectors. It is exact only if the vectors are equivalent to the lists; see isComplete.
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

// scaledLists compares in thousandths, and includes resources that scheduling does not count.
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
