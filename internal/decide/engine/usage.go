package engine

import (
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// usage says what a cycle's filters read of the pods on a node.
type usage struct {
	known bool
	// only means that they read nothing but what these pods occupy. A node with other pods is then as good as a number, and needs no dry run.
	only bool
	// by are the positions of the filters that read it.
	by []int
}

// usageOf finds out what the cycle's filters read of the pods on a node.
func (e *Engine) usageOf(c *cycle) *usage {
	u := &c.usage
	if u.known {
		return u
	}
	*u = usage{known: true, only: c.extended == nil, by: e.scratch.usage[:0]}
	for i, f := range c.profile.readers {
		reads := model.AllAspects
		if c.profile.counts[i] != nil {
			if c.counting[i] == nil {
				continue
			}
		} else if c.profile.turn[i] != nil {
			if i < len(c.here.verdicts) && c.here.verdicts[i] == nil {
				continue
			}
		} else if c.needs[i].IsZero() {
			continue
		} else if f != nil {
			reads = f.FilterReads()
		}
		if reads&model.Usage != 0 {
			u.by = append(u.by, i)
		}
		u.only = u.only && reads&(model.Ports|model.Volumes) == 0
	}
	e.scratch.usage = u.by
	return u
}

// objectionWith returns the first objection to a node with the pods on it that are given besides. usageOf must have found that only what pods occupy is
// read.
func (e *Engine) objectionWith(c *cycle, verdicts []plugin.Verdicts, slot int32, besides []*model.Pod) objection {
	use := &e.scratch.use
	use.Reset(c.view.Node(slot))
	for _, pod := range besides {
		use.Add(pod, +1)
	}
	f := filters{view: c.view, verdicts: verdicts}
	return e.firstOf(c, &f, c.view.NodeWith(slot, use))
}

// requestOf returns what a filter demands to be free on a node, and the filter's position; nil if none does.
func (c *cycle) requestOf() (request *model.Resources, filter int) {
	for i, verdicts := range c.here.verdicts {
		if r, ok := verdicts.(plugin.Requests); ok {
			return r.Request(), i
		}
	}
	return nil, 0
}
