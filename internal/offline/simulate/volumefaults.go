package simulate

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// VolumeFault is a way in which the binding of a volume fails.
type VolumeFault uint8

// The ways in which the binding of a volume fails.
const (
	NoVolumeFault VolumeFault = iota
	// ProvisionFails: the provisioner fails, and hands the claim back to the scheduler.
	ProvisionFails
	// ProvisionHangs: the provisioner takes longer than the scheduler waits by default.
	ProvisionHangs
	// VolumeTouched: another writer updates the volume or claim just before the
	// scheduler's write, which then meets another version.
	VolumeTouched
	// VolumeTaken: another writer binds the volume just before the scheduler's write.
	VolumeTaken
)

// The occasions on which volume faults happen.
var (
	beginsProvisioning = []VolumeFault{ProvisionFails, ProvisionHangs}
	writes             = []VolumeFault{VolumeTouched, VolumeTaken}
)

// volumeFault draws one of the faults, or none.
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

// provisionFails reports whether FailProvision covers this attempt.
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

// touched is the annotation that another writer sets on a volume or claim. taker is the
// namespace of the claims that another writer binds.
const (
	touched = "example.com/touched"
	taker   = "somebody-else"
)

// interfere makes another writer's update just before a write of the scheduler arrives.
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
