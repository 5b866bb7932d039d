package kinds

import (
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-scheduler/berth/internal/model"
)

// Object is an API object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Row describes one kind. It is never changed.
type Row struct {
	Kind       model.Kind
	Resource   schema.GroupVersionResource
	Namespaced bool
	// Events are the resources, in kube-scheduler's terms, of the cluster events that
	// changes to the kind's objects can raise.
	Events []model.EventResource

	object reflect.Type
	trim   func(*sharing, Object)
	same   func(before, after Object) bool
	adopt  func(before, after Object) Object
	// replaces compares versions of one object; nil means never.
	replaces func(before, after Object) bool
	change   func(Object) model.Change
	gone     func(model.Ref) model.Change
}

// table has the rows by kind. Plugins that read a kind besides pods and nodes list it in
// their method Reads.
var table = numbered([model.KindCount]Row{
	model.PodKind: row(core("pods"), namespaced, (*sharing).trimPod, sameVersion, podChange, podGone,
		model.AssignedPodEvent, model.UnscheduledPodEvent, model.TargetPodEvent).replacing(leaves),
	model.NodeKind: row(core("nodes"), clusterWide, (*sharing).trimNode, sameVersion, nodeChange, nodeGone,
		model.NodeEvent),
	// In kube-scheduler, changes to the objects that select pods wake no pods.
	model.NamespaceKind: objects(core("namespaces"), clusterWide, (*sharing).trimNamespace,
		func(n *v1.Namespace) *map[string]string { return &n.Labels }, model.NamespaceEvent),
	model.ServiceKind: objects(core("services"), namespaced, (*sharing).trimService,
		func(s *v1.Service) *map[string]string { return &s.Spec.Selector }, model.SelectorEvent),
	model.ReplicationControllerKind: objects(core("replicationcontrollers"), namespaced, (*sharing).trimReplicationController,
		func(c *v1.ReplicationController) *map[string]string { return &c.Spec.Selector }, model.SelectorEvent),
	model.ReplicaSetKind: objects(apps("replicasets"), namespaced, (*sharing).trimReplicaSet,
		func(r *appsv1.ReplicaSet) **metav1.LabelSelector { return &r.Spec.Selector }, model.SelectorEvent),
	model.StatefulSetKind: objects(apps("statefulsets"), namespaced, (*sharing).trimStatefulSet,
		func(s *appsv1.StatefulSet) **metav1.LabelSelector { return &s.Spec.Selector }, model.SelectorEvent),
	model.PersistentVolumeKind:      compiled(core("persistentvolumes"), clusterWide, (*sharing).trimVolume, model.NewVolume, model.PersistentVolumeEvent),
	model.PersistentVolumeClaimKind: compiled(core("persistentvolumeclaims"), namespaced, (*sharing).trimClaim, model.NewClaim, model.PersistentVolumeClaimEvent),
	model.StorageClassKind:          compiled(storage("storageclasses"), clusterWide, (*sharing).trimStorageClass, model.NewStorageClass, model.StorageClassEvent),
	model.CSINodeKind:               compiled(storage("csinodes"), clusterWide, (*sharing).trimCSINode, model.NewCSINode, model.CSINodeEvent),
	model.CSIDriverKind:             compiled(storage("csidrivers"), clusterWide, (*sharing).trimCSIDriver, model.NewCSIDriver, model.CSIDriverEvent),
	model.CSIStorageCapacityKind:    compiled(storage("csistoragecapacities"), namespaced, (*sharing).trimCapacity, model.NewStorageCapacity, model.CSIStorageCapacityEvent),
	// Changes to disruption budgets wake no pods either: preemption may violate budgets,
	// so a pending pod gains nothing from them.
	model.PodDisruptionBudgetKind: row(policy("poddisruptionbudgets"), namespaced, (*sharing).trimBudget, sameBudget,
		compiling(model.NewDisruptionBudget), objectGone),
	model.VolumeAttachmentKind: compiled(storage("volumeattachments"), clusterWide, (*sharing).trimAttachment, model.NewVolumeAttachment, model.VolumeAttachmentEvent),
	model.ResourceClaimKind:    compiled(devices("resourceclaims"), namespaced, (*sharing).trimResourceClaim, model.NewResourceClaim, model.ResourceClaimEvent),
	model.ResourceSliceKind:    compiled(devices("resourceslices"), clusterWide, (*sharing).trimResourceSlice, model.NewResourceSlice, model.ResourceSliceEvent),
	model.DeviceClassKind:      compiled(devices("deviceclasses"), clusterWide, (*sharing).trimDeviceClass, model.NewDeviceClass, model.DeviceClassEvent),
	model.DeviceTaintRuleKind:  compiled(devices("devicetaintrules"), clusterWide, (*sharing).trimDeviceTaintRule, model.NewDeviceTaintRule, model.ResourceSliceEvent),
	model.PodGroupKind:         compiled(groups("podgroups"), namespaced, (*sharing).trimPodGroup, model.NewPodGroup, model.PodGroupEvent),
	model.CompositePodGroupKind: compiled(schedulingv1alpha3.SchemeGroupVersion.WithResource("compositepodgroups"), namespaced, (*sharing).trimComposite, model.NewCompositeGroup,
		model.CompositePodGroupEvent),
})

// numbered sets the kind of each row.
func numbered(rows [model.KindCount]Row) *[model.KindCount]Row {
	for kind := range rows {
		rows[kind].Kind = model.Kind(kind)
	}
	return &rows
}

const (
	clusterWide = false
	namespaced  = true
)

func core(resource string) schema.GroupVersionResource {
	return v1.SchemeGroupVersion.WithResource(resource)
}
func policy(resource string) schema.GroupVersionResource {
	return policyv1.SchemeGroupVersion.WithResource(resource)
}
func apps(resource string) schema.GroupVersionResource {
	return appsv1.SchemeGroupVersion.WithResource(resource)
}

// row returns a row with functions for objects of one type.
func row[T Object](resource schema.GroupVersionResource, namespaced bool, trim func(*sharing, T), same func(before, after T) bool,
	change func(T) model.Change, gone func(model.Ref) model.Change, events ...model.EventResource) Row {
	return Row{
		Resource: resource, Namespaced: namespaced, Events: events, object: reflect.TypeFor[T](),
		trim:   func(s *sharing, o Object) { trim(s, o.(T)) },
		same:   func(before, after Object) bool { return same(before.(T), after.(T)) },
		adopt:  func(_, after Object) Object { return after },
		change: func(o Object) model.Change { return change(o.(T)) },
		gone:   gone,
	}
}

// replacing returns the row of a kind whose objects can be replaced by a new version of
// themselves.
func (r Row) replacing(replaces func(before, after *v1.Pod) bool) Row {
	r.replaces = func(before, after Object) bool { return replaces(before.(*v1.Pod), after.(*v1.Pod)) }
	return r
}

// leaves reports whether a pod has left its node or its scheduler.
func leaves(before, after *v1.Pod) bool {
	return before.Spec.NodeName != "" && after.Spec.NodeName == "" || before.Spec.SchedulerName != after.Spec.SchedulerName
}

// objects returns a row for a kind that reaches the state as API objects. read returns
// the fields that scheduling reads. Versions with equal fields are the same, because the
// status of a controller changes with each of its pods.
func objects[O, P any, T interface {
	*O
	Object
}](resource schema.GroupVersionResource, namespaced bool, trim func(*sharing, T), read func(T) *P, events ...model.EventResource) Row {
	same := func(before, after T) bool { return equality.Semantic.DeepEqual(*read(before), *read(after)) }
	change := func(o T) model.Change { return model.Change{Kind: model.ObjectSet, Object: o} }
	made := row(resource, namespaced, trim, same, change, objectGone, events...)
	made.adopt = func(before, after Object) Object {
		if !made.same(before, after) {
			return after
		}
		adopted := T(new(O))
		*adopted = *after.(T) // others may be reading it
		*read(adopted) = *read(before.(T))
		return adopted
	}
	return made
}

// byType maps Go types to rows.
var byType = func() map[reflect.Type]*Row {
	rows := make(map[reflect.Type]*Row, len(table))
	for kind := range table {
		rows[table[kind].object] = &table[kind]
	}
	return rows
}()

// Of returns the row of an object's kind; nil if scheduling does not read that kind.
func Of(object runtime.Object) *Row { return byType[reflect.TypeOf(object)] }

// Get returns the row of a kind.
func Get(kind model.Kind) *Row { return &table[kind] }

// New returns an empty object of the kind.
func (r *Row) New() Object { return reflect.New(r.object.Elem()).Interface().(Object) }

// RefOf returns the reference of an object; ok is false if scheduling does not read its
// kind.
func RefOf(object runtime.Object) (ref model.Ref, ok bool) {
	row := Of(object)
	if row == nil {
		return model.Ref{}, false
	}
	return row.Ref(object.(Object)), true
}

// Ref returns the reference of an object of the kind.
func (r *Row) Ref(object metav1.Object) model.Ref {
	ref := model.Ref{Kind: r.Kind, Name: object.GetName()}
	if r.Namespaced {
		ref.Namespace = object.GetNamespace()
	}
	return ref
}

// Same reports whether two versions of an object are equal for scheduling, so that the
// second may be dropped.
func (r *Row) Same(before, after Object) bool { return r.same(before, after) }

// Replaces reports whether a new version must be passed on as two changes: the end of the
// previous version, and then a new object, which ingest may skip.
//
// This is so for another object of the same name: a broken watch can miss that one object
// was deleted and another created. It is also so for a pod that has left its node or its
// scheduler, as after a restore of etcd from a backup.
func (r *Row) Replaces(before, after Object) bool {
	return before.GetUID() != after.GetUID() || r.replaces != nil && r.replaces(before, after)
}

// Held returns the version to keep, given the version that is kept and a newly decoded
// one.
//
// If both are the same version, it returns the kept one: a re-list repeats objects that
// the state holds, too. A newer version with equal fields for scheduling shares these
// with the kept version, because Same drops it and the state keeps the old one. Neither
// object is written to.
func (r *Row) Held(before, after Object) Object {
	switch {
	case before == after || before.GetUID() != after.GetUID():
		return after
	case before.GetResourceVersion() == after.GetResourceVersion():
		return before
	}
	return r.adopt(before, after)
}

// Change returns the loop's change for a version of an object. The needs of a pod are not
// compiled yet.
func (r *Row) Change(object Object) model.Change {
	change := r.change(object)
	if change.Kind == model.ObjectSet {
		change.Ref = r.Ref(object)
	}
	return change
}

// Gone returns the loop's change for the deletion of an object of the kind.
func (r *Row) Gone(ref model.Ref) model.Change { return r.gone(ref) }

// sameBudget reports whether two versions of a budget cover the same pods and allow the
// same disruptions.
func sameBudget(before, after *policyv1.PodDisruptionBudget) bool {
	return before.Status.DisruptionsAllowed == after.Status.DisruptionsAllowed &&
		equality.Semantic.DeepEqual(before.Spec.Selector, after.Spec.Selector) && equality.Semantic.DeepEqual(before.Status.DisruptedPods, after.Status.DisruptedPods)
}

// sameVersion reports whether two versions have the same resourceVersion. The list after
// a broken watch repeats unchanged objects.
func sameVersion[T metav1.Object](before, after T) bool {
	return before.GetResourceVersion() == after.GetResourceVersion()
}

// Finished reports whether a pod has run to its end: it no longer uses resources.
func Finished(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// podChange treats a finished pod as deleted.
func podChange(pod *v1.Pod) model.Change {
	if Finished(pod) {
		return model.Change{Kind: model.PodGone, Key: model.PodKey{Namespace: pod.Namespace, Name: pod.Name}}
	}
	return model.Change{Kind: model.PodSet, Pod: model.NewPod(pod)}
}

func podGone(ref model.Ref) model.Change {
	return model.Change{Kind: model.PodGone, Key: model.PodKey{Namespace: ref.Namespace, Name: ref.Name}}
}

func nodeChange(node *v1.Node) model.Change {
	return model.Change{Kind: model.NodeSet, Node: model.NewNode(node)}
}

func nodeGone(ref model.Ref) model.Change { return model.Change{Kind: model.NodeGone, Name: ref.Name} }
