package nodevolumelimits

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
)

// EventsToRegister registers for:
//
//   - Nodes that appear or can attach more volumes.
//   - Deleted pods and attachments.
//   - Placed pods that share a volume with the pod, and new attachments of its volumes.
//   - The pod's claims, and objects that identify the volumes of claims.
//   - Drivers that no longer need to be installed.
//
// kube-scheduler does not register for new attachments and for the drivers. Its hints
// also miss nodes without a CSINode, lifted limits and drivers without a limit.
func (*Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{
		{Resource: model.NodeEvent, Actions: model.Add},
		{Resource: model.CSINodeEvent, Actions: model.AllActions, Hint: attachesMore},
		{Resource: model.CSIDriverEvent, Actions: model.Update | model.Delete, Hint: isRequiredNoMore},
		{Resource: model.AssignedPodEvent, Actions: model.Delete, Hint: hadVolumes},
		model.ClaimEvents(model.Add|model.Update, true),
		{
			Resource: model.AssignedPodEvent, Actions: model.Add,
			Asked: &model.AskedHint{Hint: sharesVolume, Cause: causeOfAsked}, Touches: touchesHandles,
		},
		asking(model.PersistentVolumeClaimEvent),
		asking(model.PersistentVolumeEvent),
		asking(model.StorageClassEvent),
		asking(model.VolumeAttachmentEvent),
	}
}

// attachesMore reports whether a node can attach more volumes of any driver. A new driver
// may have been required; a removed driver had a limit. In-tree volumes count only where
// their plugin is migrated. On a node without a CSINode nothing counts.
func attachesMore(_ *model.Pod, e model.Event) bool {
	before, existed := e.OldObject.(*model.CSINode)
	now, exists := e.Object.(*model.CSINode)
	if !existed || !exists || before.MigratedText() != now.MigratedText() {
		return true
	}
	for name, limit := range now.Drivers {
		if was, listed := before.Drivers[name]; !listed || was != model.Unlimited && (limit == model.Unlimited || limit > was) {
			return true
		}
	}
	for name, was := range before.Drivers {
		if _, listed := now.Drivers[name]; !listed && was != model.Unlimited {
			return true
		}
	}
	return false
}

// isRequiredNoMore reports whether pods may now go to nodes that do not list the driver.
func isRequiredNoMore(_ *model.Pod, e model.Event) bool {
	now, exists := e.Object.(*model.CSIDriver)
	return e.OldObject.(*model.CSIDriver).MustBeInstalled && !(exists && now.MustBeInstalled)
}

// hadVolumes reports whether the deleted pod, on any node, used a volume that can count.
func hadVolumes(_ *model.Pod, e model.Event) bool {
	gone := e.OldPod
	return (gone.NodeName != "" || gone.NominatedNode != "") && slices.ContainsFunc(gone.Object.Spec.Volumes, func(v v1.Volume) bool {
		return v.PersistentVolumeClaim != nil || v.Ephemeral != nil || model.InlineDriver(&v) != ""
	})
}
