package storage

import "github.com/berth-scheduler/berth/internal/model"

// attachment is a VolumeAttachment that exists.
type attachment struct {
	*model.VolumeAttachment
	// Invariant: volume and node are those that the attachment's spec names, and set only
	// if it names both and an attacher. The volume then lists the attachment at position
	// at, and the node counts it. is is the handle that counts on the node; it is zero,
	// without a driver, if none counts.
	volume *volume
	node   *Node
	at     int
	is     handle
}

func (s *Store) setAttachment(name string, now *model.VolumeAttachment) (before *model.VolumeAttachment) {
	a := s.attachments[name]
	if a != nil {
		before = a.VolumeAttachment
		if now != nil && before.Node == now.Node && before.Attacher == now.Attacher && before.Volume == now.Volume {
			a.VolumeAttachment = now // only its status has changed, the usual update
			return before
		}
		s.detach(a)
	}
	if now == nil {
		delete(s.attachments, name)
		return before
	}
	a = &attachment{VolumeAttachment: now}
	s.attachments[name] = a
	if now.Node == "" || now.Attacher == "" || now.Volume == "" {
		return before // it does not count
	}
	a.node, a.volume = s.nodeOf(now.Node), s.volumeOf(now.Volume)
	a.node.attachments++
	a.at = len(a.volume.attachments)
	a.volume.attachments = append(a.volume.attachments, a)
	s.identifyAttachment(a)
	return before
}

// detach removes an attachment from its node and its volume.
func (s *Store) detach(a *attachment) {
	v, node := a.volume, a.node
	if v == nil {
		return
	}
	s.countAttachment(a, handle{})
	v.attachments = drop(v.attachments, a.at, func(moved *attachment, at int) { moved.at = at })
	s.forgetVolume(v)
	node.attachments--
	s.forgetNode(node)
}

// identifyAttachment recomputes the handle that an attachment counts as.
func (s *Store) identifyAttachment(a *attachment) {
	var is handle
	if v := a.volume; v.Volume != nil && v.Object.Spec.CSI != nil {
		is = handle{a.Attacher, v.Handle}
	}
	s.countAttachment(a, is)
}

func (s *Store) countAttachment(a *attachment, is handle) {
	if is == a.is {
		return
	}
	before := a.node.counted(a.is, is)
	if a.is.driver != "" {
		a.node.attach(a.is, -1)
		s.refer(a.node, a.is, -1)
	}
	if is.driver != "" {
		a.node.attach(is, +1)
		s.refer(a.node, is, +1)
	}
	a.is = is
	s.changedVolumes(a.node, before)
}
