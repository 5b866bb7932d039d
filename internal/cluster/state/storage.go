package state

import (
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/devices"
	"github.com/berth-scheduler/berth/internal/cluster/storage"
	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// compiledEvents are the resources of the events about compiled objects, by kind.
var compiledEvents = map[model.Kind]model.EventResource{
	model.PersistentVolumeKind:      model.PersistentVolumeEvent,
	model.PersistentVolumeClaimKind: model.PersistentVolumeClaimEvent,
	model.StorageClassKind:          model.StorageClassEvent,
	model.CSINodeKind:               model.CSINodeEvent,
	model.CSIDriverKind:             model.CSIDriverEvent,
	model.CSIStorageCapacityKind:    model.CSIStorageCapacityEvent,
	model.VolumeAttachmentKind:      model.VolumeAttachmentEvent,
	model.ResourceClaimKind:         model.ResourceClaimEvent,
	model.ResourceSliceKind:         model.ResourceSliceEvent,
	model.DeviceClassKind:           model.DeviceClassEvent,
	model.DeviceTaintRuleKind:       model.ResourceSliceEvent,
}

// EventOf returns the resource of the events about objects of a kind; ok is false if the
// kind has none.
func EventOf(kind model.Kind) (resource model.EventResource, ok bool) {
	switch kind {
	case model.NamespaceKind:
		return model.NamespaceEvent, true
	case model.ServiceKind, model.ReplicationControllerKind, model.ReplicaSetKind, model.StatefulSetKind:
		return model.SelectorEvent, true
	}
	resource, ok = compiledEvents[kind]
	return resource, ok
}

// store is a store of compiled objects.
type store interface {
	Get(ref model.Ref) model.Compiled
	Set(object model.Compiled) (before model.Compiled)
	Remove(ref model.Ref) (before model.Compiled)
}

// storeOf returns the store of a kind.
func (s *State) storeOf(kind model.Kind) store {
	switch kind {
	case model.ResourceClaimKind, model.ResourceSliceKind, model.DeviceClassKind, model.DeviceTaintRuleKind:
		return s.devices
	}
	return s.storage
}

// setCompiled stores a version of a storage or device object from the watch.
func (s *State) setCompiled(object model.Compiled, delta *Delta) {
	if object.Ref().Kind == model.ResourceClaimKind {
		s.seen(object)
	}
	if !s.isBehind(object) {
		s.storeCompiled(object, delta)
	}
}

// compiled returns the stored version of an object, nil if none.
func (s *State) compiled(ref model.Ref) model.Compiled { return s.storeOf(ref.Kind).Get(ref) }

// storeCompiled stores a storage or device object. As in kube-scheduler, each version is
// an event.
func (s *State) storeCompiled(object model.Compiled, delta *Delta) {
	claim, isClaim := object.(*model.ResourceClaim)
	var promise *devices.Promise
	if isClaim {
		promise = s.devices.Promised(claim.Key)
	}
	before := s.storeOf(object.Ref().Kind).Set(object)
	event := model.Event{Resource: compiledEvents[object.Ref().Kind], Action: model.Update, OldObject: before, Object: object}
	event.Volumes = s.storage.TakeChange()
	if before == nil {
		event.Action = actionOf(event.Object, model.Add)
	}
	event.Pools = s.devices.PoolsOf(before, object)
	delta.Events = append(delta.Events, event)
	if promise != nil && s.devices.Promised(claim.Key) == nil {
		// Another process has allocated other devices: the promised ones may be free.
		if freed := s.promiseBroken(claim.Key, promise, claim); len(freed.Pools) > 0 {
			delta.Events = append(delta.Events, freed)
		}
	}
}

func (s *State) removeCompiled(ref model.Ref, delta *Delta) {
	delete(s.learned, ref)
	s.notUnseen(ref)
	if before := s.storeOf(ref.Kind).Remove(ref); before != nil {
		delta.Events = append(delta.Events, model.Event{
			Resource: compiledEvents[ref.Kind], Action: actionOf(before, model.Delete), OldObject: before, Pools: s.devices.PoolsOf(before, nil),
			Volumes: s.storage.TakeChange(),
		})
	}
}

// actionOf returns the action of an event about an object that is new or gone. Adding or
// deleting a taint rule updates the slices with its devices.
func actionOf(object model.Compiled, action model.Action) model.Action {
	if object.Ref().Kind == model.DeviceTaintRuleKind {
		return model.Update
	}
	return action
}

// auditStorage checks the invariants of the stores of volumes and of devices, with the
// state's nodes, pods, nominations and holds.
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
	nominated := slices.AppendSeq(slices.Collect(maps.Values(s.nominations.byPod)), maps.Keys(s.nominations.holdFor))
	s.storage.Audit(v, seats, nominated, func(object model.Ref, pod model.PodKey) bool {
		return slices.ContainsFunc(s.held[object], func(h Holder) bool { return h.Pod == pod })
	})
	places := make([]devices.Seat, len(seats))
	for slot, seat := range seats {
		places[slot] = devices.Seat{Name: seat.Name, Exists: seat.Exists, Labels: seat.Labels}
	}
	s.devices.Audit(v, places, func(object model.Ref, pod model.PodKey, value plan.Held) bool {
		return slices.ContainsFunc(s.held[object], func(h Holder) bool { return h.Pod == pod && h.Value == value })
	})
}
