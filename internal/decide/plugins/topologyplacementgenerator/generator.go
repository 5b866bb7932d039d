// Package topologyplacementgenerator divides the nodes by the topology key of a pod group
// whose members must share a domain.
//
// It takes a PodGroup, or a composite group with the groups below it, and the labels of
// nodes. It returns a domain placement for each value of the key, or only for the value
// that placed members have. It owns nothing. It never checks whether a node has space.
package topologyplacementgenerator

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Name is the plugin's name in the configuration.
const Name = "TopologyPlacementGenerator"

// Plugin divides the nodes by a label.
type Plugin struct{}

// New returns the plugin.
func New() *Plugin { return &Plugin{} }

// Name returns "TopologyPlacementGenerator".
func (*Plugin) Name() string { return Name }

// Parts returns the plugin's parts at the extension points.
func (p *Plugin) Parts() *plugin.Parts {
	return plugin.New(plugin.Parts{
		Name:              Name,
		PlacementGenerate: &plugin.PlacementGenerate{Run: p.GeneratePlacements},
	})
}

// GeneratePlacements returns a domain placement for each value of the group's topology
// key, named after the value. A group without a key gets one placement with all nodes.
//
// Nodes without the label and nodes outside the restriction are in no placement. If
// members are already placed, only their domain is returned. Placed members in different
// domains are an error.
func (*Plugin) GeneratePlacements(v state.View, tree *model.GroupTree, within *state.Restriction) ([]plugin.DomainPlacement, error) {
	key := tree.TopologyKey()
	if key == "" {
		return []plugin.DomainPlacement{{Nodes: within}}, nil
	}
	domains := v.Domains(state.TopologyKey{Label: key})
	only, err := domainOfMembers(v, tree, domains)
	if err != nil {
		return nil, fmt.Errorf("cannot determine domain for already scheduled pods: %w", err)
	}
	slots := slotsByDomain(domains, only, within)
	placements := make([]plugin.DomainPlacement, 0, len(slots))
	for _, of := range slots {
		if len(of) > 0 {
			placements = append(placements, plugin.DomainPlacement{Name: valueOn(v, of[0], key), Nodes: state.RestrictTo(of)})
		}
	}
	slices.SortFunc(placements, func(a, b plugin.DomainPlacement) int { return cmp.Compare(a.Name, b.Name) })
	return placements, nil
}

// anyDomain is the domain if no member is placed.
const anyDomain int32 = -1

// domainOfMembers returns the domain of the placed members, or anyDomain if none is
// placed.
func domainOfMembers(v state.View, tree *model.GroupTree, domains []int32) (domain int32, err error) {
	members := slices.SortedFunc(v.TreeMembers(tree), func(a, b *model.Pod) int { return cmp.Compare(a.Name, b.Name) })
	domain = anyDomain
	var values []string
	for _, pod := range members {
		slot, ok := v.Slot(pod.NodeName)
		if !ok {
			return 0, fmt.Errorf("getting node for pod %s: nodeinfo not found for node name %q", pod, pod.NodeName)
		}
		if domain = domains[slot]; domain < 0 {
			return 0, fmt.Errorf("no topology domain found for pod %s", pod)
		}
		values = append(values, valueOn(v, slot, tree.TopologyKey()))
	}
	slices.Sort(values)
	if values = slices.Compact(values); len(values) > 1 {
		return 0, fmt.Errorf("more than 1 domain found for pod group: %s, %s", values[0], values[1])
	}
	return domain, nil
}

// slotsByDomain returns the slots of each domain within the restriction, ascending. If
// only is a domain, the other domains are left out.
func slotsByDomain(domains []int32, only int32, within *state.Restriction) [][]int32 {
	wanted := func(domain int32) bool { return domain >= 0 && (only == anyDomain || domain == only) }
	each := slices.All(domains)
	if within != nil {
		each = func(yield func(int, int32) bool) {
			for _, slot := range within.Slots() {
				if !yield(int(slot), domains[slot]) {
					return
				}
			}
		}
	}
	var sizes []int
	all := 0
	for _, domain := range each {
		if !wanted(domain) {
			continue
		}
		if missing := int(domain) + 1 - len(sizes); missing > 0 {
			sizes = append(sizes, make([]int, missing)...)
		}
		sizes[domain]++
		all++
	}
	memory := make([]int32, all)
	slots := make([][]int32, len(sizes))
	for domain, size := range sizes {
		slots[domain], memory = memory[:0:size], memory[size:]
	}
	for slot, domain := range each {
		if wanted(domain) {
			slots[domain] = append(slots[domain], int32(slot))
		}
	}
	return slots
}

func valueOn(v state.View, slot int32, key string) string { return v.Node(slot).Object().Labels[key] }
