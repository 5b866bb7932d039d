// Package steady is a map whose growth is spread over many insertions.
//
// A Go map splits a table once it is full. Hashing fills all tables evenly, so all of
// them are split within a few percent of growth: near 115,000 entries, 5,000 insertions
// in a row take 12 ms instead of 4. A Map has parts of different sizes, which fill up at
// different times. Rejected: hashes as keys, which make a split cheaper, because an index
// by hash lists the items of other keys, too.
package steady

import (
	"hash/maphash"
	"iter"

	"github.com/berth-scheduler/berth/internal/kit/shrink"
)

// parts is the number of Go maps. bounds are the highest hashes of each, of 8 bits. A
// part is 1.09 times as large as the part before it, the eighth root of 2, so the splits
// of all parts are spread over a doubling.
const parts = 8

var bounds = [parts]uint8{23, 48, 75, 105, 138, 174, 213, 255}

// Map is a map. The zero value is empty. Iteration is in no order.
type Map[K comparable, V any] struct {
	parts [parts]map[K]V
	peaks [parts]int
}

var seed = maphash.MakeSeed()

func part[K comparable](key K) int {
	h := uint8(maphash.Comparable(seed, key) >> 56)
	at := 0
	for h > bounds[at] {
		at++
	}
	return at
}

// Get returns the value of a key, or the zero value.
func (m *Map[K, V]) Get(key K) V { return m.parts[part(key)][key] }

// Has reports whether the map has a key.
func (m *Map[K, V]) Has(key K) bool {
	_, ok := m.parts[part(key)][key]
	return ok
}

// Of returns the part for a key, for several operations on the key. It is never nil, and
// must not be used for other keys.
func (m *Map[K, V]) Of(key K) map[K]V {
	at := part(key)
	if m.parts[at] == nil {
		m.parts[at] = map[K]V{}
	}
	return m.parts[at]
}

// Len returns the number of keys.
func (m *Map[K, V]) Len() int {
	n := 0
	for _, in := range m.parts {
		n += len(in)
	}
	return n
}

// All iterates over the keys and values.
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, in := range m.parts {
			for key, value := range in {
				if !yield(key, value) {
					return
				}
			}
		}
	}
}

// Shrink releases memory as package shrink does.
func (m *Map[K, V]) Shrink() {
	for at := range m.parts {
		m.parts[at] = shrink.Map(m.parts[at], &m.peaks[at])
	}
}
