package dynamicresources

import (
	"errors"
	"strconv"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// errNotFound is kube-scheduler's error if the plugin's PreFilter state is missing.
var errNotFound = errors.New("not found")

// PostFilter releases one allocation that is unusable on an otherwise feasible node and
// is not reserved for another pod. If none is found, it deletes a claim that an earlier
// turn created for the pod's extended resources.
//
// If another plugin rejected the pod at PreFilter before this one ran, PostFilter fails,
// as in kube-scheduler: the error is "not found", no later plugin runs, and the pod keeps
// its nomination.
func (p *Plugin) PostFilter(c plugin.Cycle, pod *model.Pod) (plugin.PostFilterResult, error) {
	if !c.PreFiltered(Name) {
		return plugin.PostFilterResult{}, errNotFound
	}
	d, err := p.demandsOf(c.View(), pod)
	if d == nil || err != nil || c.View().AwaitsWrite(pod) {
		return plugin.PostFilterResult{}, nil
	}
	rejections := unavailableNodes{cycle: c}
	for i, claim := range d.given {
		if isReservedForOthers(claim, pod.UID) || !rejections.because(claim, d.broken[i]) {
			continue
		}
		return plugin.PostFilterResult{
			Message: "deallocation of ResourceClaim completed", Writes: []plan.Write{*deallocate(claim)},
		}, nil
	}
	if claim := p.leftFor(c.View(), pod, d); claim != nil {
		return plugin.PostFilterResult{Message: "deletion of ResourceClaim completed", Writes: deletion(claim)}, nil
	}
	return plugin.PostFilterResult{}, nil
}

// leftFor returns a claim from an earlier turn for the pod's extended resources, or nil.
// If PreFilter rejects the pod, kube-scheduler does not find this claim either.
func (p *Plugin) leftFor(v state.View, pod *model.Pod, d *demands) *model.ResourceClaim {
	if d.extended == nil || d.extended.left == nil {
		return nil
	}
	if before := p.PreFilter(v, pod); !before.IsZero() {
		return nil
	}
	return d.extended.left
}

// deletion returns the writes that delete a claim created for a pod.
func deletion(claim *model.ResourceClaim) []plan.Write {
	writes := []plan.Write{*removeFinalizer(claim), *deleteClaim(claim, claim.Object.UID)}
	for i := range writes {
		writes[i].GivesBack = claim
	}
	return writes
}

// LooksAtOwn reports whether a claim of the pod has an allocation, or an earlier turn
// created a claim for it.
func (p *Plugin) LooksAtOwn(v state.View, pod *model.Pod) bool {
	claims, _ := p.claimsOf(v.Devices(), pod)
	return len(unallocated(claims)) < len(claims) || v.Devices().MadeFor(pod.UID) != nil
}

// isReservedForOthers reports whether a claim is reserved for a consumer with another
// UID.
func isReservedForOthers(claim *model.ResourceClaim, uid types.UID) bool {
	for i := range claim.Object.Status.ReservedFor {
		if claim.Object.Status.ReservedFor[i].UID != uid {
			return true
		}
	}
	return false
}

// unavailableNodes are the nodes that the filter rejected because an allocation is
// unusable there. Each node is looked up once for all claims. Allocations with the same
// usable nodes are judged once.
type unavailableNodes struct {
	cycle plugin.Cycle
	known map[int32]bool
	// judged caches results by the usable nodes of an allocation and by whether the
	// allocation is broken.
	judged map[string]bool
}

// because reports whether this claim's allocation is unusable on such a node.
func (u *unavailableNodes) because(claim *model.ResourceClaim, broken bool) bool {
	selector, err := selectorOf(claim.Allocation())
	if err != nil || selector == nil && !broken {
		return false
	}
	key := strconv.FormatBool(broken) + nodesText(claim.Allocation())
	is, known := u.judged[key]
	if !known {
		if u.judged == nil {
			u.judged = map[string]bool{}
		}
		is = u.anyOutside(selector, broken)
		u.judged[key] = is
	}
	return is
}

// anyOutside reports whether any unavailable node does not match the selector. A broken
// allocation matches no node.
func (u *unavailableNodes) anyOutside(selector *nodeaffinity.NodeSelector, broken bool) bool {
	v := u.cycle.View()
	for slot, alive := range v.State().Alive() {
		if alive && (broken || !selector.Match(v.Node(int32(slot)).Object())) && u.has(int32(slot)) {
			return true
		}
	}
	return false
}

func (u *unavailableNodes) has(slot int32) bool {
	is, known := u.known[slot]
	if !known {
		r := u.cycle.Rejected(slot)
		is = r.Plugin == Name && len(r.Reasons) == 1 && r.Reasons[0] == texts[unavailable]
		if u.known == nil {
			u.known = map[int32]bool{}
		}
		u.known[slot] = is
	}
	return is
}

// deallocate removes the allocation of a claim. The API server rejects it if the claim
// has changed.
func deallocate(claim *model.ResourceClaim) *plan.Write {
	patch := []operation{
		{"test", "/metadata/uid", claim.Object.UID},
		{"test", "/metadata/resourceVersion", claim.Object.ResourceVersion},
		{"add", "/status", map[string]any{}},
	}
	write := claimWrite(claim, "status", types.JSONPatchType, patch)
	write.GivesBack = claim
	write.Stored = func(stored metav1.Object) bool {
		now, ok := stored.(*resourcev1.ResourceClaim)
		return ok && now.UID == claim.Object.UID && now.Status.Allocation == nil
	}
	return write
}
