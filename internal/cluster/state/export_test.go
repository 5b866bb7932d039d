package state

// Members returns the number of counted nodes by domain. A domain without members does
// not exist for the tally.
func (t *Tally) Members() []int32 { return t.nodes.members }

// Each calls yield with each domain that has carriers of the term, and their number.
func (t *TermCounts) Each(yield func(domain, pods int32)) { t.counts.each(yield) }

// SelectionsAsked returns how often a set was checked against a new label set.
func (s *State) SelectionsAsked() int64 { return s.tallies.asked }
