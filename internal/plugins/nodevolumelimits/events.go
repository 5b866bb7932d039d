package nodevolumelimits

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
)

// EventsToRegister registers for nodes that can attach more, for pods and attachments that go, and for the pod's claims. A CSIDriver that is no longer
// required helps no pod, as in kube-scheduler.
func (*Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{
		{Resource: model.CSINodeEvent, Actions: model.Add},
		{Resource: model.CSINodeEvent, Actions: model.Update, Hint: attachesMore},
		{Resource: model.AssignedPodEvent, Actions: model.Delete, Hint: hadVolumes},
		model.ClaimEvents(model.Add, true),
		{
			Resource: model.VolumeAttachmentEvent, Actions: model.Delete, Hint: usesDriver,
			Alike: attachments, Cause: cause, Touches: touches,
		},
	}
}

// attachesMore reports whether the limit of a driver rose, whoever uses it. One without a limit counts as 0, before and after, as in kube-scheduler: so a
// driver that appears without a limit helps nobody.
func attachesMore(_ *model.Pod, e model.Event) bool {
	before, now := e.OldObject.(*model.CSINode), e.Object.(*model.CSINode)
	for name, limit := range now.Drivers {
		if max(limit, 0) > max(before.Drivers[name], 0) {
			return true
		}
	}
	return false
}

// hadVolumes reports whether the deleted pod, on whatever node, used a volume of a kind that can count.
func hadVolumes(_ *model.Pod, e model.Event) bool {
	gone := e.OldPod
	return (gone.NodeName != "" || gone.NominatedNode != "") && slices.ContainsFunc(gone.Object.Spec.Volumes, func(v v1.Volume) bool {
		return v.PersistentVolumeClaim != nil || v.Ephemeral != nil || model.InlineDriver(&v) != ""
	})
}

// driversOf returns the names of the drivers of the pod's inline volumes, sorted, each once; anyDriver if it names a claim.
func driversOf(pod *model.Pod) []string {
	var drivers []string
	for i := range pod.Object.Spec.Volumes {
		v := &pod.Object.Spec.Volumes[i]
		if v.PersistentVolumeClaim != nil {
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

// usesDriver reports whether a volume that was detached may be of one of the pod's drivers. A pod that names a claim may have volumes of any; one that has
// ephemeral volumes alone is not helped, as in kube-scheduler.
func usesDriver(waiting *model.Pod, e model.Event) bool {
	drivers := driversOf(waiting)
	return slices.Contains(drivers, anyDriver) || slices.Contains(drivers, e.OldObject.(*model.VolumeAttachment).Attacher)
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
	to.Has = append(to.Has, driverKey(anyDriver), driverKey(e.OldObject.(*model.VolumeAttachment).Attacher))
}
