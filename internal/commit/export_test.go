package commit

// Remembered returns the number of entries that the outbox keeps in memory.
func (c *Commit) Remembered() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.outbox.Remembered()
}
