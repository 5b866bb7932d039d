package rank

import "slices"

// Tournament knows the best of some nodes in an order that is not its own, without a look at each: the nodes are in buckets by the first bits of their places, and each node of the binary tree
// above the buckets has one of the best below it.
//
//	           n7                  the best below each, by the order
//	    n3            n7           of several equals, any
//	 n3    n9      n7    –
//	{n3}  {n9,n4} {n7}   {}        buckets, by the first bits of places
//
// A node that comes, goes, or gets better or worse is compared with log₂ n others. One goroutine uses it.
type Tournament struct {
	// compare returns what [cmp.Compare] does of two slots: the better one is less.
	compare func(a, b int32) int
	nodes   int
	// depth is how many bits choose the bucket.
	depth int
	// By slot: its bucket, -1 if it is not in; its place; and the next of the bucket, -1 for none.
	bucket []int32
	place  []uint64
	next   []int32
	// first is the first of each bucket, -1 for none.
	first []int32
	// best has a slot for each node of the tree, -1 where there is none below: the root is at 1, the two below i at 2i and 2i+1, and the buckets come last.
	best []int32
}

// full is how many nodes a bucket has on average when there are to be four times as many buckets. There are a quarter as many when these would be half full.
const full = 2

// NewTournament returns a tournament with the nodes in some of so many slots, each at its place. compare is called with slots of nodes that are in. Any number of nodes may become better or worse
// at once; each of them must be put in again, or removed, before the best is asked for.
func NewTournament(slots int, nodes []int32, place func(slot int32) uint64, compare func(a, b int32) int) *Tournament {
	t := &Tournament{compare: compare, nodes: len(nodes)}
	t.Grow(slots)
	for _, slot := range nodes {
		t.place[slot], t.bucket[slot] = place(slot), 0
	}
	for t.nodes > full<<t.depth {
		t.depth += step
	}
	t.fill()
	return t
}

// fill puts the nodes, whose buckets are not -1, into buckets.
func (t *Tournament) fill() {
	t.first = fresh(t.first, 1<<t.depth)
	t.best = fresh(t.best, 2<<t.depth)
	for slot, bucket := range t.bucket {
		if bucket >= 0 {
			t.link(int32(slot))
		}
	}
	for i := 2<<t.depth - 1; i > 0; i-- {
		t.best[i] = t.bestBelow(i)
	}
}

// fresh returns so many slots, all -1, in the given memory if it has room.
func fresh(slots []int32, n int) []int32 {
	slots = slices.Grow(slots[:0], n)[:n]
	for i := range slots {
		slots[i] = -1
	}
	return slots
}

// Grow makes room for so many slots in all.
func (t *Tournament) Grow(slots int) {
	for len(t.bucket) < slots {
		t.bucket, t.place, t.next = append(t.bucket, -1), append(t.place, 0), append(t.next, -1)
	}
}

// Put adds the node of a slot, or notes that it is better or worse than before. place is its place among equals.
func (t *Tournament) Put(slot int32, place uint64) {
	if t.bucket[slot] >= 0 && t.place[slot] != place { // another node
		t.Remove(slot)
	}
	if t.bucket[slot] < 0 {
		t.place[slot] = place
		t.link(slot)
		if t.nodes++; t.nodes > full<<t.depth {
			t.depth += step
			t.fill()
			return
		}
	}
	t.replay(slot)
}

// Remove removes the node of a slot, if it is in.
func (t *Tournament) Remove(slot int32) {
	bucket := t.bucket[slot]
	if bucket < 0 {
		return
	}
	at := &t.first[bucket]
	for *at != slot {
		at = &t.next[*at]
	}
	*at = t.next[slot]
	t.replay(slot)
	t.bucket[slot], t.next[slot] = -1, -1
	if t.nodes--; t.depth > 0 && t.nodes < full<<t.depth>>(step+1) {
		t.depth -= step
		t.fill()
	}
}

func (t *Tournament) link(slot int32) {
	bucket := int32(t.place[slot] >> (64 - t.depth))
	t.bucket[slot], t.next[slot] = bucket, t.first[bucket]
	t.first[bucket] = slot
}

// replay finds the best again above the bucket of a slot.
func (t *Tournament) replay(slot int32) {
	for i := 1<<t.depth | int(t.bucket[slot]); i > 0; i >>= 1 {
		before := t.best[i]
		t.best[i] = t.bestBelow(i)
		if before != slot && t.best[i] == before { // nor does it matter above
			return
		}
	}
}

// bestBelow returns one of the best nodes below a node of the tree, by what is known right below it.
func (t *Tournament) bestBelow(i int) int32 {
	if bucket := i - 1<<t.depth; bucket >= 0 {
		best := t.first[bucket]
		for slot := best; slot >= 0; slot = t.next[slot] {
			if slot != best && t.compare(slot, best) < 0 {
				best = slot
			}
		}
		return best
	}
	if t.order(i) > 0 {
		return t.best[2*i+1]
	}
	return t.best[2*i]
}

// order compares the best of the two sides of a node of the tree, above the buckets.
func (t *Tournament) order(i int) int {
	left, right := t.best[2*i], t.best[2*i+1]
	switch {
	case right < 0:
		return -1
	case left < 0:
		return +1
	}
	return t.compare(left, right)
}

// Tie returns the number that decides between equally good nodes, of which that with the highest is taken. It is another order for each salt, and which of some nodes is taken does not depend
// on those that are worse.
func Tie(salt, place uint64) uint64 { return salt ^ place }

// Best returns the slot of the best node, of several that with the highest [Tie], of equal ties the lowest; -1 if there is no node.
func (t *Tournament) Best(salt uint64) int32 {
	if t.nodes == 0 {
		return -1
	}
	i := 1
	for depth := range t.depth {
		switch c := t.order(i); {
		case c > 0:
			i = 2*i + 1
		case c < 0:
			i = 2 * i
		default: // the side where the bit of places is not that of the salt
			i = 2*i + int(^salt>>(63-depth)&1)
		}
	}
	bucket := i - 1<<t.depth
	best := t.best[i]
	for slot := t.first[bucket]; slot >= 0; slot = t.next[slot] {
		if slot == best || t.compare(slot, best) != 0 {
			continue
		}
		if own, other := Tie(salt, t.place[slot]), Tie(salt, t.place[best]); own > other || own == other && slot < best {
			best = slot
		}
	}
	return best
}
