// Package gangscheduling keeps gangs from being tried before they have enough members.
//
// It takes a PodGroup and how many members it has; it gives the reason why the group must wait. It owns nothing. It never looks at a node, and never places
// members: the loop does, all or nothing.
package gangscheduling

import (
	"fmt"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Name is the plugin's name in the configuration.
const Name = "GangScheduling"

// Plugin holds back gangs that are too small.
type Plugin struct{}

// New returns the plugin.
func New() *Plugin { return &Plugin{} }

// Name returns "GangScheduling".
func (*Plugin) Name() string { return Name }

// PreEnqueueGroup holds back a gang with fewer members than its minCount, with and without a node.
func (*Plugin) PreEnqueueGroup(group *model.PodGroup, all int) string {
	if group.IsGang && all < group.MinCount {
		return "waiting for minCount pods from a gang to appear in scheduling queue"
	}
	return ""
}

// PreEnqueueTree holds back the groups below a composite one while fewer than its minGroupCount of those directly below it are ready: groups with as many members as
// they need, and composite ones of which the same is true.
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

// Permit makes nobody wait. kube-scheduler's plugin does, until minCount members are assumed; here they are assumed in one step, before the first is bound.
func (*Plugin) Permit(state.View, *plan.Placement) ([]plan.Step, error) { return nil, nil }
