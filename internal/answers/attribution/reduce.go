package attribution

import (
	"math/bits"
	"slices"
)

// reduction removes units from a sufficient set until all of the rest are needed. It
// learns about the units only by calling enough.
type reduction struct {
	// enough reports whether units suffice. It returns false for no units, and once
	// mayGoOn is false.
	enough  func(units []int) bool
	mayGoOn func() bool
}

// reduce returns a small subset of units that still suffices to change the answer, given
// units that suffice together. The first units are preferred. The result is minimal if no
// unit can be left out, and exact if no other subset suffices either. Neither is set if
// the search reached its limit before.
func (r reduction) reduce(units []int) (set []int, minimal, exact bool) {
	set, ok := r.needed(units)
	if !ok {
		return set, false, false
	}
	if len(set) <= maxSubsets {
		set, exact = r.least(set)
		return set, exact, exact
	}
	// Try every part if the set has become small.
	if set, minimal = r.withoutSpare(set); minimal && len(set) <= maxSubsets {
		set, exact = r.least(set)
	}
	return set, minimal, exact
}

// needed repeatedly finds the shortest beginning of the units that suffices together with
// the units found before. The last unit of that beginning is needed, since without it the
// beginning does not suffice. The search continues before that unit. If more units never
// hurt, every unit of the result is needed.
func (r reduction) needed(units []int) (set []int, ok bool) {
	for len(units) > 0 && !r.enough(set) {
		too, enough := 0, len(units)
		for enough-too > 1 && r.mayGoOn() {
			if middle := (too + enough) / 2; r.enough(slices.Concat(set, units[:middle])) {
				enough = middle
			} else {
				too = middle
			}
		}
		if !r.mayGoOn() {
			return append(set, units[:enough]...), false
		}
		set, units = append(slices.Clip(set), units[enough-1]), units[:enough-1]
	}
	return set, r.mayGoOn()
}

// withoutSpare leaves out unit after unit while the others suffice. ok is false if the
// limit is reached.
func (r reduction) withoutSpare(set []int) (_ []int, ok bool) {
	for i := 0; i < len(set); i++ {
		if rest := slices.Delete(slices.Clone(set), i, i+1); r.enough(rest) {
			set, i = rest, -1
		}
	}
	return set, r.mayGoOn()
}

// least returns the smallest sufficient subset of a small set. ok is false if the limit
// is reached.
func (r reduction) least(set []int) (_ []int, ok bool) {
	for size := 1; size < len(set); size++ {
		for mask := uint(1); mask < 1<<len(set); mask++ {
			if bits.OnesCount(mask) != size {
				continue
			}
			var part []int
			for i, u := range set {
				if mask&(1<<i) != 0 {
					part = append(part, u)
				}
			}
			if r.enough(part) {
				return part, true
			}
		}
	}
	return set, r.mayGoOn()
}
