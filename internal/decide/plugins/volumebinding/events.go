package volumebinding

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/berth-scheduler/berth/internal/model"
)

// EventsToRegister registers for all events after which volumes may be bound or
// provisioned. As in kube-scheduler, any change of a volume helps any pod.
func (*Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{
		{Resource: model.StorageClassEvent, Actions: model.Add | model.Update, Hint: topologiesChange},
		model.ClaimEvents(model.Add|model.Update, true),
		{Resource: model.PersistentVolumeEvent, Actions: model.AllActions},
		{Resource: model.NodeEvent, Actions: model.Add | model.UpdateNodeLabel},
		{
			Resource: model.NodeEvent, Actions: model.Delete,
			Asked: &model.AskedHint{Hint: losesSelected, Cause: causeOfSelected}, Touches: touchesSelected,
		},
		{Resource: model.CSINodeEvent, Actions: model.AllActions, Hint: migrationChanges},
		{
			Resource: model.CSIDriverEvent, Actions: model.Update | model.Delete, Hint: capacityIsTrackedNoMore,
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
	return before.Object.UID != now.Object.UID || !equality.Semantic.DeepEqual(before.Object.AllowedTopologies, now.Object.AllowedTopologies)
}

func migrationChanges(_ *model.Pod, e model.Event) bool {
	if e.OldObject == nil {
		return true
	}
	now := ""
	if node, exists := e.Object.(*model.CSINode); exists {
		now = node.MigratedText()
	}
	return e.OldObject.(*model.CSINode).MigratedText() != now
}

// capacityIsTrackedNoMore reports whether a driver that may serve the pod stopped
// tracking its capacity. Any driver may provision a claim of the pod. kube-scheduler
// checks the inline volumes only, so it does not wake a pod that waits for capacity for a
// claim.
func capacityIsTrackedNoMore(waiting *model.Pod, e model.Event) bool {
	before := e.OldObject.(*model.CSIDriver)
	if now, exists := e.Object.(*model.CSIDriver); !before.TracksCapacity || exists && now.TracksCapacity {
		return false
	}
	drivers := driversOf(waiting)
	return slices.Contains(drivers, anyDriver) || slices.Contains(drivers, before.Name)
}

// driversOf returns the drivers of the pod's inline volumes, or anyDriver if it has a
// claim.
func driversOf(pod *model.Pod) (drivers []string) {
	if pod.Volumes != nil && len(pod.Volumes.Claims) > 0 {
		return []string{anyDriver}
	}
	for i := range pod.Object.Spec.Volumes {
		if csi := pod.Object.Spec.Volumes[i].CSI; csi != nil {
			drivers = append(drivers, csi.Driver)
		}
	}
	return drivers
}

// anyDriver stands for all drivers. No driver can have this name.
const anyDriver = "*"

// driversOfPod returns the part of a pod that hints about drivers depend on.
func driversOfPod(pod *model.Pod) model.Need {
	text := []byte("drivers")
	for _, driver := range driversOf(pod) {
		text = append(append(text, ' '), driver...)
	}
	return model.NeedOf(string(text))
}

// driverKey is the kind of keys of drivers.
const driverKey = "driver"

func namesDrivers(pod *model.Pod) model.Cause {
	cause := model.Cause{Keys: []model.Key{{Kind: driverKey}}}
	for _, driver := range driversOf(pod) {
		cause.Keys = append(cause.Keys, model.Key{Kind: driverKey, Name: driver})
	}
	return cause
}

func touchesDriver(e model.Event, to *model.Touch) {
	to.Seeks = append(to.Seeks, model.Way{{
		{Kind: driverKey, Name: e.OldObject.(*model.CSIDriver).Name}, {Kind: driverKey, Name: anyDriver},
	}})
}

// capacityGrows reports whether capacity may suffice for a further claim, or for all
// claims of a pod together.
func capacityGrows(_ *model.Pod, e model.Event) bool {
	now := e.Object.(*model.StorageCapacity)
	if e.OldObject == nil {
		return true
	}
	before := e.OldObject.(*model.StorageCapacity)
	return now.Usable &&
		(!before.Usable || before.Limit < now.Limit || before.Room() < now.Room() || before.Object.UID != now.Object.UID)
}
