package engine

import (
	"fmt"

	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

// filters are a cycle's filters, ready to be asked about single nodes of a view: that of the cycle, or a dry run of it.
type filters struct {
	view state.View
	// By filter of the profile: who gives the verdicts, nil where every node passes; and the rules of a CountFilter.
	verdicts []plugin.Verdicts
	layered  []layered
}

// layered asks a CountFilter's rules about one node.
type layered struct {
	plugin.Counting
	layers []plugin.Layer
}

// Filter gives the verdict of the first rule that objects.
func (l *layered) Filter(node state.Node) reason.Code {
	for i := range l.layers {
		if code := l.layers[i].Verdict(node.Slot()); code != reason.None {
			return code
		}
	}
	return reason.None
}

// filtersIn readies the cycle's filters for a view. Their memory is reused from others that are not needed any more.
func (e *Engine) filtersIn(c *cycle, v state.View, reuse filters) filters {
	f := filters{view: v, verdicts: reuse.verdicts[:0], layered: reuse.layered}
	if len(f.layered) < len(c.counting) {
		f.layered = make([]layered, len(c.counting))
	}
	for i := range c.counting {
		var verdicts plugin.Verdicts
		if counting := c.counting[i]; counting != nil {
			l := &f.layered[i]
			l.Counting, l.layers = counting, counting.Layers(v, l.layers[:0])
			verdicts = l
		} else if _, counts := c.profile.Filters[i].(plugin.CountFilter); !counts {
			verdicts = e.verdictsOf(c, i)
		}
		f.verdicts = append(f.verdicts, verdicts)
	}
	return f
}

// objection is a filter, by its position in the profile, and its verdict on a node; the code is None where no filter objects.
type objection struct {
	filter int
	code   reason.Code
}

// first returns the first objection to a node, in the order of the filters.
func (e *Engine) first(c *cycle, f *filters, slot int32) objection {
	node := f.view.Node(slot)
	for i, verdicts := range f.verdicts {
		if verdicts == nil {
			continue
		}
		e.asked(c.profile.firstID+int32(i), 1)
		if code := verdicts.Filter(node); code != reason.None {
			return objection{i, code}
		}
	}
	return objection{}
}

// failure returns the error that an objection stands for, nil if it is a verdict.
func (c *cycle) failure(o objection, verdicts plugin.Verdicts) error {
	if !o.code.IsFailed() {
		return nil
	}
	err := fmt.Errorf("verdict %d", o.code)
	if failures, ok := verdicts.(plugin.Failures); ok {
		err = failures.Err(o.code)
	}
	return fmt.Errorf("running %q filter plugin: %w", c.profile.Filters[o.filter].Name(), err)
}
