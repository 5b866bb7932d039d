package framework

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/external/framework/snapshot"
)

// What the Handle lacks fails where it is used, and says which method of the Handle it was. What returns a status or an error returns one; where there is nothing to
// return it in, a method panics: the plugin's turn fails with that text, or the start if its factory calls it. Nothing panics that is called to undo.

// notSupported is the text of an error, or of a panic.
func notSupported(method, why string) error {
	return fmt.Errorf("%s of the Handle is not supported: %s", method, why)
}

// SharedDRAManager returns the devices and claims as they were when the last turn began; without DynamicResources in any profile, one whose methods panic.
func (h *Handle) SharedDRAManager() fwk.SharedDRAManager {
	if !h.r.config.Devices {
		return noDevices{}
	}
	return h.r.config.Snapshot.Devices().Ask()
}

// noDevices is a SharedDRAManager without anything. Trackers and listers of its own would have to answer "there is none" where a method returns no error,
// and a plugin would place pods by that.
type noDevices struct{}

func noDevicesIn(method string) error {
	return notSupported("SharedDRAManager()."+method, "devices are not watched, because no profile enables DynamicResources")
}

func (noDevices) ResourceClaims() fwk.ResourceClaimTracker { panic(noDevicesIn("ResourceClaims")) }
func (noDevices) ResourceSlices() fwk.ResourceSliceLister  { panic(noDevicesIn("ResourceSlices")) }
func (noDevices) DeviceClasses() fwk.DeviceClassLister     { panic(noDevicesIn("DeviceClasses")) }
func (noDevices) DeviceClassResolver() fwk.DeviceClassResolver {
	panic(noDevicesIn("DeviceClassResolver"))
}

// PodGroupManager returns what is configured, or one without groups.
func (h *Handle) PodGroupManager() fwk.PodGroupManager {
	if h.r.config.PodGroupManager == nil {
		return noPodGroups{h.r.config.Snapshot.Lister()}
	}
	return h.r.config.PodGroupManager
}

// noPodGroups is a PodGroupManager whose methods return errors: the listers those of kube-scheduler without GenericWorkload.
type noPodGroups struct{ *snapshot.Lister }

const noGroups = "pod groups beside plugins from outside are not part of this version of Berth"

// BuildHierarchySnapshotFromPod returns an error.
func (noPodGroups) BuildHierarchySnapshotFromPod(*v1.Pod) (fwk.PodGroupManager, error) {
	return nil, notSupported("PodGroupManager().BuildHierarchySnapshotFromPod", noGroups)
}

// GetRootKeyForGroup returns an error.
func (noPodGroups) GetRootKeyForGroup(fwk.EntityKey) (fwk.EntityKey, bool, error) {
	return fwk.EntityKey{}, false, notSupported("PodGroupManager().GetRootKeyForGroup", noGroups)
}
