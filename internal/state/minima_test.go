package state

import (
	"math/rand/v2"
	"testing"
)

// TestMinima sets and removes numbers at random, in more and more domains, and compares the smallest of all, and of all but some, with a linear
// search.
func TestMinima(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var m minima
	numbers := map[int32]int32{}
	for step := range 20_000 {
		domain := r.Int32N(1 + int32(step)/100)
		if r.IntN(4) == 0 {
			m.set(domain, absent)
			delete(numbers, domain)
		} else {
			numbers[domain] = r.Int32N(50) - 10
			m.set(domain, numbers[domain])
		}
		var differences []Difference
		for range r.IntN(4) {
			differences = addDifference(differences, 0, r.Int32N(int32(m.size)+2), 1)
		}
		want := int32(absent)
		for d, n := range numbers {
			excluded := false
			for _, difference := range differences {
				excluded = excluded || difference.Domain == d
			}
			if !excluded {
				want = min(want, n)
			}
		}
		if got := m.except(sorted(differences)); got != want {
			t.Fatalf("step %d: the smallest but %v is %d, want %d", step, differences, got, want)
		}
	}
}
