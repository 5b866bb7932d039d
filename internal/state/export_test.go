package state

// Members returns the number of nodes by domain whose pods are counted there. A domain without members is not there for the tally.
func (t *Tally) Members() []int32 { return t.members }
