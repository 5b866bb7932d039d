package oracle

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// DryRun is a node as Filter sees it, but PreFilter does not, while preemption tries victims and while nominated pods are taken to be where they
// are nominated.
type DryRun struct {
	Node    string
	Removed []*v1.Pod // pods of the cluster that are on the node
	Added   []*v1.Pod // pods that are not
}

// JudgeDryRun gives the plugins that reject the node of a dry run, in filter order. The error is that of a PreFilter.
//
// Plugins that count in PreFilter are told of each change and adjust their counts. For PodTopologySpread that is not the same as counting
// again, and an InterPodAffinity that has nothing to check before the dry run checks nothing in it.
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
			return check(n), nil
		}
	}
	return nil, nil
}

// filtered are the nodes as Filter sees them: with the dry run's changes.
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
