package state

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestMinima sets and removes numbers at random, in more and more domains. It compares
// the smallest of all, and of all but some, with a linear search.
func TestMinima(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var m minima
	numbers, domains := map[int32]int32{}, 0
	if got := m.except(nil); got != absent {
		t.Errorf("the smallest of no numbers is %d", got)
	}
	for step := range 20_000 {
		domain := r.Int32N(1 + int32(step)/100)
		domains = max(domains, int(domain)+1)
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
		if m.size < domains || m.size >= 2*domains || len(m.tree) != 2*m.size {
			t.Fatalf("step %d: a tree of %d numbers for %d domains takes %d", step, m.size, domains, len(m.tree))
		}
	}
}

// TestLeastExcept sets counts of few and of many domains at random, in a list and in an
// array. It compares the least count outside of some domains with a linear search.
func TestLeastExcept(t *testing.T) {
	for _, domains := range []int{50, 1000} {
		r := rand.New(rand.NewPCG(3, uint64(domains)))
		var c domainCounts
		c.wantLeast()
		counts := map[int32]int32{}
		for step := range 5000 {
			domain := r.Int32N(40)
			if n := r.Int32N(5) - counts[domain]; n != 0 {
				c.add(domain, n, domains)
				counts[domain] += n
			}
			var differences []Difference
			for range r.IntN(5) {
				differences = addDifference(differences, 0, r.Int32N(45), 1)
			}
			want := int32(absent)
			for domain, n := range counts {
				if n != 0 && !slices.ContainsFunc(differences, func(d Difference) bool { return d.Domain == domain }) {
					want = min(want, n)
				}
			}
			if got := c.leastExcept(sorted(differences)); got != want {
				t.Fatalf("%d domains, step %d: the least but %v is %d, want %d", domains, step, differences, got, want)
			}
		}
		if (c.dense != nil) != (domains == 50) {
			t.Errorf("%d domains: the counts are an array: %t", domains, c.dense != nil)
		}
	}
}
