package snapshot

// Built returns how many NodeInfos Update has built so far.
func (s *Snapshot) Built() int { return s.built }
