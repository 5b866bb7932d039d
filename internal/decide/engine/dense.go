package engine

import (
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/model/reason"
)

// filledDense ends a fill from amounts.
func (c *column[T]) filledDense(s *state.State) (asked int) {
	for slot, alive := range s.Alive() {
		if !alive {
			c.values[slot] = 0
		} else if asked++; c.values[slot] != 0 {
			c.nonZero++
		}
	}
	c.version = s.Version()
	return asked
}

// keepBesides returns the slots that pass the filters besides amounts. ok is false if a
// filter fails.
func (e *Engine) keepBesides(c *cycle, s *sight) (slots []int32, ok bool) {
	slots = e.slotsToCheck(c)
	e.visited(len(slots))
	for _, column := range s.filters {
		if column == nil || column.nonZero == 0 {
			continue
		}
		passed, codes := keepFeasible(slots, column.values)
		if codes.IsFailed() {
			return nil, false
		}
		slots = passed
	}
	return slots, true
}

// scanAmounts is the scan for a pod whose requests no pod had before. It fills no column
// of amounts, because most likely no pod would read it again. The other filters come
// first, so amounts are read for the nodes that pass these.
func (e *Engine) scanAmounts(c *cycle, s *sight, a *amountNeeds) (best choice, ok bool) {
	slots, ok := e.keepBesides(c, s)
	if !ok {
		return best, false
	}
	e.countReads(c, len(slots))
	slots = e.keepCounted(c, 0, len(c.counting), slots)
	e.byPlugin[int(c.profile.first)+a.filter] += int64(len(slots))
	e.meter.Spend(price.Nodes, amountUnits*int64(len(slots)))
	e.begin()
	slots = a.query.Demand.Keep(slots, c.view.State().NodeAmounts())
	if a.scalars {
		e.meter.Spend(price.Nodes, askedUnits*int64(len(slots)))
		slots = keepPassing(c, a.filter, slots)
	}
	e.endAt(filterPoint, c.profile, a.filter, Success)
	if e.scratch.slots = slots; len(slots) == 0 {
		return best, true
	}
	best = choice{slot: slots[0], feasible: len(slots)}
	if len(slots) > 1 {
		e.enter(Score)
		e.meter.Spend(price.Nodes, amountUnits*int64(len(slots)*len(a.query.Scores)))
		var err error
		c.amounts = a
		best.slot, best.total, err = e.best(c, slots)
		c.amounts = nil
		ok = err == nil
		return best, ok
	}
	return best, true
}

// keepPassing drops the nodes that a filter rejects, in place.
func keepPassing(c *cycle, filter int, slots []int32) []int32 {
	n := 0
	for _, slot := range slots {
		if c.here.verdicts[filter].Filter(c.view.Node(slot)) == reason.None {
			slots[n] = slot
			n++
		}
	}
	return slots[:n]
}

// chunk is the number of nodes whose amounts are copied at once, so that they stay in the
// fastest cache.
const chunk = 256

// addAmountScores adds the scores of a plugin that reads nothing but amounts.
func (e *Engine) addAmountScores(c *cycle, i int, slots []int32, totals []int64) {
	scores, weight := c.amounts.of[i], c.profile.Scores[i].Weight
	if scores == nil {
		return
	}
	e.byPlugin[int(c.profile.first)+len(c.profile.Filters)+i] += int64(len(slots))
	amounts := c.view.State().NodeAmounts()
	if e.scratch.chunk == nil {
		e.scratch.chunk = make([]state.NodeAmounts, chunk)
	}
	var values [chunk]int32
	for len(slots) > 0 {
		n := min(len(slots), chunk)
		for at, slot := range slots[:n] {
			e.scratch.chunk[at] = amounts[slot]
		}
		scores.ScoreAmounts(e.scratch.chunk[:n], values[:n])
		for at, value := range values[:n] {
			totals[at] += int64(value) * weight
		}
		slots, totals = slots[n:], totals[n:]
	}
}
