package volumebinding

import (
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/berth-scheduler/berth/internal/model"
)

// EventsToRegister registers for everything from which volumes can be bound or provisioned where they could not before. As in kube-scheduler, any
// change of a volume helps any pod.
func (*Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{
		{Resource: model.StorageClassEvent, Actions: model.Add | model.Update, Hint: topologiesChange},
		model.ClaimEvents(model.Add|model.Update, true),
		{Resource: model.PersistentVolumeEvent, Actions: model.Add | model.Update},
		{Resource: model.NodeEvent, Actions: model.Add | model.UpdateNodeLabel},
		{Resource: model.CSINodeEvent, Actions: model.Add | model.Update, Hint: migrationChanges},
		{
			Resource: model.CSIDriverEvent, Actions: model.Update, Hint: capacityIsTrackedNoMore,
			Alike: driversOfPod, Cause: namesDrivers, Touches: touchesDriver,
		},
		{Resource: model.CSIStorageCapacityEvent, Actions: model.Add | model.Update, Hint: capacityGrows},
	}
}

func topologiesChange(_ *model.Pod, e model.Event) bool {
	if e.OldObject == nil {
		return true
	}
	before, now := e.OldObject.(*model.StorageClass), e.Object.(*model.StorageClass)
	return !equality.Semantic.DeepEqual(before.Object.AllowedTopologies, now.Object.AllowedTopologies)
}

func migrationChanges(_ *model.Pod, e model.Event) bool {
	if e.OldObject == nil {
		return true
	}
	return e.OldObject.(*model.CSINode).MigratedText() != e.Object.(*model.CSINode).MigratedText()
}

// capacityIsTrackedNoMore is about drivers that no longer say how much room they have. It looks at the pod's inline volumes only: a pod that waits for
// room for a claim is not woken, as in kube-scheduler.
func capacityIsTrackedNoMore(waiting *model.Pod, e model.Event) bool {
	before, now := e.OldObject.(*model.CSIDriver), e.Object.(*model.CSIDriver)
	if !before.TracksCapacity || now.TracksCapacity {
		return false
	}
	for i := range waiting.Object.Spec.Volumes {
		if csi := waiting.Object.Spec.Volumes[i].CSI; csi != nil && csi.Driver == now.Name {
			return true
		}
	}
	return false
}

// driversOfPod is what hints about drivers depend on.
func driversOfPod(pod *model.Pod) model.Need {
	text := []byte("drivers")
	for i := range pod.Object.Spec.Volumes {
		if csi := pod.Object.Spec.Volumes[i].CSI; csi != nil {
			text = append(append(text, ' '), csi.Driver...)
		}
	}
	return model.NeedOf(string(text))
}

// driverKey is the kind of keys of drivers.
const driverKey = "driver"

func namesDrivers(pod *model.Pod) model.Cause {
	cause := model.Cause{Keys: []model.Key{{Kind: driverKey}}}
	for i := range pod.Object.Spec.Volumes {
		if csi := pod.Object.Spec.Volumes[i].CSI; csi != nil {
			cause.Keys = append(cause.Keys, model.Key{Kind: driverKey, Name: csi.Driver})
		}
	}
	return cause
}

func touchesDriver(e model.Event, to *model.Touch) {
	to.Seeks = append(to.Seeks, model.Way{{{Kind: driverKey, Name: e.Object.(*model.CSIDriver).Name}}})
}

func capacityGrows(_ *model.Pod, e model.Event) bool {
	now := e.Object.(*model.StorageCapacity)
	if e.OldObject == nil {
		return true
	}
	before := e.OldObject.(*model.StorageCapacity)
	return now.Usable && (!before.Usable || before.Limit < now.Limit)
}
