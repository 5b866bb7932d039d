package plan

import "github.com/berth-scheduler/berth/internal/price"

// Deferral says that pods of a namespace yield to others of the same priority, because
// their turns are expensive.
type Deferral struct {
	// Units is what the pod's turn cost, about in nanoseconds, in all the rounds that it
	// took.
	Units int64
	// Kind is the kind of work that cost most, in the last of them.
	Kind price.Kind
}
