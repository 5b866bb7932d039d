package state

import (
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// GiveBack assumes that writes of decisions take effect, until changes bring their
// results.
func (s *State) GiveBack(writes ...plan.Write) {
	for i := range writes {
		if claim, ok := writes[i].GivesBack.(*model.ResourceClaim); ok {
			s.devices.GiveBack(claim)
		}
	}
}

// GivenBack returns the number of objects that writes in flight release.
func (s *State) GivenBack() int { return s.devices.GivenBack() }

// AwaitsWrite reports whether a write in flight releases a claim of the pod.
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

// endGiveBack applies the result of a write. Pods that were held because of the write are
// checked again, whether or not it was stored. For all other pods, a stored write is an
// event of its own.
func (s *State) endGiveBack(result *model.WriteResult, delta *Delta) {
	if s.devices.EndGiveBack(result) {
		delta.Events = append(delta.Events, model.Event{
			Resource: model.ResourceClaimEvent, Action: model.Delete, OldObject: result.Object, OnlyHeld: true,
		})
	}
}
