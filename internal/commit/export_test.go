package commit

// Remembered is how many things the outbox keeps in memory.
func (c *Commit) Remembered() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.outbox.Remembered()
}
