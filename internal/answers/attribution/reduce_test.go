package attribution

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// asked returns a reduction of a set function over bit masks, and the number of its
// calls. It ends after most calls.
func asked(enough func(mask uint) bool, most int) (r reduction, questions *int) {
	questions = new(int)
	r.mayGoOn = func() bool { return *questions < most }
	r.enough = func(units []int) bool {
		if len(units) == 0 || !r.mayGoOn() {
			return false
		}
		*questions++
		return enough(maskOf(units))
	}
	return r, questions
}

func maskOf(units []int) (mask uint) {
	for _, u := range units {
		mask |= 1 << u
	}
	return mask
}

// TestReduce reduces sets by many functions, also by functions for which more units can
// be worse. The result suffices, and none of it can be left out. If it is exact, no part
// of it suffices.
func TestReduce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[string]int{}
	for range 3000 {
		n := 1 + r.IntN(11)
		all := uint(1)<<n - 1
		table := make([]bool, all+1)
		switch r.IntN(4) {
		case 0: // any function
			for mask := range table {
				table[mask] = r.IntN(6) == 0
			}
		case 1: // a few sets, and all their supersets
			for range 1 + r.IntN(3) {
				one := 1 + uint(r.IntN(int(all)))
				for mask := range table {
					table[mask] = table[mask] || uint(mask)&one == one
				}
			}
		case 2: // half of the sets that are too large for trying every part
			for mask := range table {
				table[mask] = bits.OnesCount(uint(mask)) > maxSubsets && r.IntN(2) == 0
			}
		default: // nearly all sets of at least a minimal size
			least := 1 + r.IntN(n)
			for mask := range table {
				table[mask] = bits.OnesCount(uint(mask)) >= least && r.IntN(20) > 0
			}
		}
		table[0], table[all] = false, true
		units := r.Perm(n)
		most := 10_000
		if r.IntN(4) == 0 {
			most = r.IntN(60)
		}
		by, questions := asked(func(mask uint) bool { return table[mask] }, most)
		set, minimal, exact := by.reduce(units)
		mask := maskOf(set)
		if !table[mask] || len(set) == 0 || len(set) != bits.OnesCount(mask) {
			t.Fatalf("%v of %v is not enough", set, units)
		}
		if *questions < most && !minimal || exact && !minimal || minimal && exact != (len(set) <= maxSubsets) && *questions < most {
			t.Fatalf("%v: minimal: %t, exact: %t, after %d of %d questions", set, minimal, exact, *questions, most)
		}
		for part := (mask - 1) & mask; part > 0; part = (part - 1) & mask {
			if table[part] && (exact || minimal && bits.OnesCount(part) == len(set)-1) {
				t.Fatalf("of %v, %b is enough; minimal: %t, exact: %t", set, part, minimal, exact)
			}
		}
		seen[map[bool]string{true: "exact"}[exact]]++
		seen[map[bool]string{true: "minimal alone"}[minimal && !exact]]++
		seen[map[bool]string{true: "ended"}[!minimal]]++
	}
	if seen["exact"] == 0 || seen["minimal alone"] == 0 || seen["ended"] == 0 {
		t.Error(seen)
	}
}

// TestNeeded has one unit that suffices alone. No other is needed, wherever it stands.
func TestNeeded(t *testing.T) {
	for at := range 9 {
		by, questions := asked(func(mask uint) bool { return mask&(1<<at) != 0 }, 10_000)
		if set, ok := by.needed([]int{0, 1, 2, 3, 4, 5, 6, 7, 8}); !ok || !slices.Equal(set, []int{at}) || *questions > 6 {
			t.Errorf("of nine, %d is enough: %v after %d questions, ok: %t", at, set, *questions, ok)
		}
	}
}

// TestLeast compares the size of the result with the smallest sufficient part.
func TestLeast(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		n := 1 + r.IntN(maxSubsets)
		all := uint(1)<<n - 1
		table, smallest := make([]bool, all+1), n
		for mask := uint(1); mask < all; mask++ {
			if table[mask] = r.IntN(8) == 0; table[mask] {
				smallest = min(smallest, bits.OnesCount(mask))
			}
		}
		table[all] = true
		by, _ := asked(func(mask uint) bool { return table[mask] }, 10_000)
		if set, ok := by.least(r.Perm(n)); !ok || len(set) != smallest || !table[maskOf(set)] {
			t.Fatalf("%v, ok: %t; the smallest has %d", set, ok, smallest)
		}
	}
}

// TestWithoutSpare uses functions for which more units can be worse. A unit that was
// needed at first may become superfluous after another is removed.
func TestWithoutSpare(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		n := 1 + r.IntN(9)
		all := uint(1)<<n - 1
		table := make([]bool, all+1)
		for mask := uint(1); mask < all; mask++ {
			table[mask] = r.IntN(3) == 0
		}
		table[all] = true
		by, _ := asked(func(mask uint) bool { return table[mask] }, 10_000)
		set, ok := by.withoutSpare(r.Perm(n))
		if !ok || !table[maskOf(set)] || len(set) != bits.OnesCount(maskOf(set)) {
			t.Fatalf("%v, ok: %t", set, ok)
		}
		for _, u := range set {
			if table[maskOf(set)&^(1<<u)] {
				t.Fatalf("of %v, %d is spare", set, u)
			}
		}
	}
}

// TestReduceEnds ends a reduction after each number of calls. The result is no longer
// than the shortest sufficient set found so far.
func TestReduceEnds(t *testing.T) {
	const n = 60
	units := make([]int, n)
	for i := range units {
		units[i] = i
	}
	for most := range 80 {
		questions, shortest := 0, n
		r := reduction{mayGoOn: func() bool { return questions < most }}
		r.enough = func(units []int) bool {
			if len(units) == 0 || questions >= most {
				return false
			}
			questions++
			for _, u := range []int{3, 4, 9, 17, 20, 21, 22, 30, 31} {
				if !slices.Contains(units, u) {
					return false
				}
			}
			shortest = min(shortest, len(units))
			return true
		}
		set, minimal, exact := r.reduce(units)
		if len(set) != shortest || exact || minimal != (questions < most) {
			t.Errorf("after %d of %d questions: %d units, minimal: %t, exact: %t; %d were enough", questions, most, len(set), minimal, exact, shortest)
		}
	}
}

// TestWorkOfReduce finds a few units of many. The number of calls per unit grows with the
// logarithm of all units. Earlier units are preferred.
func TestWorkOfReduce(t *testing.T) {
	const n, k = 1 << 12, 4
	of := []int{5, 700, 1500, 4000}
	questions := 0
	r := reduction{mayGoOn: func() bool { return true }, enough: func(units []int) bool {
		questions++
		found := 0
		for _, u := range of {
			if slices.Contains(units, u) || slices.Contains(units, u+1) { // either of two
				found++
			}
		}
		return found == k
	}}
	units := make([]int, n)
	for i := range units {
		units[i] = i
	}
	set, minimal, exact := r.reduce(units)
	slices.Sort(set)
	if !slices.Equal(set, of) || !minimal || !exact || questions > k*(12+1)+1<<k {
		t.Errorf("%v, minimal: %t, exact: %t, after %d questions", set, minimal, exact, questions)
	}
}
