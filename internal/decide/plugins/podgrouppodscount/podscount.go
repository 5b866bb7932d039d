// Package podgrouppodscount prefers the domain placements that hold most members of a pod
// group.
//
// It takes proposals and returns a score for each: its number of placed members, in
// percent of the best proposal's. It owns nothing. It never looks at a node.
package podgrouppodscount

import (
	"errors"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Name is the plugin's name in the configuration.
const Name = "PodGroupPodsCount"

// Plugin counts members.
type Plugin struct{}

// New returns the plugin.
func New() *Plugin { return &Plugin{} }

// Name returns "PodGroupPodsCount".
func (*Plugin) Name() string { return Name }

// Parts returns the plugin's parts at the extension points.
func (p *Plugin) Parts() *plugin.Parts {
	return plugin.New(plugin.Parts{
		Name:           Name,
		PlacementScore: &plugin.PlacementScore{Run: p.ScorePlacements},
	})
}

// ScorePlacements scores proposals by their number of placed members. Members that
// already have a node count too.
func (*Plugin) ScorePlacements(v state.View, tree *model.GroupTree, proposals []plugin.Proposal, scores []int64) error {
	before, most := v.TreePlaced(tree), int64(0)
	for i := range proposals {
		scores[i] = int64(before + len(proposals[i].Members))
		most = max(most, scores[i])
	}
	if most == 0 {
		return errors.New("no pods from pod group are assigned to any of the candidate placements")
	}
	for i := range scores {
		scores[i] = scores[i] * plugin.MaxScore / most
	}
	return nil
}
