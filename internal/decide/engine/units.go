package engine

import (
	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/model"
)

// The prices of steps of a decision, in units of about a nanosecond. BenchmarkUnits
// prints units beside time.
const (
	// decisionUnits is the price of a decision, in addition to its work on nodes.
	decisionUnits = 2500
	// askedUnits is the price of a plugin call for one node. needBytes bytes of the
	// need add one unit to each call, because a call reads more of a longer need.
	askedUnits, needBytes = 30, 2
	// visitedUnits is the price of a slot that a scan or a ranking visits. groupedUnits
	// is the price of a group in a ranking.
	visitedUnits, groupedUnits = 6, 60
	// amountUnits is the price of a node whose amounts are compared with a request, or
	// scored by one plugin. putUnits is the average price to put a node into an index, or
	// to take it out.
	amountUnits, putUnits = 10, 300
	// The prices of a node in a search for victims: lookedUnits for looking at it,
	// ratedUnits for computing its lower bound, triedUnits for trying which pods to
	// evict there.
	lookedUnits, ratedUnits, triedUnits = 20, 150, 4000
	// addedUnits is the price of each pod that Capacity adds to a node, in addition to
	// plugin calls.
	addedUnits = 80
	// listedUnits is the price of each reason in a rejection beyond fewReasons: counting,
	// sorting and writing it. A pod has a reason for each scalar resource that it lacks.
	listedUnits, fewReasons = 1000, 32
)

// listed records the reasons of a rejection.
func (e *Engine) listed(reasons int) {
	e.meter.Spend(price.Nodes, listedUnits*int64(max(reasons-fewReasons, 0)))
}

// added records pods that Capacity added to nodes, after looking at the cluster once.
func (e *Engine) added(pods int) {
	e.meter.Spend(price.Nodes, decisionUnits+addedUnits*int64(pods))
}

// asked records calls of a plugin for a number of nodes.
func (e *Engine) asked(plugin int32, nodes int) {
	e.work.Asked += int64(nodes)
	e.byPlugin[plugin] += int64(nodes)
	e.meter.Spend(price.Nodes, askedUnits*int64(nodes))
}

// askedFor records calls of a plugin for a need, whose size adds to the price.
func (e *Engine) askedFor(need model.Need, plugin int32, nodes int) {
	if nodes == 0 {
		return
	}
	e.asked(plugin, nodes)
	e.meter.Spend(price.Nodes, int64(len(need.String()))/needBytes*int64(nodes))
}

// visited records slots visited by a scan, or to build or update a ranking.
func (e *Engine) visited(slots int) {
	e.work.Visited += int64(slots)
	e.meter.Spend(price.Nodes, visitedUnits*int64(slots))
}
