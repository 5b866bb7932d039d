package state

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestDomainCounts counts up and down at random, in few and in many domains, and compares
// with a map.
func TestDomainCounts(t *testing.T) {
	const domains = 400
	for _, spread := range []int32{5, 60, domains} {
		t.Run(fmt.Sprint(spread, " domains"), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, uint64(spread)))
			g, other := termsBy(&topology{value: make([]string, domains)})
			want := map[int32]int32{}
			count := func(domain, n int32) {
				g.counts.add(domain, n, domains)
				if want[domain] += n; want[domain] == 0 {
					delete(want, domain)
				}
			}
			for range 20000 {
				if domain := r.Int32N(spread); r.IntN(2) == 0 || want[domain] == 0 {
					count(domain, +1)
				} else {
					count(domain, -1)
				}
			}
			g.counts.add(noDomain, +1, domains)
			compareCarriers(t, g, other, want)
			if dense := g.counts.dense != nil; dense != (spread > 50) {
				t.Errorf("counts are kept in an array: %t", dense)
			}
			for domain, n := range want {
				for range n {
					count(domain, -1)
				}
			}
			compareCarriers(t, g, other, want)
		})
	}
}

// termsBy returns two term counts of one key. The second has one carrier in the first
// domain.
func termsBy(key *topology) (g, other *TermCounts) {
	g, other = &TermCounts{topology: key}, &TermCounts{topology: key}
	other.counts.add(0, 1, len(key.value))
	return g, other
}

func compareCarriers(t *testing.T, g, other *TermCounts, want map[int32]int32) {
	t.Helper()
	listed := map[int32]int32{}
	g.Each(func(domain, pods int32) { listed[domain] += pods })
	alone, both := countsAt(New().SumCarriers([]*TermCounts{g})), countsAt(New().SumCarriers([]*TermCounts{g, other}))
	for domain := range int32(len(g.topology.value)) {
		plus := want[domain]
		if domain == 0 {
			plus++
		}
		if listed[domain] != want[domain] || alone[domain] != want[domain] || both[domain] != plus {
			t.Errorf("domain %d: listed %d, alone %d, with another %d; want %d", domain, listed[domain], alone[domain], both[domain], want[domain])
		}
	}
	var total int64
	for _, n := range want {
		total += int64(n)
	}
	if g.Total() != total || len(listed) != len(want) {
		t.Errorf("%d carriers in %d domains; want %d in %d", g.Total(), len(listed), total, len(want))
	}
}

// countsAt copies counts, which are valid only until the next call.
func countsAt(counts []int32) map[int32]int32 {
	all := map[int32]int32{}
	for domain, n := range counts {
		all[int32(domain)] = n
	}
	return all
}
