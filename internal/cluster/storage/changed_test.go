package storage

import (
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
)

// counted is the volumes on a node whose pods and CSINode stay as they are.
type counted struct {
	csi     *model.CSINode
	pods    []*model.Pod
	refs    map[handle]references
	volumes map[string]int
}

func (h *history) countedOn(slot int) counted {
	n := h.store.At(int32(slot))
	return counted{n.csi, slices.Clone(h.slots[slot].pods), maps.Clone(n.refs), maps.Clone(n.volumes)}
}

// checkChange compares the collected change with the volumes of a node before and after.
func (h *history) checkChange(when string, slot int, before counted, change model.VolumesChange) {
	h.t.Helper()
	now := h.countedOn(slot)
	if now.csi == nil || now.csi != before.csi || !slices.Equal(now.pods, before.pods) {
		return
	}
	for driver, count := range before.volumes {
		limit, limited := now.csi.LimitOf(driver)
		left := now.volumes[driver]
		hasRoom := limited && left < count && int64(left) < limit
		if hasRoom && !change.Any && !slices.Contains(change.Room, driver) {
			h.t.Errorf("%s: a node has %d volumes of %s in place of %d, at most %d; collected %+v",
				when, left, driver, count, limit, change)
		}
	}
	for v := range now.refs {
		_, limited := now.csi.LimitOf(v.driver)
		if _, had := before.refs[v]; !limited || had || change.Any || slices.Contains(change.Room, v.driver) {
			continue
		}
		if !slices.Contains(change.Came, model.VolumeHandle{Driver: v.driver, Handle: v.handle}) {
			h.t.Errorf("%s: the volume %v came to a node; collected %+v", when, v, change)
		}
	}
}
