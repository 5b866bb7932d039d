package absent

import (
	"fmt"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/state"
)

// Composites generates the domain placements of pod groups that have no parent, as the plugin in it does, and fails for groups that have one: they are placed together
// with others of a CompositePodGroup, or not at all.
type Composites struct {
	// Of is the profile's plugin, nil if it has none.
	Of plugin.PlacementGenerate
}

// Name returns the name of the profile's plugin, or of what is missing.
func (c Composites) Name() string {
	if c.Of == nil {
		return "CompositePodGroup"
	}
	return c.Of.Name()
}

// GeneratePlacements returns what the profile's plugin does; without one, all nodes.
func (c Composites) GeneratePlacements(v state.View, group *model.PodGroup) ([]plugin.DomainPlacement, error) {
	if parent := group.Object.Spec.ParentCompositePodGroupName; parent != nil {
		return nil, fmt.Errorf("composite pod groups are not part of this version of Berth: the pod group belongs to composite pod group %q", *parent)
	}
	if c.Of == nil {
		return []plugin.DomainPlacement{{}}, nil
	}
	return c.Of.GeneratePlacements(v, group)
}
