package framework

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/external/framework/snapshot"
)

// Unsupported features of the Handle fail on use with the method's name. Methods that
// return a status or an error return one; others panic. The plugin's turn then fails with
// that text, or the start if its factory calls the method. Methods that undo never panic.

// notSupported is the text of an error, or of a panic.
func notSupported(method, why string) error {
	return fmt.Errorf("%s of the Handle is not supported: %s", method, why)
}

// SharedDRAManager returns the devices and claims as of the beginning of the last turn.
// If no profile has DynamicResources, the methods of the result panic.
func (h *Handle) SharedDRAManager() fwk.SharedDRAManager {
	if !h.r.config.Devices {
		return noDevices{}
	}
	return h.r.config.Snapshot.Devices().Ask()
}

// noDevices is a SharedDRAManager whose methods panic. Empty trackers and listers would
// have to return "none" where a method returns no error, and a plugin would place pods by
// that.
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

// PodGroupManager returns the configured manager, or one without groups.
func (h *Handle) PodGroupManager() fwk.PodGroupManager {
	if h.r.config.PodGroupManager == nil {
		return noPodGroups{h.r.config.Snapshot.Lister()}
	}
	return h.r.config.PodGroupManager
}

// noPodGroups is a PodGroupManager whose methods return errors. Its listers are those of
// kube-scheduler without GenericWorkload.
type noPodGroups struct{ *snapshot.Lister }

const noGroups = "pod groups beside out-of-tree plugins are not part of this version of Berth"

// BuildHierarchySnapshotFromPod returns an error.
func (noPodGroups) BuildHierarchySnapshotFromPod(*v1.Pod) (fwk.PodGroupManager, error) {
	return nil, notSupported("PodGroupManager().BuildHierarchySnapshotFromPod", noGroups)
}

// GetRootKeyForGroup returns an error.
func (noPodGroups) GetRootKeyForGroup(fwk.EntityKey) (fwk.EntityKey, bool, error) {
	return fwk.EntityKey{}, false, notSupported("PodGroupManager().GetRootKeyForGroup", noGroups)
}
