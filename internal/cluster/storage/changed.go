package storage

import "github.com/berth-scheduler/berth/internal/model"

// counts are the counts of a node before the volume went is replaced by the volume came
// there. Either can be empty.
type counts struct {
	went, came handle
	// volumes counts the volumes of the driver of went; has means that came was in use.
	volumes int
	has     bool
}

// counted returns the counts of a node before a volume is replaced.
func (n *Node) counted(went, came handle) counts {
	_, has := n.refs[came]
	return counts{went, came, n.volumes[went.driver], has}
}

// changedVolumes reports that a volume was replaced on a node, and collects the change
// for the hints of pods at a volume limit. Without a limit the counts keep no pod out.
func (s *Store) changedVolumes(n *Node, before counts) {
	s.touchVolumes(n)
	if n.slot < 0 || n.csi == nil {
		return
	}
	limit, limited := n.csi.LimitOf(before.went.driver)
	if now := n.volumes[before.went.driver]; limited && now < before.volumes && int64(now) < limit {
		s.change.AddRoom(before.went.driver)
	}
	if _, limited := n.csi.LimitOf(before.came.driver); !limited || before.has {
		return
	}
	if _, has := n.refs[before.came]; has {
		s.change.AddCame(model.VolumeHandle{Driver: before.came.driver, Handle: before.came.handle})
	}
}
