package state

import (
	"iter"
	"slices"
)

// Restriction limits the candidate nodes of a view, for example to the nodes of a domain
// placement. The other nodes remain in the view: their pods count, and values shared by
// all nodes do not change. A Restriction never changes. It is valid until the state
// changes a node.
type Restriction struct {
	slots []int32 // ascending
}

// RestrictTo returns the restriction to the nodes in these slots, which are ascending and
// must not be changed afterwards.
func RestrictTo(slots []int32) *Restriction { return &Restriction{slots} }

// Slots returns the slots of the nodes, ascending. They must not be changed.
func (r *Restriction) Slots() []int32 { return r.slots }

// Has reports whether a node is a candidate. A nil restriction has every node.
func (r *Restriction) Has(slot int32) bool {
	if r == nil {
		return true
	}
	_, found := slices.BinarySearch(r.slots, slot)
	return found
}

// Restricted returns the view with the given restriction instead of its own; nil removes
// it.
func (v View) Restricted(to *Restriction) View {
	v.r = to
	return v
}

// Restriction returns the view's restriction, nil if it has none.
func (v View) Restriction() *Restriction { return v.r }

// ToChooseAmong returns the number of candidate nodes.
func (v View) ToChooseAmong() int {
	if v.r == nil {
		return v.s.nodes
	}
	return len(v.r.slots)
}

// EachToChooseAmong returns the slots of the nodes of a restriction, which may be nil,
// ascending.
func (v View) EachToChooseAmong(r *Restriction) iter.Seq[int32] {
	if r != nil {
		return slices.Values(r.slots)
	}
	return func(yield func(int32) bool) {
		for slot, alive := range v.s.alive {
			if alive && !yield(int32(slot)) {
				return
			}
		}
	}
}
