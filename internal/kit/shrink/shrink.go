// Package shrink releases the memory of maps that were once much larger.
//
// It takes a map and its largest size so far. It returns the map, or a copy that needs
// less memory. It owns nothing, and never changes the contents of a map.
package shrink

const (
	// Maps that never exceeded few entries are not copied, however small they are now.
	few = 1024
	// A map is copied when it has at most 1/sparse of its largest size.
	sparse = 4
)

// Map returns m, or a copy if m has less than a quarter of its former entries. Go's maps
// keep their memory when entries are deleted, and iterating or clearing takes time for
// it.
//
// peak is the largest size in any call since the last copy, initially 0. So Map must be
// called regularly; it costs nothing when it returns m. A copy costs less than the
// deletions before it.
func Map[K comparable, V any](m map[K]V, peak *int) map[K]V {
	n := len(m)
	if *peak = max(*peak, n); *peak <= few || n > *peak/sparse {
		return m
	}
	*peak = n
	smaller := make(map[K]V, n)
	for key, value := range m {
		smaller[key] = value
	}
	return smaller
}
