package rank

import (
	"math/bits"
	"slices"
)

// The choice among n equally good nodes is a walk in a binary tree. The nodes are its
// leaves, placed by the bits of their hashed names, the highest bit first. From the root
// down, a side is chosen with the probability of its share of the leaves. The random
// number depends only on the salt and the depth.
//
// So all leaves are equally likely, and the order of the list does not matter. A node
// that comes or goes seldom changes the choice among the others. And the walk needs only
// counts.

// goesUp reports whether the walk takes the side where the bit at this depth is 1. That
// side has ones of all leaves.
func goesUp(salt uint64, depth int, ones, all int) bool {
	drawn, _ := bits.Mul64(Mix(salt+uint64(depth)*0x9e3779b97f4a7c15), uint64(all))
	return drawn < uint64(ones)
}

// Mix spreads a number over all its bits (the finalizer of splitmix64, Steele et al.
// 2014).
func Mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// Pick returns one of several equally good nodes. nodes are their numbers, such as slots,
// at least one; places are their places, at the same positions. It reorders both slices.
// Among nodes with equal places the lowest number is taken.
func Pick(salt uint64, places []uint64, nodes []int32) int32 { return pickFrom(0, salt, places, nodes) }

// pickFrom is Pick for nodes whose places are equal above a depth.
func pickFrom(depth int, salt uint64, places []uint64, nodes []int32) int32 {
	for ; depth < 64 && len(places) > 1; depth++ {
		if ones := up(places, nodes, depth); goesUp(salt, depth, ones, len(places)) {
			places, nodes = places[:ones], nodes[:ones]
		} else {
			places, nodes = places[ones:], nodes[ones:]
		}
	}
	return slices.Min(nodes)
}

// up moves the nodes whose bit at a depth is 1 to the front, and returns their number.
func up(places []uint64, nodes []int32, depth int) (ones int) {
	shift := 63 - depth
	for i, place := range places {
		if place>>shift&1 != 0 {
			places[ones], places[i] = place, places[ones]
			nodes[ones], nodes[i] = nodes[i], nodes[ones]
			ones++
		}
	}
	return ones
}

// choice is a walk among the nodes of several sets. It uses the counts of sets that have
// counts at a depth, and the listed nodes of all others.
type choice struct {
	sets []*set
	// places and slots belong to the remaining listed nodes.
	places []uint64
	slots  []int32
}

func (c *choice) pick(t *Table, salt uint64) int32 {
	c.places, c.slots = c.places[:0], c.slots[:0]
	prefix := 0 // the bits of the way down
	for depth := 0; ; depth++ {
		c.list(t, depth, prefix)
		if len(c.sets) == 0 {
			return pickFrom(depth, salt, c.places, c.slots)
		}
		listed := up(c.places, c.slots, depth)
		ones, all := listed, len(c.places)
		for _, s := range c.sets {
			ones += s.count(depth+1, prefix<<1|1)
			all += s.count(depth, prefix)
		}
		prefix <<= 1
		if goesUp(salt, depth, ones, all) {
			prefix |= 1
			c.places, c.slots = c.places[:listed], c.slots[:listed]
		} else {
			c.places, c.slots = append(c.places[:0], c.places[listed:]...), append(c.slots[:0], c.slots[listed:]...)
		}
	}
}

// list lists the nodes of the sets that have no counts below a depth, and drops empty
// sets.
func (c *choice) list(t *Table, depth, prefix int) {
	deeper := c.sets[:0]
	for _, s := range c.sets {
		switch {
		case s.depth > depth:
			if s.count(depth, prefix) > 0 {
				deeper = append(deeper, s)
			}
		default:
			for _, slot := range s.buckets[prefix] {
				c.places, c.slots = append(c.places, t.place[slot]), append(c.slots, slot)
			}
		}
	}
	clear(c.sets[len(deeper):])
	c.sets = deeper
}
