package dynamicresources

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/devices"
	"github.com/berth-scheduler/berth/internal/model"
)

// EventsToRegister registers for everything from which a pod's claims can be satisfied that could not before. As far as kube-scheduler's plugin is woken by
// devices that a pod cannot be given, it is not.
func (p *Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{
		{Resource: model.NodeEvent, Actions: model.Add | model.UpdateNodeLabel | model.UpdateNodeAllocatable},
		{Resource: model.DeviceClassEvent, Actions: model.Add | model.Update},
		{Resource: model.ResourceSliceEvent, Actions: model.Add | model.Update, Asked: p.heard.aboutSlices(), Touches: touches},
		// A claim that gives devices back helps whoever waits for such; another change of a claim helps the pods that use it.
		{Resource: model.ResourceClaimEvent, Actions: model.Update | model.Delete, Asked: p.heard.aboutClaims(), Touches: touches},
		// While the claim is there that was made for the pod in an earlier turn, no other is made.
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

// madeKey is the key of a claim that was made for the extended resources of a pod.
func madeKey(pod types.UID) model.Key { return model.Key{Kind: "made for", Name: string(pod)} }

// wasMadeFor reports whether a claim was made for the extended resources of the waiting pod.
func wasMadeFor(waiting *model.Pod, e model.Event) bool {
	before, ok := e.OldObject.(*model.ResourceClaim)
	return ok && devices.OwnerOfMade(before) == waiting.UID
}

// claimIn returns the claim that an event is about, in its last version.
func claimIn(e model.Event) *model.ResourceClaim {
	if e.Object == nil {
		return e.OldObject.(*model.ResourceClaim)
	}
	return e.Object.(*model.ResourceClaim)
}

// changesOwn reports whether a claim of the waiting pod is new, or its status has changed, or
// it is gone and had an allocation. A claim that was deleted and created again is new, also
// if the watch shows that as one change: a pod waits while its claim is being deleted.
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
