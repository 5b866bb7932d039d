package model

import "slices"

// VolumesChange is a change of the volumes in use on nodes that can help a pod at a
// volume limit. It lists at most volumesListed drivers and volumes.
type VolumesChange struct {
	// Room are the drivers of which a node has room for another volume, and fewer
	// volumes than before.
	Room []string
	// Came are the volumes that a node has in use now and had not before. A pod with such
	// a volume takes no further place there.
	Came []VolumeHandle
	// Any means that pods with volumes of any driver may be helped.
	Any bool
}

// VolumeHandle is a volume as its CSI driver names it.
type VolumeHandle struct{ Driver, Handle string }

// volumesListed limits the lists of a VolumesChange. A class can change the volumes of
// very many claims.
const volumesListed = 64

// AddRoom adds a driver to Room.
func (c *VolumesChange) AddRoom(driver string) {
	switch {
	case slices.Contains(c.Room, driver):
	case len(c.Room) == volumesListed:
		c.Any = true
	default:
		c.Room = append(c.Room, driver)
	}
}

// AddCame adds a volume to Came. If the list is full, it adds the driver to Room: any pod
// with volumes of the driver may be helped.
func (c *VolumesChange) AddCame(v VolumeHandle) {
	switch {
	case slices.Contains(c.Came, v):
	case len(c.Came) == volumesListed:
		c.AddRoom(v.Driver)
	default:
		c.Came = append(c.Came, v)
	}
}

// IsEmpty reports whether the change helps no pod.
func (c *VolumesChange) IsEmpty() bool { return len(c.Room) == 0 && len(c.Came) == 0 && !c.Any }
