package oracle

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// plugin is a scheduler plugin: up to three functions, nil for extension points that it
// does not implement.
type plugin struct {
	name   string
	weight int64 // default score weight

	// preFilter may return the only nodes to consider (nil: all), reject the pod, or fail
	// the cycle.
	preFilter func(*cycle) ([]string, *Rejection, error)
	// filter prepares its counts over all nodes, and returns a function that filters a
	// node. That function returns nil if the node passes; the caller sets the plugin's
	// name. An error fails the cycle.
	filter func(*cycle) func(node) (*Rejection, error)
	// score scores all feasible nodes at once, in the order of cycle.feasible, because
	// normalising needs them all.
	score func(*cycle) (scores, error)
}

// scores are parallel to cycle.feasible. The zero value is PreScore's Skip: the plugin
// adds nothing.
type scores struct {
	raw        []int64
	normalised []int64
}

// plugins is in the default filter order, which for scorers is also the order of the
// scores. Package config has the names, order and weights too. The oracle repeats them on
// purpose, so that property tests can compare the two.
var plugins = []plugin{
	{name: "NodeName", preFilter: nodeNamePreFilter, filter: alone(nodeNameFilter)},
	{name: "NodeUnschedulable", filter: alone(nodeUnschedulableFilter)},
	{name: "TaintToleration", weight: 3, filter: alone(taintTolerationFilter), score: taintTolerationScore},
	{name: "NodeAffinity", weight: 2, preFilter: nodeAffinityPreFilter, filter: alone(nodeAffinityFilter), score: nodeAffinityScore},
	{name: "NodePorts", filter: alone(nodePortsFilter)},
	{name: "NodeResourcesFit", weight: 1, filter: alone(fitFilter), score: fitScore},
	{name: "VolumeRestrictions", preFilter: volumeRestrictionsPreFilter, filter: unfailing(volumeRestrictionsFilter)},
	{name: "NodeVolumeLimits", filter: volumeLimitsFilter},
	{name: "VolumeBinding", weight: 1, preFilter: volumeBindingPreFilter, filter: volumeBindingFilter, score: volumeBindingScore},
	{name: "VolumeZone", preFilter: volumeZonePreFilter, filter: unfailing(volumeZoneFilter)},
	{name: spreadName, weight: 2, preFilter: spreadPreFilter, filter: unfailing(spreadFilter), score: spreadScore},
	{name: podAffinityName, weight: 2, preFilter: podAffinityPreFilter, filter: unfailing(podAffinityFilter), score: podAffinityScore},
	{name: "NodeDeclaredFeatures", filter: alone(nodeDeclaredFeaturesFilter)},
	{name: "NodeResourcesBalancedAllocation", weight: 1, score: balancedScore},
	{name: "ImageLocality", weight: 1, score: imageLocalityScore},
}

const (
	spreadName      = "PodTopologySpread"
	podAffinityName = "InterPodAffinity"
	preemptionName  = "DefaultPreemption" // not in plugins
	// dynamicResourcesName is a plugin that no pod here needs. It still takes part in
	// PostFilter.
	dynamicResourcesName = "DynamicResources"

	maxScore = 100
)

// alone makes a filter that depends only on the pod and the node.
func alone(judge func(*cycle, node) *Rejection) func(*cycle) func(node) (*Rejection, error) {
	return func(cy *cycle) func(node) (*Rejection, error) {
		return func(n node) (*Rejection, error) { return judge(cy, n), nil }
	}
}

// unfailing makes a filter from a function that never fails.
func unfailing(prepare func(*cycle) func(node) *Rejection) func(*cycle) func(node) (*Rejection, error) {
	return func(cy *cycle) func(node) (*Rejection, error) {
		check := prepare(cy)
		return func(n node) (*Rejection, error) { return check(n), nil }
	}
}

// score fills in the feasible nodes' scores and the best nodes, or the error that ends
// the cycle.
func (cy *cycle) score(a *Judgment) {
	perNode := make([][]Score, len(cy.feasible))
	for _, p := range cy.enabled() {
		if p.score == nil {
			continue
		}
		s, err := p.score(cy)
		if err == nil {
			err = s.check(p.name)
		}
		if err != nil && len(cy.feasible) == 1 {
			continue
		}
		if err != nil {
			a.Err = err
			return
		}
		for i := range s.raw {
			perNode[i] = append(perNode[i], Score{Plugin: p.name, Weight: cy.weight(p), Raw: s.raw[i], Score: s.normalised[i]})
		}
	}
	a.setScores(perNode)
}

func (cy *cycle) weight(p plugin) int64 {
	if w, ok := cy.profile.Weights[p.name]; ok {
		return w
	}
	return p.weight
}

// setScores sets the scores and totals of the feasible nodes, in order, and collects the
// best nodes.
func (a *Judgment) setScores(perNode [][]Score) {
	i := 0
	best := int64(0)
	for k := range a.Nodes {
		n := &a.Nodes[k]
		if !n.Feasible {
			continue
		}
		n.Scores = perNode[i]
		for _, s := range n.Scores {
			n.Total += s.Score * s.Weight
		}
		if i == 0 || n.Total > best {
			best, a.Best = n.Total, nil
		}
		if n.Total == best {
			a.Best = append(a.Best, n.Node)
		}
		i++
	}
}

// check applies the framework's rule that a normalised score lies between 0 and 100.
func (s scores) check(name string) error {
	for _, v := range s.normalised {
		if v < 0 || v > maxScore {
			return fmt.Errorf("applying score defaultWeights on Score plugins: plugin %q returns an invalid score %d, it should in the range of [0, %d] after normalizing", name, v, maxScore)
		}
	}
	return nil
}

// asTheyAre is for plugins without normalisation.
func asTheyAre(raw []int64) scores { return scores{raw: raw, normalised: raw} }

// byLargest is the default normalisation: the largest score becomes 100, or 0 in reverse,
// if a low score is good.
func byLargest(raw []int64, reverse bool) scores {
	var largest int64
	for _, s := range raw {
		largest = max(largest, s)
	}
	normalised := slices.Clone(raw)
	for i, s := range raw {
		if largest > 0 {
			normalised[i] = maxScore * s / largest
			if reverse {
				normalised[i] = maxScore - normalised[i]
			}
		} else if reverse {
			normalised[i] = maxScore
		}
	}
	return scores{raw: raw, normalised: normalised}
}

// nodeNamePreFilter allows a pod with spec.nodeName only on that node.

func nodeNamePreFilter(cy *cycle) ([]string, *Rejection, error) {
	if name := cy.pod.Spec.NodeName; name != "" {
		return []string{name}, nil, nil
	}
	return nil, nil, nil
}

// nodeNameFilter never rejects a node after nodeNamePreFilter has narrowed the nodes. It
// exists because upstream has it.
func nodeNameFilter(cy *cycle, n node) *Rejection {
	if name := cy.pod.Spec.NodeName; name != "" && name != n.Name {
		return &Rejection{Unresolvable: true, Reasons: []string{"node(s) didn't match the requested node name"}}
	}
	return nil
}

// nodeUnschedulableFilter rejects cordoned nodes unless the pod tolerates the
// unschedulable taint, whatever taints the node has.

func nodeUnschedulableFilter(cy *cycle, n node) *Rejection {
	cordon := v1.Taint{Key: "node.kubernetes.io/unschedulable", Effect: v1.TaintEffectNoSchedule}
	if n.Spec.Unschedulable && !tolerated(cy.pod.Spec.Tolerations, cordon) {
		return &Rejection{Unresolvable: true, Reasons: []string{"node(s) were unschedulable"}}
	}
	return nil
}
