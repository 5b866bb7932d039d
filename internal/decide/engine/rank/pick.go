package rank

import (
	"math/bits"
	"slices"
)

// Which of n equally good nodes is taken: the nodes are leaves of the binary tree of their places, the bits of which are read from the highest on. From the root on, one side of each node of
// the tree is taken, with the probability of its share in the leaves, by a number that depends on the salt and the depth alone. So each leaf is as likely as the other, the order in which nodes
// are listed does not matter, a node that comes or goes seldom changes which other one is taken, and counts are enough to find that one.

// goesUp reports whether the side where the bit at a depth is 1 is taken, where so many of all leaves are.
func goesUp(salt uint64, depth int, ones, all int) bool {
	drawn, _ := bits.Mul64(Mix(salt+uint64(depth)*0x9e3779b97f4a7c15), uint64(all))
	return drawn < uint64(ones)
}

// Mix spreads a number over all its bits (the finalizer of splitmix64, Steele et al. 2014).
func Mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// Pick returns the one of some equally good nodes that is taken. nodes are their numbers, such as slots, at least one; places are their places, at the same positions. It changes the order of
// both slices. Of nodes with equal places the one with the lowest number is taken.
func Pick(salt uint64, places []uint64, nodes []int32) int32 { return pickFrom(0, salt, places, nodes) }

// pickFrom is Pick, of nodes whose places differ from a depth on.
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

// up moves those whose bit at a depth is 1 to the front, and returns how many they are.
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

// choice is one choice between the nodes of sets: it goes down the tree by the counts of those sets that have counts at a depth, and by the nodes themselves of all others.
type choice struct {
	sets []*set
	// places and slots are those of the listed nodes that are left.
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

// list lists the nodes of the sets that have no counts below a depth, and leaves out the sets without nodes.
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
