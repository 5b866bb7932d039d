package loop

import "time"

// GoBy makes the loop go by another system's clock.
func (l *Loop) GoBy(system func() time.Time) { l.now = steady(system) }
