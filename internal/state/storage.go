package state

import "github.com/berth-scheduler/berth/internal/model"

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

// setCompiled stores an object of storage. As in kube-scheduler, each version of one is an event.
func (s *State) setCompiled(object model.Compiled, delta *Delta) {
	before := s.storage.Set(object)
	event := model.Event{Resource: storageEvents[object.Ref().Kind], Action: model.Update, OldObject: before, Object: object}
	if before == nil {
		event.Action = model.Add
	}
	delta.Events = append(delta.Events, event)
}

func (s *State) removeCompiled(ref model.Ref, delta *Delta) {
	if before := s.storage.Remove(ref); before != nil {
		delta.Events = append(delta.Events, model.Event{Resource: storageEvents[ref.Kind], Action: model.Delete, OldObject: before})
	}
}
