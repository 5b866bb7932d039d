package queue

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestHeapRemovesInOrder adds and removes entries at random positions, compares the order with that of a sorted list, and counts the comparisons of
// taking out one after the other: about the logarithm of their number for each.
func TestHeapRemovesInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	compared := 0
	h := newHeap(func(a, b *entry) bool { compared++; return a.order < b.order })
	var list []*entry
	check := func() {
		for i, e := range h.entries {
			if e.index != i {
				t.Fatalf("the entry at %d says %d", i, e.index)
			}
			if i > 0 && h.less(e, h.entries[(i-1)/2]) {
				t.Fatalf("the entry at %d comes before its parent", i)
			}
		}
	}
	for step := range 2000 {
		if r.IntN(5) < 3 || len(list) == 0 {
			e := &entry{order: uint64(r.IntN(1_000_000))*10_000 + uint64(step)}
			h.add(e)
			list = append(list, e)
		} else {
			i := r.IntN(len(list))
			h.remove(list[i])
			list = slices.Delete(list, i, i+1)
		}
		check()
	}
	slices.SortFunc(list, func(a, b *entry) int { return int(int64(a.order) - int64(b.order)) })
	for i, want := range list {
		if h.first() != want {
			t.Fatalf("entry %d is %d, want %d", i, h.first().order, want.order)
		}
		h.remove(want)
		check()
	}
	const entries = 1 << 12
	for i := range entries {
		h.add(&entry{order: uint64(i)})
	}
	compared = 0
	for range entries {
		h.remove(h.first())
	}
	if each := compared / entries; each > 12+4 {
		t.Errorf("%d comparisons for each of %d entries, want about 12", each, entries)
	}
}
