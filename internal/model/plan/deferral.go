package plan

import "github.com/berth-scheduler/berth/internal/kit/price"

// Deferral is the content of an event: pods of a namespace wait for other pods of the
// same priority, because their own turns are expensive.
type Deferral struct {
	// Units is the cost of the pod's turn in all its rounds. A unit is about a
	// nanosecond.
	Units int64
	// Kind is the most expensive kind of work in the last round.
	Kind price.Kind
}
