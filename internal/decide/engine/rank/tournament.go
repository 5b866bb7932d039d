package rank

import "slices"

// Tournament finds the best of some nodes, by the caller's order, without a look at each.
// The nodes are in buckets by the first bits of their places. Each node of the binary
// tree above the buckets holds one of the best nodes below it.
//
//	           n7                  the best below each, by the order
//	    n3            n7           of several equals, any
//	 n3    n9      n7    –
//	{n3}  {n9,n4} {n7}   {}        buckets, by the first bits of places
//
// A node that comes, goes, or gets better or worse is compared with log₂ n others. A
// Tournament is not safe for concurrent use.
type Tournament struct {
	// compare compares two slots like [cmp.Compare]: the better one is less.
	compare func(a, b int32) int
	nodes   int
	// depth is the number of bits that choose the bucket.
	depth int
	// bucket, place and next are indexed by slot: the bucket, -1 if absent; the place;
	// and the next slot of the bucket, -1 for none.
	bucket []int32
	place  []uint64
	next   []int32
	// first is the first slot of each bucket, -1 for none.
	first []int32
	// best has a slot for each node of the tree, -1 for an empty subtree. The root is at
	// 1, the children of i are at 2i and 2i+1, and the buckets come last.
	best []int32
}

// full is the average number of nodes in a bucket above which the buckets become four
// times as many. They become a quarter as many when these would be half full.
const full = 2

// NewTournament returns a tournament of some nodes among a number of slots, each at its
// place. compare is called only with slots of present nodes. Any number of nodes may
// become better or worse at once. Each must be passed to Put or Remove before the next
// call of Best.
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

// fresh returns n slots, all -1, reusing the given memory if it suffices.
func fresh(slots []int32, n int) []int32 {
	slots = slices.Grow(slots[:0], n)[:n]
	for i := range slots {
		slots[i] = -1
	}
	return slots
}

// Grow adds slots up to this total.
func (t *Tournament) Grow(slots int) {
	for len(t.bucket) < slots {
		t.bucket, t.place, t.next = append(t.bucket, -1), append(t.place, 0), append(t.next, -1)
	}
}

// Put adds the node of a slot, or updates one that became better or worse. place is its
// place among equals.
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

// Remove removes the node of a slot, if present.
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

// bestBelow returns one of the best nodes below a node of the tree, from its children.
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

// Tie returns the number that decides between equally good nodes; the highest wins. Each
// salt gives another order. Worse nodes do not influence the choice.
func Tie(salt, place uint64) uint64 { return salt ^ place }

// Best returns the slot of the best node, or -1 without nodes. Among equals the highest
// [Tie] wins, then the lowest slot.
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
		default:
			// the side where the bit of places differs from the salt's
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
