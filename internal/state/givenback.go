package state

import (
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
)

// GiveBack assumes that writes of decisions take effect, until changes bring their ends.
func (s *State) GiveBack(writes ...plan.Write) {
	for i := range writes {
		if claim, ok := writes[i].GivesBack.(*model.ResourceClaim); ok {
			s.devices.GiveBack(claim)
		}
	}
}

// GivenBack returns the number of objects that writes in flight give back.
func (s *State) GivenBack() int { return s.devices.GivenBack() }

// AwaitsWrite reports whether a write in flight gives back a claim of the pod.
func (v View) AwaitsWrite(pod *model.Pod) bool {
	if v.s.devices.GivenBack() == 0 {
		return false
	}
	if pod.Devices != nil {
		for _, use := range pod.Devices.Claims {
			if v.s.devices.IsGivenBack(use.Key) {
				return true
			}
		}
	}
	made := v.s.devices.MadeFor(pod.UID)
	return made != nil && v.s.devices.IsGivenBack(made.Key)
}

// endGiveBack applies the end of a write. Pods that were held because of it are checked
// again, stored or not; for all other pods a write that was stored is an event of its
// own.
func (s *State) endGiveBack(result *model.WriteResult, delta *Delta) {
	if s.devices.EndGiveBack(result) {
		delta.Events = append(delta.Events, model.Event{
			Resource: model.ResourceClaimEvent, Action: model.Delete, OldObject: result.Object, OnlyHeld: true,
		})
	}
}
