package engine

import (
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/price"
)

// What the work of decisions costs, in units of about a nanosecond: measured by
// BenchmarkUnits, which prints units beside time.
const (
	// decisionUnits is what a decision costs beside the nodes that it looks at.
	decisionUnits = 2500
	// askedUnits is what a call of a plugin about a node costs, needBytes how many bytes
	// of the pod's need add one unit to that: what a call reads of a need grows with its
	// text.
	askedUnits, needBytes = 30, 2
	// visitedUnits is what a scan costs by slot, groupedUnits what a ranking does by
	// group.
	visitedUnits, groupedUnits = 6, 60
	// lookedUnits, ratedUnits and triedUnits are what a search for victims costs by node:
	// to look at it, to rate it by numbers, and to try which pods to evict there.
	lookedUnits, ratedUnits, triedUnits = 20, 150, 4000
)

// asked adds to a plugin's counter that it was called for so many nodes.
func (e *Engine) asked(plugin int32, nodes int) {
	e.work.Asked += int64(nodes)
	e.byPlugin[plugin] += int64(nodes)
	e.meter.Spend(price.Nodes, askedUnits*int64(nodes))
}

// askedFor is asked for a pod's need, whose size counts.
func (e *Engine) askedFor(need model.Need, plugin int32, nodes int) {
	if nodes == 0 {
		return
	}
	e.asked(plugin, nodes)
	e.meter.Spend(price.Nodes, int64(len(need.String()))/needBytes*int64(nodes))
}

// visited counts slots that a scan visits, or that are visited to make a ranking or to
// bring one up to date.
func (e *Engine) visited(slots int) {
	e.work.Visited += int64(slots)
	e.meter.Spend(price.Nodes, visitedUnits*int64(slots))
}
