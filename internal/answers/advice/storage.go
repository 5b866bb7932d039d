package advice

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// othersOf returns the other objects of one type.
func othersOf[T kinds.Object](t *trial) []T {
	var all []T
	for _, other := range t.Others {
		if o, ok := other.(T); ok {
			all = append(all, o)
		}
	}
	return all
}

// named finds an object by name, and by namespace unless it is empty.
func named[T kinds.Object](all []T, namespace, name string) (found T, ok bool) {
	for _, o := range all {
		if o.GetName() == name && (namespace == "" || o.GetNamespace() == namespace) {
			return o, true
		}
	}
	return found, false
}

// creation returns the change that creates an object.
func creation(kind Kind, what string, object kinds.Object, format string, args ...any) Change {
	name := object.GetName()
	if object.GetNamespace() != "" {
		name = object.GetNamespace() + "/" + name
	}
	object.SetUID("created")
	return Change{Kind: kind, Object: what + " " + name, Text: "create " + what + " " + name + fmt.Sprintf(format, args...), Size: 1, swaps: []swap{{after: object}}}
}

// claims returns changes that create a claim that the pod names, or the class of one of
// its claims.
func (t *trial) claims() []knob {
	return append(t.volumeClaims(), t.deviceClaims()...)
}

// volumeClaims returns the changes for claims for volumes.
func (t *trial) volumeClaims() []knob {
	if !slices.Contains(t.Reads, model.PersistentVolumeClaimKind) {
		return nil
	}
	var knobs []knob
	classes, claims := othersOf[*storagev1.StorageClass](t), othersOf[*v1.PersistentVolumeClaim](t)
	for i := range t.Pod.Spec.Volumes {
		source := t.Pod.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil {
			continue
		}
		claim, exists := named(claims, t.Pod.Namespace, source.ClaimName)
		if !exists {
			knobs = append(knobs, t.newClaims(source.ClaimName, classes)...)
			continue
		}
		name := classOf(claim)
		if _, exists := named(classes, "", name); name != "" && !exists && claim.Spec.VolumeName == "" {
			knobs = append(knobs, newClass(name, classes))
		}
	}
	return knobs
}

func classOf(claim *v1.PersistentVolumeClaim) string {
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

// isDefaultClass is the annotation of the default class, for claims that name none.
const isDefaultClass = "storageclass.kubernetes.io/is-default-class"

// newClaims returns ways to create a missing claim: one for each class, the default class
// first, then one without a class for each free volume.
func (t *trial) newClaims(name string, classes []*storagev1.StorageClass) []knob {
	classes = slices.Clone(classes)
	slices.SortStableFunc(classes, func(a, b *storagev1.StorageClass) int {
		return rank(a.Annotations[isDefaultClass] == "true") - rank(b.Annotations[isDefaultClass] == "true")
	})
	var knobs []knob
	for _, class := range firstOf(t, classes) {
		claim := &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: t.Pod.Namespace, Name: name},
			Spec: v1.PersistentVolumeClaimSpec{StorageClassName: &class.Name, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
				Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}}},
			Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
		}
		knobs = append(knobs, single("claim "+name, creation(Claim, "PersistentVolumeClaim", claim, " (tried with class %s and 1Gi)", class.Name)))
	}
	free := slices.DeleteFunc(othersOf[*v1.PersistentVolume](t), func(pv *v1.PersistentVolume) bool { return !isFree(pv) })
	for _, pv := range firstOf(t, free) {
		knobs = append(knobs, single("claim "+name, t.claimOf(name, pv)))
	}
	return knobs
}

// isFree reports whether a volume is available to a claim without a class, and pods can
// mount it.
func isFree(pv *v1.PersistentVolume) bool {
	return pv.Spec.StorageClassName == "" && pv.Annotations[v1.BetaStorageClassAnnotation] == "" && pv.Spec.ClaimRef == nil && pv.DeletionTimestamp == nil &&
		(pv.Status.Phase == v1.VolumeAvailable || pv.Status.Phase == "") && len(pv.Spec.AccessModes) > 0 &&
		(pv.Spec.VolumeMode == nil || *pv.Spec.VolumeMode == v1.PersistentVolumeFilesystem)
}

// claimOf returns the change that creates a claim bound to a volume. Kubernetes binds
// such a claim at once because it has no class.
func (t *trial) claimOf(name string, pv *v1.PersistentVolume) Change {
	class := ""
	claim := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.Pod.Namespace, Name: name, Annotations: map[string]string{volume.AnnBindCompleted: "yes"}},
		Spec: v1.PersistentVolumeClaimSpec{StorageClassName: &class, VolumeName: pv.Name, AccessModes: pv.Spec.AccessModes[:1:1], VolumeAttributesClassName: pv.Spec.VolumeAttributesClassName,
			Resources: v1.VolumeResourceRequirements{Requests: pv.Spec.Capacity}},
		Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, Capacity: pv.Spec.Capacity, AccessModes: pv.Spec.AccessModes},
	}
	change := creation(Claim, "PersistentVolumeClaim", claim, " (tried with volume %s and no class)", pv.Name)
	bound := pv.DeepCopy()
	bound.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	bound.Status.Phase = v1.VolumeBound
	change.swaps = append(change.swaps, swap{before: pv, after: bound})
	return change
}

// rank returns 0 for true and 1 for false: true sorts first.
func rank(is bool) int {
	if is {
		return 0
	}
	return 1
}

// newClass returns the change that creates a class with WaitForFirstConsumer. It has the
// provisioner of another class.
func newClass(name string, others []*storagev1.StorageClass) knob {
	waits, provisioner := storagev1.VolumeBindingWaitForFirstConsumer, "example.com/provisioner"
	for _, other := range others {
		if other.Provisioner != "kubernetes.io/no-provisioner" {
			provisioner = other.Provisioner
			break
		}
	}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &waits}
	return single("class "+name, creation(Class, "StorageClass", class, " (tried with provisioner %s and WaitForFirstConsumer)", provisioner))
}

// missing sets Missing to the objects that do not exist, unless a suggestion creates
// them.
func (t *trial) missing() {
	add := func(what, namespace, name string) {
		object := what + " " + name
		if namespace != "" {
			object = what + " " + namespace + "/" + name
		}
		if !slices.ContainsFunc(t.advice.Suggestions, func(s Suggestion) bool {
			return slices.ContainsFunc(s.Changes, func(c Change) bool { return c.Object == object })
		}) && !slices.Contains(t.advice.Missing, object+" does not exist") {
			t.advice.Missing = append(t.advice.Missing, object+" does not exist")
		}
	}
	if slices.Contains(t.Reads, model.PersistentVolumeClaimKind) {
		classes, claims := othersOf[*storagev1.StorageClass](t), othersOf[*v1.PersistentVolumeClaim](t)
		for i := range t.Pod.Spec.Volumes {
			source := t.Pod.Spec.Volumes[i].PersistentVolumeClaim
			if source == nil {
				continue
			}
			claim, ok := named(claims, t.Pod.Namespace, source.ClaimName)
			if !ok {
				add("PersistentVolumeClaim", t.Pod.Namespace, source.ClaimName)
			} else if name := classOf(claim); name != "" && claim.Spec.VolumeName == "" {
				if _, ok := named(classes, "", name); !ok {
					add("StorageClass", "", name)
				}
			}
		}
	}
	if slices.Contains(t.Reads, model.ResourceClaimKind) {
		t.missingDevices(add)
	}
}

// placed finds a pod on a node.
func (t *trial) placed(namespace, name string) *model.Pod {
	on, _, ok := t.State.NodeOf(model.PodKey{Namespace: namespace, Name: name})
	if !ok {
		return nil
	}
	slot, ok := t.State.Slot(on)
	if !ok {
		return nil
	}
	for pod := range t.State.PodsOn(slot) {
		if pod.Namespace == namespace && pod.Name == name {
			return pod
		}
	}
	return nil
}
