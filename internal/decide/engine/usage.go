package engine

import (
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// usage describes how a cycle's filters read the pods on a node.
type usage struct {
	known bool
	// only means that they read nothing except resource usage. Other pods on a node are
	// then just a sum, and need no dry run.
	only bool
	// by are the positions of the filters that read resource usage.
	by []int
}

// usageOf determines how the cycle's filters read the pods on a node.
func (e *Engine) usageOf(c *cycle) *usage {
	u := &c.usage
	if u.known {
		return u
	}
	*u = usage{known: true, only: c.extended == nil, by: e.scratch.usage[:0]}
	for i, f := range c.profile.Filters {
		reads := model.AllAspects
		if f.Count != nil {
			if c.counting[i] == nil {
				continue
			}
		} else if f.Turn != nil {
			if i < len(c.here.verdicts) && c.here.verdicts[i] == nil {
				continue
			}
		} else if c.needs[i].IsZero() {
			continue
		} else {
			reads = f.Reads.Nodes
		}
		if reads&model.Usage != 0 {
			u.by = append(u.by, i)
		}
		u.only = u.only && reads&(model.Ports|model.Volumes) == 0
	}
	e.scratch.usage = u.by
	return u
}

// objectionWith returns the first objection to a node with the pods in extras added.
// Filters must read only resource usage, see usageOf.
func (e *Engine) objectionWith(c *cycle, verdicts []*plugin.Verdicts, slot int32, extras []*model.Pod) objection {
	use := &e.scratch.use
	use.Reset(c.view.Node(slot))
	for _, pod := range extras {
		use.Add(pod, +1)
	}
	f := filters{view: c.view, verdicts: verdicts}
	return e.firstOf(c, &f, c.view.NodeWith(slot, use))
}

// requestOf returns the resources that a filter needs free on a node, and the filter's
// position; nil if no filter does.
func (c *cycle) requestOf() (request *model.Resources, filter int) {
	for i, verdicts := range c.here.verdicts {
		if verdicts != nil && verdicts.Request != nil {
			return verdicts.Request, i
		}
	}
	return nil, 0
}
