package nodevolumelimits

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
)

// EventsToRegister registers for nodes that come or can attach more, for pods and
// attachments that go, for attachments of the pod's volumes, for the pod's claims, and for
// drivers that need not be installed any more. kube-scheduler does not register for the
// last of these and for new attachments, nor for nodes without a CSINode, limits that are
// lifted, and drivers without a limit.
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

// attachesMore reports whether a node can attach more volumes of a driver, whoever uses it.
// A driver that comes may have been required; one that goes had a limit. In-tree volumes
// count where their plugin is migrated, and nothing counts on a node without a CSINode.
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

// isRequiredNoMore reports whether pods may go to nodes that do not list the driver.
func isRequiredNoMore(_ *model.Pod, e model.Event) bool {
	now, exists := e.Object.(*model.CSIDriver)
	return e.OldObject.(*model.CSIDriver).MustBeInstalled && !(exists && now.MustBeInstalled)
}

// hadVolumes reports whether the deleted pod, on whatever node, used a volume of a kind that can count.
func hadVolumes(_ *model.Pod, e model.Event) bool {
	gone := e.OldPod
	return (gone.NodeName != "" || gone.NominatedNode != "") && slices.ContainsFunc(gone.Object.Spec.Volumes, func(v v1.Volume) bool {
		return v.PersistentVolumeClaim != nil || v.Ephemeral != nil || model.InlineDriver(&v) != ""
	})
}

// driversOf returns the names of the drivers of the pod's inline volumes, sorted, each once; anyDriver if it has a claim.
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

// anyDriver stands for all drivers. It is no name of one.
const anyDriver = "*"

// usesDriver reports whether a volume that was detached may be of one of the pod's drivers. A pod with a claim may have volumes of any. kube-scheduler
// does not wake a pod that has ephemeral volumes alone.
func usesDriver(waiting *model.Pod, e model.Event) bool {
	if !detaches(e) {
		return false
	}
	drivers := driversOf(waiting)
	return slices.Contains(drivers, anyDriver) || slices.Contains(drivers, e.OldObject.(*model.VolumeAttachment).Attacher)
}

// detaches reports whether an attachment goes, or is of another volume or node. Otherwise
// its status has changed, as the status of each attachment does several times.
func detaches(e model.Event) bool {
	before := e.OldObject.(*model.VolumeAttachment)
	now, exists := e.Object.(*model.VolumeAttachment)
	return !exists || before.Node != now.Node || before.Attacher != now.Attacher || before.Volume != now.Volume ||
		before.Object.UID != now.Object.UID
}

// attachments returns what of a pod usesDriver depends on.
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
