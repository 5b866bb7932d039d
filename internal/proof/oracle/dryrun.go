package oracle

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// DryRun is the difference between the nodes in PreFilter and in Filter: preemption
// removes victims, and nominated pods are added to their nodes.
type DryRun struct {
	Node    string
	Removed []*v1.Pod // pods of the cluster that are on the node
	Added   []*v1.Pod // pods that are not on the node
}

// JudgeDryRun returns the plugins that reject the node of a dry run, in filter order. The
// error is from a PreFilter or a Filter.
//
// Plugins that count in PreFilter adjust their counts for each change (AddPod,
// RemovePod). For PodTopologySpread and VolumeRestrictions that differs from counting
// again. If the PreFilter of InterPodAffinity or VolumeRestrictions returned Skip, the
// plugin checks nothing in the dry run.
func JudgeDryRun(c Cluster, p *v1.Pod, profile Profile, d DryRun) ([]Rejection, error) {
	cy := newCycle(c, p, profile)
	cy.dryRun = d
	var a Judgment
	check := cy.filter(&a)
	if a.Err != nil {
		return nil, a.Err
	}
	for _, n := range cy.filtered() {
		if n.Name == d.Node {
			return check(n)
		}
	}
	return nil, nil
}

// filtered are the nodes in Filter: with the dry run's changes.
func (cy *cycle) filtered() []node {
	nodes := slices.Clone(cy.nodes)
	for i, n := range nodes {
		if n.Name != cy.dryRun.Node {
			continue
		}
		nodes[i].pods = slices.Clone(cy.dryRun.Added)
		for _, p := range n.pods {
			if !slices.Contains(cy.dryRun.Removed, p) {
				nodes[i].pods = append(nodes[i].pods, p)
			}
		}
	}
	return nodes
}
