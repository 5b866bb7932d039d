package simulate

// ForgetServer drops everything outside of the scheduler's process: the API server's
// objects, the controllers and the records of the simulation. So the heap holds only the
// scheduler's memory. The cluster must not be used afterwards, except for its loop.
func (c *Cluster) ForgetServer() {
	c.store = newStore(0)
	c.volume, c.claim, c.budget = nil, nil, nil
	c.verdicts, c.placed, c.round, c.agenda = nil, nil, Round{}, agenda{}
}
