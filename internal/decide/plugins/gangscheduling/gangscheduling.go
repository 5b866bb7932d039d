// Package gangscheduling gates gangs until they have enough members.
//
// It takes a PodGroup and its number of members, and returns why the group must wait. It
// owns nothing. It never looks at a node and never places members: the loop places all or
// none.
package gangscheduling

import (
	"fmt"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Name is the plugin's name in the configuration.
const Name = "GangScheduling"

// Plugin gates gangs that are too small.
type Plugin struct{}

// New returns the plugin.
func New() *Plugin { return &Plugin{} }

// Name returns "GangScheduling".
func (*Plugin) Name() string { return Name }

// Parts returns the plugin's parts at the extension points.
func (p *Plugin) Parts() *plugin.Parts {
	return plugin.New(plugin.Parts{
		Name:       Name,
		PreEnqueue: &plugin.PreEnqueue{Group: p.PreEnqueueGroup, Tree: p.PreEnqueueTree},
		Permit:     &plugin.Permit{Steps: p.Permit},
	})
}

// PreEnqueueGroup gates a gang with fewer than minCount members, placed or not.
func (*Plugin) PreEnqueueGroup(group *model.PodGroup, all int) string {
	if group.IsGang && all < group.MinCount {
		return "waiting for minCount pods from a gang to appear in scheduling queue"
	}
	return ""
}

// PreEnqueueTree gates the groups below a composite group until minGroupCount of its
// children are ready. A group is ready with minCount members, a composite group with
// minGroupCount ready children.
func (*Plugin) PreEnqueueTree(tree *model.GroupTree, all func(model.GroupKey) int) string {
	if isReady(tree, all) {
		return ""
	}
	return fmt.Sprintf("waiting for composite pod group %q tree to meet quorum", tree.Key().Name)
}

func isReady(tree *model.GroupTree, all func(model.GroupKey) int) bool {
	if tree.Group != nil {
		return all(tree.Group.Key) >= tree.Group.MinCount
	}
	ready := 0
	for _, below := range tree.Below {
		if isReady(below, all) {
			ready++
		}
	}
	return ready >= tree.Composite.MinGroupCount
}

// Permit returns no steps. In kube-scheduler the plugin waits here until minCount members
// are assumed. Berth assumes them in one step, before the first is bound.
func (*Plugin) Permit(state.View, *plan.Placement) ([]plan.Step, error) { return nil, nil }
