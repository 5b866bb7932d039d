package rank

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

// place is the test's copy of a node.
type place struct {
	at  uint64
	of  Coordinates
	sum int64
}

// TestTable adds nodes to a table and removes them, in random order, and compares it with
// a list.
func TestTable(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		slots, kinds, sums := 1+r.IntN(600), 1+r.Int32N(6), 1+r.Int64N(5)
		table, nodes := New(int(kinds)), map[int32]place{}
		table.Resize(slots)
		for slot := range int32(r.IntN(slots + 1)) {
			p := place{Mix(uint64(slot)), Coordinates{r.Int32N(kinds), 7}, r.Int64N(sums) - 2}
			table.Put(slot, p.at, p.of, p.sum)
			nodes[slot] = p
		}
		table.Filled()
		if len(nodes) > 0 {
			compare(t, r, table, nodes)
		}
		for range 4000 {
			slot := r.Int32N(int32(slots))
			table.Remove(slot)
			delete(nodes, slot)
			if r.IntN(5) > 0 {
				p := place{Mix(uint64(slot)), Coordinates{r.Int32N(kinds), 7}, r.Int64N(sums) - 2}
				if !table.Put(slot, p.at, p.of, p.sum) {
					t.Fatalf("seed %d: no room for a group", seed)
				}
				nodes[slot] = p
			}
			if r.IntN(900) == 0 { // all but a few, so that sets shrink
				for slot := range int32(slots) {
					if r.IntN(20) > 0 {
						table.Remove(slot)
						delete(nodes, slot)
					}
				}
			}
			if r.IntN(600) == 0 {
				slots = 1 + r.IntN(600)
				table.Resize(slots)
				if len(table.level) != slots || len(table.at) != slots || len(table.place) != slots {
					t.Fatalf("seed %d: %d, %d and %d slots, want %d", seed, len(table.level), len(table.at), len(table.place), slots)
				}
				for slot := range nodes {
					if int(slot) >= slots {
						delete(nodes, slot)
					}
				}
			}
			if r.IntN(40) == 0 {
				compare(t, r, table, nodes)
			}
		}
	}
}

func compare(t *testing.T, r *rand.Rand, table *Table, nodes map[int32]place) {
	t.Helper()
	type group struct {
		nodes int
		best  int64
	}
	want := map[Coordinates]group{}
	for _, p := range nodes {
		g, seen := want[p.of]
		if g.nodes++; !seen || p.sum > g.best {
			g.best = p.sum
		}
		want[p.of] = g
	}
	var some []int32
	for i := range table.Groups() {
		g := &table.Groups()[i]
		if g.Nodes == 0 {
			continue
		}
		example := nodes[table.Example(g)]
		if got := (group{g.Nodes, table.Best(g)}); got != want[g.Of] || example.of != g.Of {
			t.Fatalf("group %v: %+v, want %+v, with a node of %v", g.Of, got, want[g.Of], example.of)
		}
		delete(want, g.Of)
		if r.IntN(2) == 0 {
			some = append(some, int32(i))
		}
	}
	if len(want) > 0 {
		t.Fatalf("groups are missing: %+v", want)
	}
	for i := range table.levels {
		if l := &table.levels[i]; l.nodes > crowded<<l.depth || l.depth > 0 && l.nodes < sparse<<l.depth {
			t.Fatalf("a level has %d nodes in %d buckets", l.nodes, len(l.buckets))
		}
	}
	levels := 0
	for i := range table.Groups() {
		levels += len(table.Groups()[i].levels)
	}
	if levels+len(table.freeLevel) != len(table.levels) || len(table.find)+len(table.freeGroup) != len(table.groups) {
		t.Fatalf("%d levels in use and %d free of %d; %d groups in use and %d free of %d", levels, len(table.freeLevel), len(table.levels), len(table.find), len(table.freeGroup), len(table.groups))
	}
	if len(some) == 0 {
		return
	}
	var places []uint64
	var slots []int32
	for slot, p := range nodes {
		for _, i := range some {
			if g := &table.Groups()[i]; p.of == g.Of && p.sum == table.Best(g) {
				places, slots = append(places, p.at), append(slots, slot)
			}
		}
	}
	salt := r.Uint64()
	if got, want := table.Pick(salt, some), Pick(salt, places, slots); got != want {
		t.Fatalf("the table picks %d of %d nodes in %d groups, the list %d", got, len(slots), len(some), want)
	}
}

// TestTooManyGroups: a table refuses a node that needs another group, until a group is
// gone.
func TestTooManyGroups(t *testing.T) {
	table := New(2)
	table.Resize(4)
	table.Filled()
	put := func(slot int32, group int32) bool { return table.Put(slot, uint64(slot), Coordinates{group}, 0) }
	if !put(0, 0) || !put(1, 1) || !put(2, 1) || put(3, 2) {
		t.Fatal("two groups must have room, and a third none")
	}
	table.Remove(1)
	if put(3, 2) {
		t.Error("a group has a node left")
	}
	table.Remove(2)
	if !put(3, 2) {
		t.Error("a group without nodes takes room")
	}
	table.Remove(2) // which is no longer in the table
	if n := len(table.Groups()); n != 2 {
		t.Errorf("%d groups", n)
	}
}

// TestPickIsEven picks from few nodes, and from nodes whose places are close together,
// with many salts. All are equally likely.
func TestPickIsEven(t *testing.T) {
	for _, row := range [][]uint64{
		{0, 1, 2}, {0, 1 << 63, 1<<63 + 1}, {1 << 60, 1 << 61, 1 << 62, 1<<62 + 1, 1<<62 + 2}, {7}, {Mix(1), Mix(2), Mix(3), Mix(4), Mix(5), Mix(6), Mix(7), Mix(8), Mix(9), Mix(10)},
	} {
		const picks = 30000
		counts := make([]int, len(row))
		for salt := range uint64(picks) {
			numbers := make([]int32, len(row))
			for i := range numbers {
				numbers[i] = int32(i)
			}
			counts[Pick(Mix(salt), slices.Clone(row), numbers)]++
		}
		for i, n := range counts {
			if mean := picks / len(row); n < mean*93/100 || n > mean*107/100 {
				t.Errorf("of %x the one at %d was picked %d times, want about %d", row, i, n, mean)
			}
		}
	}
}

// TestPickIsSteady: the order does not matter, and the lowest number wins among equal
// places. A new node seldom changes the choice.
func TestPickIsSteady(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	moved, toTheNew := 0, 0
	const nodes, picks = 200, 2000
	for range picks {
		salt := r.Uint64()
		var places []uint64
		var numbers []int32
		for i := range int32(nodes) {
			places, numbers = append(places, Mix(uint64(i))), append(numbers, i)
		}
		one := Pick(salt, slices.Clone(places), slices.Clone(numbers))
		r.Shuffle(nodes, func(i, j int) {
			places[i], places[j] = places[j], places[i]
			numbers[i], numbers[j] = numbers[j], numbers[i]
		})
		if other := Pick(salt, slices.Clone(places), slices.Clone(numbers)); other != one {
			t.Fatalf("in another order %d is picked, not %d", other, one)
		}
		switch more := Pick(salt, append(places, Mix(nodes)), append(numbers, nodes)); more {
		case one:
		case nodes:
			toTheNew++
		default:
			moved++
		}
	}
	if moved+toTheNew > picks/10 || toTheNew == 0 {
		t.Errorf("one more node changed %d of %d choices, %d of them to itself", moved+toTheNew, picks, toTheNew)
	}
	if got := Pick(1, []uint64{5, 5, 5}, []int32{4, 2, 9}); got != 2 {
		t.Errorf("of nodes with equal places %d is picked", got)
	}
}

// TestPickLooksAtFew picks from very many nodes, in one group and in many. Few nodes are
// listed.
func TestPickLooksAtFew(t *testing.T) {
	for _, groups := range []int32{1, 10, 1000} {
		const nodes = 100_000
		table := New(1000)
		table.Resize(nodes)
		for slot := range int32(nodes) {
			table.Put(slot, Mix(uint64(slot)), Coordinates{slot % groups}, 0)
		}
		table.Filled()
		all := make([]int32, groups)
		for i := range all {
			all[i] = int32(i)
		}
		table.Pick(1, all)
		if most := 32 * int(groups); cap(table.choice.slots) > 2*most {
			t.Errorf("%d groups: %d nodes were listed, want at most %d", groups, cap(table.choice.slots), most)
		}
		if got := testing.AllocsPerRun(10, func() { table.Pick(2, all) }); got > 0 {
			t.Errorf("%d groups: a choice allocates %v times", groups, got)
		}
	}
}

// TestMix has the first numbers of splitmix64 from the state 0, whose increment is added
// first.
func TestMix(t *testing.T) {
	for i, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f} {
		if got := Mix(uint64(i+1) * 0x9e3779b97f4a7c15); got != want {
			t.Errorf("number %d of splitmix64 is %x, want %x", i, got, want)
		}
	}
}

// BenchmarkPick moves one node to another level and picks one of the best, which are half
// of all.
func BenchmarkPick(b *testing.B) {
	for _, nodes := range []int{5000, 50_000, 200_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			table := New(4)
			table.Resize(nodes)
			for slot := range int32(nodes) {
				table.Put(slot, Mix(uint64(slot)), Coordinates{}, int64(slot%2))
			}
			table.Filled()
			b.ReportAllocs()
			for i := range b.N {
				slot := table.Pick(Mix(uint64(i)), []int32{0})
				table.Remove(slot)
				table.Put(slot, Mix(uint64(slot)), Coordinates{}, int64(i%2))
			}
		})
	}
}

// BenchmarkFill builds a table of nodes in two groups, with a hundred sums.
func BenchmarkFill(b *testing.B) {
	for _, nodes := range []int{5000, 50_000, 200_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				table := New(4)
				table.Resize(nodes)
				for slot := range int32(nodes) {
					place := Mix(uint64(slot))
					table.Put(slot, place, Coordinates{slot % 2}, int64(place>>57))
				}
				table.Filled()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*nodes), "ns/node")
		})
	}
}

// TestBytes compares Bytes with the measured size, after filling and after each node has
// moved many times.
func TestBytes(t *testing.T) {
	for _, nodes := range []int{5000, 50_000} {
		for _, sums := range []int64{1, 150} {
			before := live()
			table, r := New(8), rand.New(rand.NewPCG(1, 1))
			table.Resize(nodes)
			put := func(slot int32) { table.Put(slot, Mix(uint64(slot)), Coordinates{r.Int32N(8)}, r.Int64N(sums)) }
			for slot := range int32(nodes) {
				put(slot)
			}
			table.Filled()
			filled, mostFilled := live()-before, int64(table.Bytes())
			for range 10 * nodes {
				slot := r.Int32N(int32(nodes))
				table.Remove(slot)
				put(slot)
			}
			if moved, most := live()-before, int64(table.Bytes()); filled > mostFilled || moved > most {
				t.Errorf("%d nodes with %d sums: %d bytes, want at most %d; after moves %d, want at most %d", nodes, sums, filled, mostFilled, moved, most)
			}
			runtime.KeepAlive(table)
		}
	}
}

// live returns the number of heap bytes in use.
func live() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
