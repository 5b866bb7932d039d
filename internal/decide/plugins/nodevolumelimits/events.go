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
		{
			Resource: model.VolumeAttachmentEvent, Actions: model.Add | model.Update,
			Asked: &model.AskedHint{Hint: attachesOwn, Cause: causeOfAsked}, Touches: touchesAttached,
		},
		{
			Resource: model.VolumeAttachmentEvent, Actions: model.Update | model.Delete, Hint: usesDriver,
			Alike: attachments, Cause: cause, Touches: touches,
		},
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

// driversOf returns the drivers of the pod's inline volumes, sorted and distinct. For a
// pod with a claim it returns anyDriver.
func driversOf(pod *model.Pod) []string {
	var drivers []string
	for i := range pod.Object.Spec.Volumes {
		v := &pod.Object.Spec.Volumes[i]
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return []string{anyDriver}
		}
		if driver := model.InlineDriver(v); driver != "" {
			drivers = append(drivers, driver)
		}
	}
	slices.Sort(drivers)
	return slices.Compact(drivers)
}

// anyDriver stands for all drivers. No driver can have this name.
const anyDriver = "*"

// usesDriver reports whether a detached volume may belong to one of the pod's drivers. A
// pod with a claim may use any driver. kube-scheduler does not wake a pod that has only
// ephemeral volumes.
func usesDriver(waiting *model.Pod, e model.Event) bool {
	if !detaches(e) {
		return false
	}
	drivers := driversOf(waiting)
	return slices.Contains(drivers, anyDriver) || slices.Contains(drivers, e.OldObject.(*model.VolumeAttachment).Attacher)
}

// detaches reports whether an attachment was deleted or now has another volume or node.
// Other updates only change the status, as happens several times for each attachment.
func detaches(e model.Event) bool {
	before := e.OldObject.(*model.VolumeAttachment)
	now, exists := e.Object.(*model.VolumeAttachment)
	return !exists || before.Node != now.Node || before.Attacher != now.Attacher || before.Volume != now.Volume ||
		before.Object.UID != now.Object.UID
}

// attachments returns the part of a pod that usesDriver depends on.
func attachments(pod *model.Pod) model.Need {
	text := []byte("drivers")
	for _, driver := range driversOf(pod) {
		text = append(append(text, ' '), driver...)
	}
	return model.NeedOf(string(text))
}

func driverKey(driver string) model.Key { return model.Key{Kind: "driver", Name: driver} }

func cause(pod *model.Pod) model.Cause {
	drivers := model.Clause{}
	for _, driver := range driversOf(pod) {
		drivers = append(drivers, driverKey(driver))
	}
	return model.Cause{Wants: []model.Way{{drivers}}}
}

func touches(e model.Event, to *model.Touch) {
	if !detaches(e) {
		to.Seeks = append(to.Seeks, model.Never()...)
		return
	}
	to.Has = append(to.Has, driverKey(anyDriver), driverKey(e.OldObject.(*model.VolumeAttachment).Attacher))
}
