package state

import (
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/internal/audit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/storage"
)

// storageEvents are the resources of the events about objects of storage, by kind.
var storageEvents = map[model.Kind]model.EventResource{
	model.PersistentVolumeKind:      model.PersistentVolumeEvent,
	model.PersistentVolumeClaimKind: model.PersistentVolumeClaimEvent,
	model.StorageClassKind:          model.StorageClassEvent,
	model.CSINodeKind:               model.CSINodeEvent,
	model.CSIDriverKind:             model.CSIDriverEvent,
	model.CSIStorageCapacityKind:    model.CSIStorageCapacityEvent,
	model.VolumeAttachmentKind:      model.VolumeAttachmentEvent,
}

// setCompiled takes in a version of an object of storage that the watch shows.
func (s *State) setCompiled(object model.Compiled, delta *Delta) {
	if !s.isBehind(object) {
		s.storeCompiled(object, delta)
	}
}

// compiled returns the version of an object that is known, nil if there is none.
func (s *State) compiled(ref model.Ref) model.Compiled { return s.storage.Get(ref) }

// storeCompiled stores an object of storage. As in kube-scheduler, each version of one is an event.
func (s *State) storeCompiled(object model.Compiled, delta *Delta) {
	before := s.storage.Set(object)
	event := model.Event{Resource: storageEvents[object.Ref().Kind], Action: model.Update, OldObject: before, Object: object}
	if before == nil {
		event.Action = model.Add
	}
	delta.Events = append(delta.Events, event)
}

func (s *State) removeCompiled(ref model.Ref, delta *Delta) {
	delete(s.learned, ref)
	if before := s.storage.Remove(ref); before != nil {
		delta.Events = append(delta.Events, model.Event{Resource: storageEvents[ref.Kind], Action: model.Delete, OldObject: before})
	}
}

// auditStorage checks the invariants of the store of volumes, with the state's nodes, pods, nominations and holds.
func (s *State) auditStorage(v *audit.Violations) {
	seats := make([]storage.Seat, len(s.alive))
	for slot := range seats {
		if s.isFree(int32(slot)) {
			continue
		}
		seat := storage.Seat{Name: s.name[slot], Exists: s.alive[slot]}
		if seat.Exists {
			seat.Labels = s.node[slot].Object.Labels
		}
		for _, p := range s.pods[slot] {
			seat.Pods = append(seat.Pods, p.pod)
		}
		seats[slot] = seat
	}
	s.storage.Audit(v, seats, slices.Collect(maps.Values(s.nominations.byPod)), func(object model.Ref, pod model.PodKey) bool {
		return slices.ContainsFunc(s.held[object], func(h Holder) bool { return h.Pod == pod })
	})
}
