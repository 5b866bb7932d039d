// Package shrink gives back the memory of maps that were much larger once.
//
// It takes a map and how large it has been; it gives the map, or a copy that takes less memory. It owns nothing. It never changes what a map
// holds.
package shrink

const (
	// few is up to how many entries a map is left as it is, however many it has now.
	few = 1024
	// sparse is the share of a map's largest size, as a divisor, below which it is copied.
	sparse = 4
)

// Map returns m, or a copy if it has less than a quarter of the entries that it had once: Go's maps keep their memory when entries are deleted, and
// take time for it where they are walked or cleared. peak is the largest size that calls have seen since the last copy, 0 at first; so Map must be
// called now and then, and costs nothing where it returns m. Copies cost less than the deletions before.
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
