package dynamicresources

import (
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// kube-scheduler's messages for groups.
const (
	// Also if nothing was released.
	groupFreed       = "deallocation and deletion of ResourceClaims completed"
	groupDeallocated = "deallocation of PodGroup ResourceClaim completed"
	groupUnreserved  = "ResourceClaim unreserved for PodGroup"
)

// memberNote records the turn of a member.
type memberNote struct {
	// unavailable are the claims with an allocation that is unusable on an otherwise
	// feasible node, in the order of the pod's spec. A claim promised in the group's turn
	// has the promised allocation.
	unavailable []*model.ResourceClaim
	// freed is the first of these that is not reserved for others. left is a claim from
	// an earlier turn of the pod, which will be deleted.
	freed, left *model.ResourceClaim
}

// IsGroupNote marks the type as a plugin.GroupNote.
func (*memberNote) IsGroupNote() {}

// ConcernsGroup reports whether the member has claims or a claim was created for it.
func (p *Plugin) ConcernsGroup(v state.View, member *model.Pod) bool {
	return member.Devices != nil && len(member.Devices.Claims) > 0 || v.Devices().MadeFor(member.UID) != nil
}

// Member records which of the member's claims make nodes infeasible.
func (p *Plugin) Member(c plugin.Cycle, member *model.Pod) plugin.GroupNote {
	if !c.PreFiltered(Name) {
		return nil
	}
	note := &memberNote{}
	d, err := p.demandsOf(c.View(), member)
	if d == nil || err != nil || c.View().AwaitsWrite(member) {
		return note
	}
	rejections := unavailableNodes{cycle: c}
	for i, claim := range d.given {
		if !rejections.because(claim, d.broken[i]) {
			continue
		}
		note.unavailable = append(note.unavailable, claim)
		if note.freed == nil && !isReservedForOthers(claim, member.UID) {
			note.freed = claim
		}
	}
	if note.freed == nil {
		note.left = p.leftFor(c.View(), member, d)
	}
	return note
}

// FreeForGroup deallocates one claim for each member, as PostFilter does.
//
// For a member without such a claim, it deallocates a claim of the PodGroup. If no claim
// of the PodGroup makes nodes infeasible, it removes the group from reservedFor of one,
// so that all members are placed anew. While any member is on a node, claims of the
// PodGroup stay as they are.
func (p *Plugin) FreeForGroup(v state.View, group *model.PodGroup, first *model.Pod, notes []plugin.GroupNote) (freed plugin.GroupFreed, err error) {
	freed.Message = groupFreed
	deallocated := map[model.ClaimKey]bool{}
	give := func(claim *model.ResourceClaim) {
		// A promise of this turn ends with the turn. A claim of several members is
		// released once.
		if stored := v.Devices().Claim(claim.Key); stored != nil && stored.Allocation() != nil && !deallocated[claim.Key] {
			deallocated[claim.Key] = true
			freed.Writes = append(freed.Writes, *deallocate(stored))
		}
	}
	unserved := notes == nil
	for _, n := range notes {
		note, ok := n.(*memberNote)
		switch {
		case !ok:
		case note.freed != nil:
			give(note.freed)
		case note.left != nil:
			freed.Writes = append(freed.Writes, deletion(note.left)...)
		default:
			unserved = true
		}
	}
	if !unserved || !p.config.GroupClaims || v.GroupPlaced(group.Key) > 0 {
		return freed, nil
	}
	for _, n := range notes {
		note, ok := n.(*memberNote)
		if !ok {
			continue
		}
		at := slices.IndexFunc(note.unavailable, func(c *model.ResourceClaim) bool { return !isReservedForOthers(c, group.UID()) })
		if at >= 0 {
			give(note.unavailable[at])
			freed.Message = groupDeallocated
			return freed, nil
		}
	}
	reserved, err := p.reservedFor(v, group, first)
	if reserved != nil && err == nil {
		freed.Writes = append(freed.Writes, *endReservation(reservationOf(group.Object), reserved))
		freed.Done, freed.Message = true, groupUnreserved
	}
	return freed, err
}

// reservedFor returns the first claim of a group that is allocated and reserved for the
// group, or nil. A missing claim of the group is an error.
func (p *Plugin) reservedFor(v state.View, group *model.PodGroup, member *model.Pod) (*model.ResourceClaim, error) {
	for i := range group.Object.Spec.ResourceClaims {
		name, made, err := resourceclaim.NameFromPodGroup(group.Object, &group.Object.Spec.ResourceClaims[i])
		if err != nil {
			return nil, err
		}
		if name == nil {
			continue
		}
		key := model.ClaimKey{Namespace: group.Key.Namespace, Name: *name}
		claim := v.Devices().Claim(key)
		switch {
		case claim == nil:
			return nil, fmt.Errorf("could not find ResourceClaim %q", key)
		case made && resourceclaim.IsForPodGroup(group.Object, claim.Object) != nil:
		case v.Devices().IsGivenBack(key):
		case claim.Allocation() != nil && p.isReservedFor(member, claim.Object):
			return claim, nil
		}
	}
	return nil, nil
}

// endReservation removes the reservation of a claim for a PodGroup. The API server
// rejects it if the claim has changed. Otherwise a delayed request could end a
// reservation that a later turn relies on.
func endReservation(consumer resourcev1.ResourceClaimConsumerReference, claim *model.ResourceClaim) *plan.Write {
	write := unreserve(consumer, claim)
	write.Data = encode(withoutReservation(consumer, objectMeta{UID: claim.Object.UID, ResourceVersion: claim.Version()}))
	write.GivesBack = claim
	write.Stored = func(stored metav1.Object) bool {
		now, ok := stored.(*resourcev1.ResourceClaim)
		return ok && now.UID == claim.Object.UID &&
			!slices.ContainsFunc(now.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == consumer.UID })
	}
	return write
}

// reservationOf returns the entry that reserves a claim for a PodGroup.
func reservationOf(group *schedulingv1beta1.PodGroup) resourcev1.ResourceClaimConsumerReference {
	return resourcev1.ResourceClaimConsumerReference{APIGroup: schedulingv1beta1.GroupName, Resource: "podgroups", Name: group.Name, UID: group.UID}
}
