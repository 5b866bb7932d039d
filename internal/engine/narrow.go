package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/state"
)

// narrowing is the outcome of asking plugins about the pod alone.
type narrowing struct {
	// by names the plugins that narrowed, sorted; none means that every node is to be looked at.
	by []string
	// slots are the nodes left, ascending, if by is not empty.
	slots []int32
}

// text is what kube-scheduler says of the nodes outside.
func (n *narrowing) text() string {
	return fmt.Sprintf("node(s) didn't satisfy plugin(s) [%s]", strings.Join(n.by, " "))
}

// narrow intersects what the narrowing plugins ask for. Names that no node has are dropped. A non-nil rejection rules out
// every node.
func (p *profile) narrow(s *state.State, pod *model.Pod) (narrowing, *plan.Rejection) {
	var n narrowing
	var names []string
	for _, f := range p.Narrowers {
		some, narrowed, rejection := f.Narrow(pod)
		if rejection != "" {
			return n, &plan.Rejection{PreFilter: rejection, Plugins: []string{f.Name()}}
		}
		if !narrowed {
			continue
		}
		if len(n.by) == 0 {
			names = some
		} else {
			names = intersect(names, some)
		}
		n.by = append(n.by, f.Name())
		if len(names) == 0 {
			slices.Sort(n.by)
			return n, &plan.Rejection{PreFilter: n.emptyText(), Plugins: n.by}
		}
	}
	slices.Sort(n.by)
	for _, name := range names {
		if slot, ok := s.Slot(name); ok {
			n.slots = append(n.slots, slot)
		}
	}
	slices.Sort(n.slots)
	n.slots = slices.Compact(n.slots)
	return n, nil
}

func (n *narrowing) emptyText() string {
	if len(n.by) == 1 {
		return "node(s) didn't satisfy plugin " + n.by[0]
	}
	return n.text() + " simultaneously"
}

func intersect(a, b []string) []string {
	var both []string
	for _, name := range a {
		if slices.Contains(b, name) {
			both = append(both, name)
		}
	}
	return both
}
