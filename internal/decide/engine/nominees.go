package engine

import "github.com/berth-scheduler/berth/internal/model"

// Plugins from outside may nominate pods during a turn. As in kube-scheduler, the filters that run
// later in the turn leave room for these pods.

// renominate takes over nominations that plugins from outside made in this turn.
func (c *cycle) renominate() {
	if c.profile.Outside != nil {
		c.renominated = c.view.Renominated(c.profile.Outside.Nominations())
	}
}

// hasNominated reports whether pods are nominated to nodes, or have room kept there.
func (c *cycle) hasNominated() bool { return c.renominated != nil || c.view.Nominated() > 0 }

// nominatedBefore returns the pods nominated to a node for which the cycle's pod must leave room.
func (c *cycle) nominatedBefore(slot int32) []*model.Pod {
	return c.view.NominatedBeforeWith(c.renominated, c.pod, slot)
}

// eachNominated calls yield with each node that has such pods, in the order of the slots.
func (c *cycle) eachNominated(yield func(slot int32, before []*model.Pod)) {
	c.view.EachNominatedWith(c.renominated, c.pod, yield)
}
