package shrink

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestMap lets a map grow and shrink at random. It keeps its entries, is never much
// larger than they need, and copies fewer entries than were deleted.
func TestMap(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		m, want, peak := map[int]int{}, map[int]int{}, 0
		deleted, copied := 0, 0
		for range 40 {
			size := r.IntN(20_000) >> r.IntN(8)
			for len(m) != size {
				key := r.IntN(40_000)
				if len(m) < size {
					m[key], want[key] = key, key
				} else {
					for key = range want {
						break
					}
					delete(m, key)
					delete(want, key)
					deleted++
				}
				before := reflect.ValueOf(m).Pointer()
				m = Map(m, &peak)
				if reflect.ValueOf(m).Pointer() != before {
					copied += len(m)
				}
				if peak < len(m) || peak > max(few, sparse*len(m)+sparse) {
					t.Fatalf("seed %d: %d entries in a map for %d", seed, len(m), peak)
				}
			}
			if !maps.Equal(m, want) {
				t.Fatalf("seed %d: the entries are not what they were", seed)
			}
		}
		if copied == 0 || copied > deleted {
			t.Errorf("seed %d: %d entries were copied, %d deleted", seed, copied, deleted)
		}
	}
}

// TestSmallMapsStay empties maps that were never large.
func TestSmallMapsStay(t *testing.T) {
	m, peak := map[int]int{}, 0
	for i := range few {
		m[i] = i
	}
	m = Map(m, &peak)
	clear(m)
	before := reflect.ValueOf(m).Pointer()
	if m = Map(m, &peak); reflect.ValueOf(m).Pointer() != before {
		t.Error("a small map was copied")
	}
}
