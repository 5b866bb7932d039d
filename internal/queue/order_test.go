package queue

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-scheduler/berth/internal/kit/audit"
)

// TestHeapRemovesInOrder adds, removes and reorders entries at random positions, and
// compares the order with a sorted list. Some seeds add most entries in order.
func TestHeapRemovesInOrder(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		h := newHeap(func(a, b *entry) bool { return a.order < b.order })
		var list []*entry
		check := func() {
			t.Helper()
			n := 0
			for i, e := range h.all() {
				if n++; e.index != i || h.at(i) != e {
					t.Fatalf("seed %d: the entry at %d says %d", seed, i, e.index)
				}
				if before, ok := h.before(i); ok && h.less(e, before) {
					t.Fatalf("seed %d: the entry at %d comes before one that it must follow", seed, i)
				}
			}
			v := audit.Of("heap")
			h.run.audit(v, "heap")
			if err := v.Err(); err != nil || n != len(list) || n != h.size() {
				t.Fatalf("seed %d: %d entries, size %d, want %d; %v", seed, n, h.size(), len(list), err)
			}
			if first := h.first(); n == 0 && first != nil || n > 0 && first != slices.MinFunc(list, byOrder) {
				t.Fatalf("seed %d: %v is the first", seed, first)
			}
		}
		late, shrinking := int(seed%3), 0
		order := func(step int) uint64 {
			if late > 0 && r.IntN(10*late) > 0 {
				return uint64(step+1)*10_000_000_000 + uint64(step)
			}
			return uint64(r.IntN(1_000_000))*10_000 + uint64(step)
		}
		for step := range 2000 {
			if step%200 == 0 {
				shrinking = 2 * r.IntN(2)
			}
			i := 0
			if len(list) > 0 && r.IntN(3) > 0 {
				i = r.IntN(len(list))
			}
			switch {
			case len(list) == 0 || r.IntN(6+shrinking) < 3:
				e := &entry{order: order(step)}
				h.add(e)
				list = append(list, e)
			case r.IntN(6) == 0:
				list[i].order = order(step)
				h.fix(list[i])
			default:
				h.remove(list[i])
				list = slices.Delete(list, i, i+1)
			}
			check()
		}
		slices.SortFunc(list, byOrder)
		for i, want := range list {
			if h.first() != want {
				t.Fatalf("seed %d: entry %d is %d, want %d", seed, i, h.first().order, want.order)
			}
			h.remove(want)
			list = list[1:]
		}
	}
}

func byOrder(a, b *entry) int { return cmp.Compare(a.order, b.order) }

// TestPoppingIsCheap counts the comparisons for adding all entries and then removing one
// after the other. In reverse order each entry needs about the logarithm of their number.
// In order it needs two, even with a few other entries in between.
func TestPoppingIsCheap(t *testing.T) {
	const entries = 1 << 12
	for _, row := range []struct {
		name  string
		order func(i int) int
		most  int
	}{
		{"in order", func(i int) int { return i }, 2},
		{"in order, but for a few", func(i int) int {
			if i%100 == 99 {
				return i - 50_000
			}
			return i
		}, 3},
		{"in order, after a few late ones", func(i int) int {
			if i < 60 {
				return i + 50_000
			}
			return i
		}, 4},
		{"in reverse order", func(i int) int { return -i }, 12 + 4 + 12},
	} {
		compared := 0
		h := newHeap(func(a, b *entry) bool { compared++; return a.order < b.order })
		for i := range entries {
			h.add(&entry{order: uint64(row.order(i) + 100_000)})
		}
		for h.size() > 0 {
			h.remove(h.first())
		}
		if compared > row.most*entries {
			t.Errorf("%s: %d comparisons for %d entries, want at most %d for each", row.name, compared, entries, row.most)
		}
	}
}

// TestRunGivesMemoryBack adds and removes entries without ever emptying the heap, and
// then removes all but a few. The memory is proportional to the contents.
func TestRunGivesMemoryBack(t *testing.T) {
	h := newHeap(func(a, b *entry) bool { return a.order < b.order })
	all := make([]*entry, 50_000)
	for i := range all {
		all[i] = &entry{order: uint64(i)}
		h.add(all[i])
		if i >= 10 {
			h.remove(all[i-10])
		}
	}
	if n := cap(h.run.list); n > 100 {
		t.Errorf("10 entries are kept in a run of %d positions", n)
	}
	for _, e := range all[:len(all)-10] {
		e.order += uint64(len(all))
		h.add(e)
	}
	for i := range all {
		if i%1000 != 1 {
			h.remove(all[i])
		}
	}
	if holes := h.run.holes; h.size() != 50 || holes > 50 {
		t.Errorf("%d entries are kept with %d holes", h.size(), holes)
	}
	for h.size() > 0 {
		h.remove(h.first())
	}
	if n := cap(h.run.list); n > emptyKept {
		t.Errorf("an empty run keeps %d positions", n)
	}
}
