package simulate

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// setPod applies a version of a pod. Only pods with ephemeral volumes matter.
func (v *volumeController) setPod(pod *v1.Pod) {
	key := keyOf(pod)
	if !slices.ContainsFunc(pod.Spec.Volumes, func(volume v1.Volume) bool { return volume.Ephemeral != nil }) {
		delete(v.pods, key)
		return
	}
	before := v.pods[key]
	v.pods[key] = pod
	if before == nil || before.UID != pod.UID {
		v.visit(podRef(key))
	}
}

// podGone deletes the claims that a pod owns, as the garbage collector does.
func (v *volumeController) podGone(key model.PodKey) {
	pod := v.pods[key]
	if pod == nil {
		return
	}
	delete(v.pods, key)
	v.c.agenda.plan(v.c.now.Add(v.c.chaos.upTo(v.c.chaos.MaxControllerDelay)), 0, func() {
		for i := range pod.Spec.Volumes {
			if claim := v.claims[ephemeralClaim(pod, i)]; claim != nil && metav1.IsControlledBy(claim, pod) {
				v.c.DeleteObject(claimKeyOf(claim).Ref())
			}
		}
	})
}

// syncPod creates the next claim that a pod's ephemeral volumes lack, or deletes the
// claim of an earlier pod of the same name.
func (v *volumeController) syncPod(key model.PodKey) {
	pod := v.pods[key]
	if pod == nil || pod.DeletionTimestamp != nil || kinds.Finished(pod) {
		return
	}
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Ephemeral == nil {
			continue
		}
		claim := v.claims[ephemeralClaim(pod, i)]
		if claim == nil {
			v.put(v.newClaim(pod, i))
			return
		}
		if owner := metav1.GetControllerOf(claim); owner != nil && owner.Kind == "Pod" && owner.Name == pod.Name && owner.UID != pod.UID {
			v.c.DeleteObject(claimKeyOf(claim).Ref())
			return
		}
	}
}

// visitOwner plans a reconciliation of the pod that a claim was created for.
func (v *volumeController) visitOwner(claim *v1.PersistentVolumeClaim) {
	if owner := metav1.GetControllerOf(claim); owner != nil && owner.Kind == "Pod" {
		if key := (model.PodKey{Namespace: claim.Namespace, Name: owner.Name}); v.pods[key] != nil {
			v.visit(podRef(key))
		}
	}
}

func podRef(key model.PodKey) model.Ref {
	return model.Ref{Kind: model.PodKind, Namespace: key.Namespace, Name: key.Name}
}

// ephemeralClaim returns the key of the claim of a pod's volume.
func ephemeralClaim(pod *v1.Pod, volume int) model.ClaimKey {
	return model.ClaimKey{Namespace: pod.Namespace, Name: pod.Name + "-" + pod.Spec.Volumes[volume].Name}
}

// newClaim makes the claim of an ephemeral volume. Without a class, the claim gets the
// default class, as every claim does.
func (v *volumeController) newClaim(pod *v1.Pod, at int) *v1.PersistentVolumeClaim {
	key := ephemeralClaim(pod, at)
	claim := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod"))},
		},
		Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
	}
	if template := pod.Spec.Volumes[at].Ephemeral.VolumeClaimTemplate; template != nil {
		claim.Labels, claim.Annotations = template.Labels, template.Annotations
		claim.Spec = *template.Spec.DeepCopy()
	}
	if _, annotated := claim.Annotations[v1.BetaStorageClassAnnotation]; !annotated && claim.Spec.StorageClassName == nil {
		claim.Spec.StorageClassName = v.defaultClass()
	}
	return claim
}

// defaultClass returns the name of the default StorageClass, or nil. The newest of
// several wins, then the first by name.
func (v *volumeController) defaultClass() *string {
	var chosen *storagev1.StorageClass
	for _, class := range v.classes {
		if class.Annotations["storageclass.kubernetes.io/is-default-class"] != "true" {
			continue
		}
		if chosen == nil || cmp.Or(chosen.CreationTimestamp.Compare(class.CreationTimestamp.Time), cmp.Compare(class.Name, chosen.Name)) < 0 {
			chosen = class
		}
	}
	if chosen == nil {
		return nil
	}
	return &chosen.Name
}
