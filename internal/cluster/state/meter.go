package state

import "github.com/berth-scheduler/berth/internal/kit/price"

// Meter counts the work done on this state for decisions.
func (s *State) Meter() *price.Meter { return &s.meter }

// Meter returns the meter of the underlying state. Plugins charge their work for a pod to
// it, and stop once it is over budget.
func (v View) Meter() *price.Meter { return &v.s.meter }
