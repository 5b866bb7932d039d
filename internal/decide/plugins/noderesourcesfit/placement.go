package noderesourcesfit

import (
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/amount"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// ScorePlacements prefers domain placements that the group's members would fill most,
// whatever the plugin's strategy. The score is the weighted mean of the used shares in
// percent, over all nodes together. Devices that provide a resource do not count.
func (p *Plugin) ScorePlacements(v state.View, _ *model.GroupTree, proposals []plugin.Proposal, scores []int64) error {
	for i := range proposals {
		scores[i] = p.taken(v, &proposals[i])
	}
	return nil
}

// taken scores a proposal from 0 to 100.
func (p *Plugin) taken(v state.View, proposal *plugin.Proposal) int64 {
	sums := make([]sum, 0, len(p.resources))
	for _, r := range p.resources {
		s := sum{resource: model.KeyOf(r.name), weight: r.weight}
		for _, pod := range proposal.Members {
			s.requested = amount.Add(s.requested, s.resource.In(p.requested(pod)))
		}
		// As on one node, a scalar that is not requested does not count.
		if s.requested != 0 || !s.resource.IsScalar() {
			sums = append(sums, s)
		}
	}
	for slot := range v.EachToChooseAmong(proposal.Nodes) {
		node := v.Node(slot)
		for i := range sums {
			sums[i].add(node)
		}
	}
	var shares, weights int64
	for _, s := range sums {
		if s.capacity > 0 {
			weights += s.weight
			shares += amount.Percent(min(s.requested, s.capacity), s.capacity) * s.weight
		}
	}
	return int64(mean(shares, weights))
}

// sum is the capacity and the requests of a resource over several nodes.
type sum struct {
	resource            model.ResourceKey
	weight              int64
	capacity, requested int64
}

func (s *sum) add(node state.Node) {
	own := part{resource: s.resource}
	capacity, used := own.on(node)
	s.capacity = amount.Add(s.capacity, capacity)
	s.requested = amount.Add(s.requested, used)
}
