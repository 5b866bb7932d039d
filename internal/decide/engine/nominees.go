package engine

import "github.com/berth-scheduler/berth/internal/model"

// Out-of-tree plugins may nominate pods during a turn. As in kube-scheduler, filters that
// run later in the turn leave space for these pods.

// renominate applies the nominations that out-of-tree plugins made in this turn.
func (c *cycle) renominate() {
	if c.profile.External != nil {
		c.renominated = c.view.Renominated(c.profile.External.Nominations())
	}
}

// hasNominated reports whether nodes have nominated pods, or space held for pods.
func (c *cycle) hasNominated() bool { return c.renominated != nil || c.view.Nominated() > 0 }

// nominatedBefore returns a node's nominated pods that the cycle's pod must leave space
// for.
func (c *cycle) nominatedBefore(slot int32) []*model.Pod {
	return c.view.NominatedBeforeWith(c.renominated, c.pod, slot)
}

// eachNominated calls yield with each node that has such pods, in the order of the slots.
func (c *cycle) eachNominated(yield func(slot int32, before []*model.Pod)) {
	c.view.EachNominatedWith(c.renominated, c.pod, yield)
}

// outranked returns the pods nominated to a node that lose their nominations if the
// cycle's pod evicts others there.
func (p *postFilterCycle) outranked(slot int32) []*model.Pod {
	return p.cycle.view.NominatedBelowWith(p.cycle.renominated, p.cycle.pod, slot)
}
