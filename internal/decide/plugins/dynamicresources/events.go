package dynamicresources

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/devices"
	"github.com/berth-scheduler/berth/internal/model"
)

// EventsToRegister registers for all events that can satisfy a pod's claims. Unlike in
// kube-scheduler, devices that the pod cannot get do not wake it.
func (p *Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{
		{Resource: model.NodeEvent, Actions: model.Add | model.UpdateNodeLabel | model.UpdateNodeAllocatable},
		{Resource: model.DeviceClassEvent, Actions: model.Add | model.Update},
		{Resource: model.ResourceSliceEvent, Actions: model.Add | model.Update, Asked: p.hints.aboutSlices(), Touches: touches},
		// A claim that releases devices helps all pods that wait for such devices. Other
		// changes of a claim help the pods that use it.
		{Resource: model.ResourceClaimEvent, Actions: model.Update | model.Delete, Asked: p.hints.aboutClaims(), Touches: touches},
		// No claim is created while a claim from an earlier turn of the pod exists.
		{
			Resource: model.ResourceClaimEvent, Actions: model.Delete, Hint: wasMadeFor,
			Alike: func(waiting *model.Pod) model.Need { return model.NeedOf("made for " + string(waiting.UID)) },
			Cause: func(waiting *model.Pod) model.Cause {
				return model.Cause{Wants: []model.Way{{{madeKey(waiting.UID)}}}}
			},
			Touches: func(e model.Event, to *model.Touch) {
				if before, ok := e.OldObject.(*model.ResourceClaim); ok {
					to.Has = append(to.Has, madeKey(devices.OwnerOfMade(before)))
				}
			},
		},
		{
			Resource: model.ResourceClaimEvent, Actions: model.Add | model.Update | model.Delete, Hint: changesOwn,
			Alike: func(waiting *model.Pod) model.Need {
				return model.NeedOf("claims " + string(model.AppendClaims(nil, waiting.Devices.Keys())))
			},
			Cause: func(waiting *model.Pod) model.Cause {
				return model.Cause{Wants: []model.Way{{model.ClaimKeys(nil, waiting.Devices.Keys())}}}
			},
			Touches: func(e model.Event, to *model.Touch) {
				to.Has = model.ClaimKeys(to.Has, []model.ClaimKey{claimIn(e).Key})
			},
		},
		{Resource: model.TargetPodEvent, Actions: model.UpdatePodGeneratedResourceClaim, Hint: func(_ *model.Pod, e model.Event) bool {
			return e.Pod != nil && (e.Pod.Devices == nil || e.Pod.Devices.Err == nil)
		}},
	}
}

// madeKey returns the key of a claim created for a pod's extended resources.
func madeKey(pod types.UID) model.Key { return model.Key{Kind: "made for", Name: string(pod)} }

// wasMadeFor reports whether a claim was created for the waiting pod's extended
// resources.
func wasMadeFor(waiting *model.Pod, e model.Event) bool {
	before, ok := e.OldObject.(*model.ResourceClaim)
	return ok && devices.OwnerOfMade(before) == waiting.UID
}

// claimIn returns the last version of an event's claim.
func claimIn(e model.Event) *model.ResourceClaim {
	if e.Object == nil {
		return e.OldObject.(*model.ResourceClaim)
	}
	return e.Object.(*model.ResourceClaim)
}

// changesOwn reports whether a claim of the waiting pod is new, changed its status, or
// was deleted with an allocation. A claim that was deleted and recreated is new, even if
// the watch delivers that as one change: the pod cannot use a claim that is being
// deleted.
func changesOwn(waiting *model.Pod, e model.Event) bool {
	claim := claimIn(e)
	switch {
	case !waiting.Devices.Names(claim.Key):
		return false
	case e.Object == nil:
		return claim.Allocation() != nil
	}
	if e.OldObject == nil {
		return true
	}
	before := e.OldObject.(*model.ResourceClaim).Object
	return before.UID != claim.Object.UID || !equality.Semantic.DeepEqual(before.Status, claim.Object.Status)
}
