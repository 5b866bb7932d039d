package steady

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
)

// TestMap compares random insertions and deletions with a Go map.
func TestMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var m Map[string, int]
	want := map[string]int{}
	for i := range 50_000 {
		key := fmt.Sprint(r.IntN(5000))
		if i/10_000%2 == 0 {
			m.Of(key)[key], want[key] = i, i
		} else {
			delete(m.Of(key), key)
			delete(want, key)
		}
		if i%1000 == 0 {
			m.Shrink()
			if got := maps.Collect(m.All()); !maps.Equal(got, want) || m.Len() != len(want) {
				t.Fatalf("step %d: %d keys, want %d", i, m.Len(), len(want))
			}
		}
		if _, some := want[key]; m.Get(key) != want[key] || m.Has(key) != some {
			t.Fatalf("step %d: %s has %d, want %d", i, key, m.Get(key), want[key])
		}
	}
}

// TestPartsDiffer: the parts have the shares of the keys that bounds define, so that no
// two are full at the same time.
func TestPartsDiffer(t *testing.T) {
	var m Map[int, bool]
	const keys = 100_000
	for key := range keys {
		m.Of(key)[key] = true
	}
	from := 0
	for at, in := range m.parts {
		share := float64(int(bounds[at])+1-from) / 256
		from = int(bounds[at]) + 1
		if got := float64(len(in)) / keys; got < 0.95*share || got > 1.05*share {
			t.Errorf("part %d has %.4f of the keys, want %.4f", at, got, share)
		}
	}
	if smallest, largest := len(m.parts[0]), len(m.parts[parts-1]); 3*smallest > 2*largest {
		t.Errorf("the smallest part has %d keys, the largest %d", smallest, largest)
	}
}

// BenchmarkGrow inserts keys of 64 bytes, and prints the longest insertion of 5,000 in a
// row, beside that of a Go map.
func BenchmarkGrow(b *testing.B) {
	type key struct {
		number int
		_      [7]int
	}
	const batches, size = 100, 5000
	for _, row := range []struct {
		name   string
		insert func() func(key)
	}{
		{"map", func() func(key) { m := map[key][]int{}; return func(k key) { m[k] = nil } }},
		{"steady", func() func(key) { m := &Map[key, []int]{}; return func(k key) { m.Of(k)[k] = nil } }},
	} {
		b.Run(row.name, func(b *testing.B) {
			longest := 0.0
			for range b.N {
				insert := row.insert()
				for batch := range batches {
					start := b.Elapsed()
					for i := range size {
						insert(key{number: batch*size + i})
					}
					longest = max(longest, (b.Elapsed() - start).Seconds())
				}
			}
			b.ReportMetric(1000*longest, "longest-ms")
		})
	}
}
