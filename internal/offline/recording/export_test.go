package recording

// Kept returns the number of pods that results of writes may be about.
func (p *Replayer) Kept() int { return len(p.pods) }
