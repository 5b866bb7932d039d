package plugin

import (
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
)

// Placements are the plugins that find sets of nodes for the members of a pod group.
type Placements struct {
	// Generate divides the nodes. Nil means a single domain placement with all nodes.
	Generate *PlacementGenerate
	// Scores rate domain placements, in this order, if several have room.
	Scores []WeightedPlacement
}

// WeightedPlacement is a PlacementScore plugin with its weight in the profile.
type WeightedPlacement struct {
	*PlacementScore
	Weight int64
}

// DomainPlacement is a set of nodes that may hold all members of a pod group:
// kube-scheduler's Placement. In contrast, a plan.Placement belongs to one pod.
type DomainPlacement struct {
	// Name is unique among the domain placements of a group.
	Name string
	// Nodes are the allowed nodes. Nil means all.
	Nodes *state.Restriction
}

// PlacementGenerate divides the nodes for the members of a pod group. A profile has at
// most one such plugin.
type PlacementGenerate struct {
	Name string
	// Run returns the domain placements of a group, or of all groups below a composite
	// group, ordered by name. It returns none if no node is suitable.
	//
	// The nodes must be within a restriction; nil means all nodes. The restriction of a
	// group below another group is the domain placement chosen for the upper group. An
	// error fails the group's turn.
	Run func(v state.View, tree *model.GroupTree, within *state.Restriction) ([]DomainPlacement, error)
}

// Proposal is a domain placement that has room for enough members of a group.
type Proposal struct {
	DomainPlacement
	// Members are the pods that would be placed on these nodes, in placement order. At
	// least one exists.
	Members []*model.Pod
}

// PlacementScore rates the proposals for a pod group.
type PlacementScore struct {
	Name string
	// Run writes the score, 0 to MaxScore, of each proposal, by position. It gets at
	// least two proposals. In the view, their members are on no node. An error fails the
	// group's turn.
	Run func(v state.View, tree *model.GroupTree, proposals []Proposal, scores []int64) error
}
