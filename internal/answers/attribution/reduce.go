package attribution

import (
	"math/bits"
	"slices"
)

// reduction takes from units that are enough for something all that is not needed. It knows nothing of what they are, and asks.
type reduction struct {
	// enough reports whether units are enough; false, too, once mayGoOn is false. No units are not.
	enough  func(units []int) bool
	mayGoOn func() bool
}

// reduce returns units that are enough, of those that are, preferring the first. It is minimal if none of them can be left out, and exact if no other part of them is enough either. It is neither if it had to end
// before that was known.
func (r reduction) reduce(units []int) (set []int, minimal, exact bool) {
	set, ok := r.needed(units)
	if !ok {
		return set, false, false
	}
	if len(set) <= subsetsMax {
		set, exact = r.least(set)
		return set, exact, exact
	}
	if set, minimal = r.withoutSpare(set); minimal && len(set) <= subsetsMax { // it has become small
		set, exact = r.least(set)
	}
	return set, minimal, exact
}

// needed finds, again and again, the shortest beginning of the units that is enough together with what is needed: its last unit is needed, too, and the search goes on before it. If more units are never less, nothing of
// the result can be left out.
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

// withoutSpare leaves out one unit after another while the others are enough. It is not ok if it had to end.
func (r reduction) withoutSpare(set []int) (_ []int, ok bool) {
	for i := 0; i < len(set); i++ {
		if rest := slices.Delete(slices.Clone(set), i, i+1); r.enough(rest) {
			set, i = rest, -1
		}
	}
	return set, r.mayGoOn()
}

// least returns the smallest part of a small set that is enough. It is not ok if it had to end.
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
