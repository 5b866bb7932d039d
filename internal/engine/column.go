package engine

import (
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugins/compiled"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

// column is one plugin's answer to one need, for every slot. It is filled when the need is first seen and then catches up
// from the journal, only where a node changed in an aspect that the plugin reads.
type column[T int32 | reason.Code] struct {
	// ask gives the plugin's answer for one node that exists, and depends on the aspects it reads.
	ask     func(state.Node) T
	reads   model.Aspect
	version uint64 // of the journal, up to which values are true
	// values by slot; the zero value where no node is.
	values []T
	// nonZero is how many values are not zero: 0 lets the scan leave the column out.
	nonZero int
	// used is the engine's clock when the column was last asked for.
	used uint64
}

// valueBytes is the size of one value of a column; columnBytes is about what a column takes besides its values, which in a small cluster is
// most of it.
const (
	valueBytes  = 4
	columnBytes = 1 << 10
)

// sync brings the column up to date. It returns how many nodes were asked.
func (c *column[T]) sync(s *state.State) (asked int) {
	entries, ok := s.Since(c.version)
	if !ok || len(c.values) == 0 || len(entries) > s.Slots()/2 && c.concerns(entries) {
		return c.fill(s)
	}
	c.grow(s.Slots())
	alive := s.Alive()
	for _, e := range entries {
		switch {
		case e.Aspects&c.reads == 0:
		case e.Slot < 0:
			return asked + c.fill(s)
		default:
			var value T
			if alive[e.Slot] {
				value = c.ask(s.Node(e.Slot))
				asked++
			}
			c.set(e.Slot, value)
		}
	}
	c.version = s.Version()
	return asked
}

func (c *column[T]) concerns(entries []state.Entry) bool {
	for _, e := range entries {
		if e.Aspects&c.reads != 0 {
			return true
		}
	}
	return false
}

func (c *column[T]) fill(s *state.State) (asked int) {
	c.grow(s.Slots())
	c.nonZero = 0
	alive := s.Alive()
	for slot := range c.values {
		var value T
		if alive[slot] {
			value = c.ask(s.Node(int32(slot)))
			asked++
		}
		if c.values[slot] = value; value != 0 {
			c.nonZero++
		}
	}
	c.version = s.Version()
	return asked
}

func (c *column[T]) grow(slots int) {
	if missing := slots - len(c.values); missing > 0 {
		c.values = append(c.values, make([]T, missing)...)
	}
}

func (c *column[T]) set(slot int32, value T) {
	if c.values[slot] != 0 {
		c.nonZero--
	}
	if c.values[slot] = value; value != 0 {
		c.nonZero++
	}
}

// filterColumn is a column of verdicts.
type filterColumn struct {
	column[reason.Code]
	filter compiled.Filter
}

// scoreColumn is a column of raw scores.
type scoreColumn struct {
	column[int32]
	scorer compiled.Scorer
}

// layers is the compiled need of a filter that has no column.
type layers struct {
	compiled.Layers
	used uint64
}

// set is the compiled need of a scorer that has no column.
type set struct {
	compiled.Set
	used uint64
}

// columnKey names a column: a plugin, by its position among all plugins of all profiles, and a need.
type columnKey struct {
	plugin int32
	need   model.Need
}

// columns is the engine's memory of answers, bounded in bytes; what was not asked for longest goes first.
type columns struct {
	filters  map[columnKey]*filterColumn
	scores   map[columnKey]*scoreColumn
	layers   map[columnKey]*layers
	sets     map[columnKey]*set
	maxBytes int
	clock    uint64
}

func newColumns(maxBytes int) columns {
	return columns{
		filters: map[columnKey]*filterColumn{}, scores: map[columnKey]*scoreColumn{},
		layers: map[columnKey]*layers{}, sets: map[columnKey]*set{}, maxBytes: maxBytes,
	}
}

// compiledKept bounds the compiled needs without a column. They are small, but pods of a StatefulSet each have one of their own.
const compiledKept = 4096

// makeRoomForCompiled evicts the compiled needs that were not used for longest, half of them at once.
func (c *columns) makeRoomForCompiled() {
	if len(c.layers)+len(c.sets) < compiledKept {
		return
	}
	times := make([]uint64, 0, compiledKept)
	for _, l := range c.layers {
		times = append(times, l.used)
	}
	for _, s := range c.sets {
		times = append(times, s.used)
	}
	slices.Sort(times)
	middle := times[len(times)/2]
	maps.DeleteFunc(c.layers, func(_ columnKey, l *layers) bool { return l.used <= middle })
	maps.DeleteFunc(c.sets, func(_ columnKey, s *set) bool { return s.used <= middle })
}

// makeRoom evicts columns until one more fits beside those that the present decision uses.
func (c *columns) makeRoom(slots int, since uint64) {
	limit := max(c.maxBytes/(columnBytes+valueBytes*slots), 1)
	if len(c.filters)+len(c.scores) < limit {
		return
	}
	// Evicting an eighth at once makes the search for the oldest rare enough to be free.
	horizon := c.horizon(limit / 8)
	for key, column := range c.filters {
		if column.used <= horizon && column.used < since {
			delete(c.filters, key)
		}
	}
	for key, column := range c.scores {
		if column.used <= horizon && column.used < since {
			delete(c.scores, key)
		}
	}
}

// horizon returns the time of last use of the n-th oldest column.
func (c *columns) horizon(n int) uint64 {
	times := make([]uint64, 0, len(c.filters)+len(c.scores))
	for _, column := range c.filters {
		times = append(times, column.used)
	}
	for _, column := range c.scores {
		times = append(times, column.used)
	}
	slices.Sort(times)
	return times[min(n, len(times)-1)]
}
