package attribution

// Part returns a cause with a subset of the changes, for Make.
func (c *Cause) Part(has func(i int) bool) *Cause {
	part := &Cause{}
	for i := range c.Changes {
		if has(i) {
			part.Changes, part.units = append(part.Changes, c.Changes[i]), append(part.units, c.units[i])
		}
	}
	return part
}
