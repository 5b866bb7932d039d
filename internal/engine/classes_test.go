package engine

import (
	"math/rand/v2"
	"testing"
)

// TestClassesAreReused fills all classes and takes the nodes out of some, which makes room for others: then each node is still found in the class of its coordinates, at its
// position there, and with its hash.
func TestClassesAreReused(t *testing.T) {
	const nodes = 3 * mostClasses
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 5))
		x := &classes{find: map[coordinates]int32{}, of: make([]int32, nodes), at: make([]int32, nodes), hashes: make([]uint64, nodes)}
		is := make([]int64, nodes) // the first coordinate of each node, -1 for none
		for slot := range x.of {
			x.of[slot], x.hashes[slot], is[slot] = -1, r.Uint64(), -1
		}
		put := func(slot int32, value int64) {
			x.remove(slot)
			is[slot] = -1
			if class := x.class(coordinates{value}); class >= 0 { // otherwise there are too many
				x.add(slot, class)
				is[slot] = value
			}
		}
		next := int64(0)
		for range 20 * nodes {
			slot := int32(r.IntN(nodes))
			if r.IntN(4) == 0 {
				slot = int32(r.IntN(mostClasses / 4)) // few nodes change often, so that classes become empty
			}
			if r.IntN(3) > 0 {
				next++
				put(slot, next)
			} else if to := is[r.IntN(nodes)]; to >= 0 {
				put(slot, to)
			}
			if r.IntN(40) == 0 {
				for slot := range int32(nodes) { // most nodes leave
					if slot >= mostClasses/8 {
						x.remove(slot)
						is[slot] = -1
					}
				}
			}
		}
		for slot, want := range is {
			class := x.of[slot]
			if want < 0 != (class < 0) {
				t.Fatalf("seed %d: node %d is in class %d, and its coordinate is %d", seed, slot, class, want)
			}
			if class < 0 {
				continue
			}
			n, at := &x.nodes[class], x.at[slot]
			if x.list[class] != (coordinates{want}) || x.find[coordinates{want}] != class || n.slots[at] != int32(slot) || n.hashes[at] != x.hashes[slot] {
				t.Fatalf("seed %d: node %d is in class %d of %v, want %d; at %d is node %d", seed, slot, class, x.list[class], want, at, n.slots[at])
			}
		}
		if len(x.list) > mostClasses {
			t.Errorf("seed %d: %d classes", seed, len(x.list))
		}
	}
}

// TestHighestOfEqualHashes: of nodes whose names have one hash the first by slot is taken, as by the scan.
func TestHighestOfEqualHashes(t *testing.T) {
	n := &alike{slots: []int32{9, 4, 7, 2}, hashes: []uint64{5, 5, 6, 5}}
	for salt := range uint64(50) {
		slot, hash := n.highest(salt)
		want, highest := int32(7), mix(salt^6)
		if own := mix(salt ^ 5); own > highest {
			want, highest = 2, own
		}
		if slot != want || hash != highest {
			t.Errorf("salt %d: node %d with %d, want %d with %d", salt, slot, hash, want, highest)
		}
	}
}
