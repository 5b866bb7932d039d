package state

import "github.com/berth-scheduler/berth/internal/price"

// Meter counts the work that is done on this state for decisions.
func (s *State) Meter() *price.Meter { return &s.meter }

// Meter is that of the underlying state. Plugins spend there what they do for a pod, and
// stop once it is over budget.
func (v View) Meter() *price.Meter { return &v.s.meter }
