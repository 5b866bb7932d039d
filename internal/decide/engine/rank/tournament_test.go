package rank

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// contest is the test's copy of the nodes of a tournament.
type contest struct {
	grades []int
	places map[int32]uint64
	asked  int
}

func (c *contest) compare(a, b int32) int {
	c.asked++
	for _, slot := range []int32{a, b} {
		if _, in := c.places[slot]; !in {
			panic(fmt.Sprint("slot ", slot, " is not in"))
		}
	}
	return cmp.Compare(c.grades[a], c.grades[b])
}

// best is the rule as specified.
func (c *contest) best(salt uint64) int32 {
	best := int32(-1)
	for slot, place := range c.places {
		if best < 0 || cmp.Or(cmp.Compare(c.grades[slot], c.grades[best]), -cmp.Compare(Tie(salt, place), Tie(salt, c.places[best])), cmp.Compare(slot, best)) < 0 {
			best = slot
		}
	}
	return best
}

// TestTournament has nodes come, go, and get better or worse, in random order, and
// compares the best with a list's.
func TestTournament(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		slots, grades := 1+r.IntN(400), 1+r.IntN(6)
		if seed < 10 {
			slots = 1 + r.IntN(4)
		}
		c := &contest{grades: make([]int, slots, 1000), places: map[int32]uint64{}}
		var first []int32
		for slot := range int32(r.IntN(slots + 1)) {
			// some have equal places
			c.places[slot], c.grades[slot] = Mix(uint64(slot-slot%10/9)+seed<<32), r.IntN(grades)
			first = append(first, slot)
		}
		o := NewTournament(slots, first, func(slot int32) uint64 { return c.places[slot] }, c.compare)
		if o.depth > 0 && o.nodes <= full<<(o.depth-step) {
			t.Fatalf("%d nodes are in %d buckets", o.nodes, len(o.first))
		}
		check := func() {
			t.Helper()
			if o.nodes > full<<o.depth || o.depth > 0 && o.nodes < full<<o.depth>>(step+1) || len(o.first) != 1<<o.depth || len(o.best) != 2<<o.depth {
				t.Fatalf("seed %d: %d nodes in %d buckets, with %d nodes of the tree, at depth %d", seed, o.nodes, len(o.first), len(o.best), o.depth)
			}
			for range 3 {
				if salt := r.Uint64(); o.Best(salt) != c.best(salt) || o.nodes != len(c.places) {
					t.Fatalf("seed %d: of %d nodes %d is the best, want %d of %d", seed, o.nodes, o.Best(salt), c.best(salt), len(c.places))
				}
			}
		}
		check()
		for range 2000 {
			slot := r.Int32N(int32(slots))
			switch r.IntN(6) {
			case 0, 1:
				delete(c.places, slot)
				o.Remove(slot)
			case 2:
				// another node in the same slot
				if place := Mix(r.Uint64()); r.IntN(20) == 0 {
					c.put(o, slot, place, r.IntN(grades))
					break
				}
				fallthrough
			default:
				place, in := c.places[slot]
				if !in {
					place = Mix(uint64(slot-slot%10/9) + seed<<32 + uint64(r.IntN(2))<<40)
				}
				c.put(o, slot, place, r.IntN(grades))
			}
			if r.IntN(500) == 0 { // all but a few
				for slot := range int32(slots) {
					if r.IntN(30) > 0 {
						delete(c.places, slot)
						o.Remove(slot)
					}
				}
			}
			if r.IntN(300) == 0 && slots < 900 {
				slots += r.IntN(100)
				c.grades = c.grades[:slots]
				o.Grow(slots)
				o.Grow(1)
			}
			if r.IntN(20) == 0 && len(c.places) > 0 { // many at once
				changed := slices.Sorted(maps.Keys(c.places))
				r.Shuffle(len(changed), func(i, j int) { changed[i], changed[j] = changed[j], changed[i] })
				changed = changed[:1+r.IntN(len(changed))]
				for _, slot := range changed {
					c.grades[slot] = r.IntN(grades)
				}
				for _, slot := range changed {
					o.Put(slot, c.places[slot])
				}
				check()
			}
			if r.IntN(10) == 0 {
				check()
			}
		}
	}
}

// put sets the grade of a slot's node. A replaced node is removed first.
func (c *contest) put(o *Tournament, slot int32, place uint64, grade int) {
	if before, in := c.places[slot]; in && before != place {
		delete(c.places, slot)
		o.Remove(slot)
	}
	c.places[slot], c.grades[slot] = place, grade
	o.Put(slot, place)
}

// TestOtherNodeInSlot: a slot's node can be replaced without being removed before.
func TestOtherNodeInSlot(t *testing.T) {
	c := &contest{grades: make([]int, 64), places: map[int32]uint64{}}
	var all []int32
	for slot := range int32(64) {
		c.places[slot] = Mix(uint64(slot))
		all = append(all, slot)
	}
	o := NewTournament(64, all, func(slot int32) uint64 { return c.places[slot] }, c.compare)
	for slot := range int32(64) {
		c.places[slot] = Mix(uint64(slot) + 1000)
		o.Put(slot, c.places[slot])
		for salt := range uint64(64) {
			if got, want := o.Best(Mix(salt)), c.best(Mix(salt)); got != want {
				t.Fatalf("with %d nodes replaced, %d is the best, want %d", slot+1, got, want)
			}
		}
	}
}

// TestTournamentAtTheSamePlace: among equally good nodes at the same place the lowest
// slot wins, in any order of arrival.
func TestTournamentAtTheSamePlace(t *testing.T) {
	for _, slots := range [][]int32{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}} {
		c := &contest{grades: make([]int, 3), places: map[int32]uint64{}}
		o := NewTournament(3, nil, nil, c.compare)
		for _, slot := range slots {
			c.put(o, slot, 7, 0)
			for salt := range uint64(4) {
				if got, want := o.Best(salt), c.best(salt); got != want {
					t.Errorf("%v up to %d: %d is the best, want %d", slots, slot, got, want)
				}
			}
		}
		if o.depth != step {
			t.Errorf("three nodes are at depth %d", o.depth)
		}
	}
}

// TestTournamentCompares bounds the comparisons of a change and of Best: the logarithm of
// the number of nodes, even if all are equal.
func TestTournamentCompares(t *testing.T) {
	for _, grades := range []int{1, 3, 1 << 30} {
		for _, nodes := range []int{1 << 8, 1 << 12, 1 << 16} {
			r := rand.New(rand.NewPCG(1, uint64(nodes)))
			c := &contest{grades: make([]int, nodes), places: map[int32]uint64{}}
			all := make([]int32, nodes)
			for slot := range all {
				all[slot] = int32(slot)
				c.places[int32(slot)], c.grades[slot] = Mix(uint64(slot)), r.IntN(grades)
			}
			o := NewTournament(nodes, all, func(slot int32) uint64 { return c.places[slot] }, c.compare)
			log := 0
			for 1<<log < nodes {
				log++
			}
			const times = 1000
			c.asked = 0
			for i := range times {
				slot := r.Int32N(int32(nodes))
				c.grades[slot] = r.IntN(grades)
				o.Put(slot, c.places[slot])
				o.Best(Mix(uint64(i)))
			}
			if most := times * (2*log + 8); c.asked > most {
				t.Errorf("%d nodes, %d grades: %d comparisons for %d changes, want at most %d", nodes, grades, c.asked, times, most)
			}
		}
	}
}

// TestTieIsFair: each of equal nodes is chosen about equally often, whatever the worse
// nodes are.
func TestTieIsFair(t *testing.T) {
	const nodes, times = 64, 64_000
	c := &contest{grades: make([]int, 2*nodes), places: map[int32]uint64{}}
	var all []int32
	for slot := range int32(2 * nodes) {
		c.places[slot], c.grades[slot] = Mix(uint64(slot)), int(slot)/nodes
		all = append(all, slot)
	}
	o := NewTournament(2*nodes, all, func(slot int32) uint64 { return c.places[slot] }, c.compare)
	var taken [2 * nodes]int
	for i := range uint64(times) {
		taken[o.Best(Mix(i))]++
	}
	for slot, n := range taken {
		if want := times / nodes; slot >= nodes && n > 0 || slot < nodes && (n < want/10 || n > want*10) {
			t.Errorf("node %d is taken %d times, want about %d for each of the first %d", slot, n, want, nodes)
		}
	}
}
