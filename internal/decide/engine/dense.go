package engine

import "github.com/berth-scheduler/berth/internal/cluster/state"

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
