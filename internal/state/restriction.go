package state

import (
	"iter"
	"slices"
)

// Restriction is the only nodes to choose among in a view, as those of a domain placement. All others are in the view all the same: their pods are counted, and what
// is shared by all nodes stays what it is. It never changes, and is valid until the state changes a node.
type Restriction struct {
	slots []int32 // ascending
}

// RestrictTo returns the restriction to the nodes in these slots, which are ascending and must not be changed afterwards.
func RestrictTo(slots []int32) *Restriction { return &Restriction{slots} }

// Slots returns the slots of the nodes, ascending. They must not be changed.
func (r *Restriction) Slots() []int32 { return r.slots }

// Has reports whether a node is one of them. Without a restriction, which is nil, each is.
func (r *Restriction) Has(slot int32) bool {
	if r == nil {
		return true
	}
	_, found := slices.BinarySearch(r.slots, slot)
	return found
}

// Restricted returns the view with a restriction, nil for none, in place of its own.
func (v View) Restricted(to *Restriction) View {
	v.r = to
	return v
}

// Restriction returns the view's restriction, nil if it has none.
func (v View) Restriction() *Restriction { return v.r }

// ToChooseAmong returns how many nodes there are to choose among.
func (v View) ToChooseAmong() int {
	if v.r == nil {
		return v.s.nodes
	}
	return len(v.r.slots)
}

// EachToChooseAmong returns the slots of the nodes of a restriction, which may be nil, ascending.
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
