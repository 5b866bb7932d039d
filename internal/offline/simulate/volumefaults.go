package simulate

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// VolumeFault is a way in which a volume is not bound as the scheduler wants it.
type VolumeFault uint8

// The ways in which a volume is not bound.
const (
	NoVolumeFault VolumeFault = iota
	// ProvisionFails: the provisioner fails, and hands the claim back to the scheduler.
	ProvisionFails
	// ProvisionHangs: the provisioner takes longer than the scheduler waits by default.
	ProvisionHangs
	// VolumeTouched: somebody else has written to the volume or claim just before the scheduler's write arrives, which meets another version.
	VolumeTouched
	// VolumeTaken: somebody else has bound the volume just before the scheduler's write arrives.
	VolumeTaken
)

// The occasions on which volume faults happen.
var (
	beginsProvisioning = []VolumeFault{ProvisionFails, ProvisionHangs}
	writes             = []VolumeFault{VolumeTouched, VolumeTaken}
)

// volumeFault draws which of the faults happens.
func (c *chaos) volumeFault(of []VolumeFault) VolumeFault {
	if len(c.Volumes) == 0 {
		return NoVolumeFault
	}
	draw := c.random.IntN(100)
	for _, f := range of {
		if draw -= c.Volumes[f]; draw < 0 {
			return f
		}
	}
	return NoVolumeFault
}

func (c *chaos) provision(key model.ClaimKey) *bindPlan {
	if c.provisions[key] == nil {
		c.provisions[key] = &bindPlan{}
	}
	return c.provisions[key]
}

// provisionFails reports whether the provisioner was ordered to fail this time.
func (c *chaos) provisionFails(key model.ClaimKey) bool {
	order := c.provisions[key]
	if order == nil || order.times == 0 {
		return false
	}
	if order.times > 0 {
		order.times--
	}
	return true
}

// touched is the annotation of a volume or claim that somebody else has written to, and taker the namespace of claims that somebody else has bound.
const (
	touched = "example.com/touched"
	taker   = "somebody-else"
)

// interfere does what somebody else does to an object just before a write of the scheduler arrives.
func (v *volumeController) interfere(write *plan.Write) {
	ref := model.Ref{Kind: kindOf[write.Resource], Namespace: write.Namespace, Name: write.Name}
	object := v.c.store.others[ref]
	if object == nil || ref.Kind != model.PersistentVolumeKind && ref.Kind != model.PersistentVolumeClaimKind {
		return
	}
	pv, isVolume := object.(*v1.PersistentVolume)
	switch fault := v.c.chaos.volumeFault(writes); {
	case fault == VolumeTouched:
		v.c.happened["volume: touched before a write"]++
		now := object.DeepCopyObject().(metav1.Object)
		annotations := map[string]string{touched: v.c.Elapsed().String()}
		for key, value := range object.GetAnnotations() {
			if key != touched {
				annotations[key] = value
			}
		}
		now.SetAnnotations(annotations)
		v.put(now.(kinds.Object))
	case fault == VolumeTaken && isVolume && isFree(pv):
		v.c.happened["volume: taken before a write"]++
		v.put(&v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: taker, Name: pv.Name},
			Spec: v1.PersistentVolumeClaimSpec{
				AccessModes: pv.Spec.AccessModes, VolumeName: pv.Name, StorageClassName: &pv.Spec.StorageClassName, VolumeMode: pv.Spec.VolumeMode,
				Resources: v1.VolumeResourceRequirements{Requests: pv.Spec.Capacity},
			},
			Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
		})
		now := pv.DeepCopy()
		now.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: taker, Name: pv.Name}
		v.put(now)
	}
}
