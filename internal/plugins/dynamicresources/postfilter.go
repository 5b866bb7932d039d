package dynamicresources

import (
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// errNotFound is the error of kube-scheduler's plugin that does not find what it writes down at PreFilter.
var errNotFound = errors.New("not found")

// PostFilter gives back one allocation that cannot be used on a node where all else fits, unless another pod has it reserved. It fails if another plugin
// rejected the pod at PreFilter before this one would have run; kube-scheduler then says only "not found", no plugin behind it runs, and the pod keeps its
// nomination.
func (p *Plugin) PostFilter(c plugin.Cycle, pod *model.Pod) (plugin.PostFilterResult, error) {
	if !c.PreFiltered(Name) {
		return plugin.PostFilterResult{}, errNotFound
	}
	if pod.Devices == nil {
		return plugin.PostFilterResult{}, nil
	}
	d, err := p.demandsOf(c.View(), pod)
	if d == nil || err != nil || len(d.given) == 0 {
		return plugin.PostFilterResult{}, nil
	}
	for i, claim := range d.given {
		if isReservedForOthers(claim, pod) || !p.isInTheWay(c, claim, d.broken[i]) {
			continue
		}
		return plugin.PostFilterResult{
			Message: "deallocation of ResourceClaim completed", Writes: []plan.Write{*deallocate(claim)},
		}, nil
	}
	return plugin.PostFilterResult{}, nil
}

func isReservedForOthers(claim *model.ResourceClaim, pod *model.Pod) bool {
	for i := range claim.Object.Status.ReservedFor {
		if claim.Object.Status.ReservedFor[i].UID != pod.UID {
			return true
		}
	}
	return false
}

// isInTheWay reports whether the filter rejected a node because the claim's allocation cannot be used there.
func (p *Plugin) isInTheWay(c plugin.Cycle, claim *model.ResourceClaim, broken bool) bool {
	selector, err := selectorOf(claim.Allocation())
	if err != nil {
		return false
	}
	v := c.View()
	for slot, alive := range v.State().Alive() {
		if !alive || !broken && (selector == nil || selector.Match(v.Node(int32(slot)).Object())) {
			continue
		}
		if r := c.Rejected(int32(slot)); r.Plugin == Name && len(r.Reasons) == 1 && r.Reasons[0] == texts[unavailable] {
			return true
		}
	}
	return false
}

// deallocate writes that a claim has no allocation. It is refused if the claim has changed meanwhile.
func deallocate(claim *model.ResourceClaim) *plan.Write {
	patch := []operation{
		{"test", "/metadata/uid", claim.Object.UID},
		{"test", "/metadata/resourceVersion", claim.Object.ResourceVersion},
		{"add", "/status", map[string]any{}},
	}
	return claimWrite(claim, "status", types.JSONPatchType, patch)
}
