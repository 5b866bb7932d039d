package plugin

import (
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/state"
)

// Placements are the plugins by which a profile finds the nodes that the members of a pod group may share.
type Placements struct {
	// Generate divides the nodes; nil means that there is one domain placement, of all nodes.
	Generate PlacementGenerate
	// Scores rate domain placements of which several have room, in this order.
	Scores []WeightedPlacement
}

// WeightedPlacement is a PlacementScore plugin with its weight in the profile.
type WeightedPlacement struct {
	PlacementScore
	Weight int64
}

// DomainPlacement is nodes among which the members of a pod group may be placed together: kube-scheduler's Placement. A plan.Placement is one pod's.
type DomainPlacement struct {
	// Name tells those of one group apart.
	Name string
	// Nodes are the nodes to choose among; nil means all.
	Nodes *state.Restriction
}

// PlacementGenerate divides the nodes among which the members of a pod group may be placed. A profile has one at most.
type PlacementGenerate interface {
	Plugin
	// GeneratePlacements returns the domain placements of a group, or of all groups below a composite one, ordered by name; none if no node will do. The nodes are to be
	// among those of a restriction, nil for all: a group below another is placed within what was chosen for that. An error fails the group's turn.
	GeneratePlacements(v state.View, tree *model.GroupTree, within *state.Restriction) ([]DomainPlacement, error)
}

// Proposal is a domain placement that has room for enough members of a group.
type Proposal struct {
	DomainPlacement
	// Members are the pods that would come to these nodes, in the order in which they were placed. There is at least one.
	Members []*model.Pod
}

// PlacementScore rates the proposals for a pod group.
type PlacementScore interface {
	Plugin
	// ScorePlacements writes the score, 0 to MaxScore, of each proposal, by position. There are at least two. In the view their members are on no node. An error
	// fails the group's turn.
	ScorePlacements(v state.View, tree *model.GroupTree, proposals []Proposal, scores []int64) error
}
