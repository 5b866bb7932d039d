package reason

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTally compares tallies of random reasons with a map, for few and for many reasons.
func TestTally(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		different := []int{3, 50, 3000}[seed%3]
		var tally Tally
		nodes := map[string]int{}
		for range 1 + r.IntN(8) {
			n := 1 + r.IntN(20)
			var texts []string
			for range 1 + r.IntN(different) {
				text := fmt.Sprint("reason ", r.IntN(different))
				texts = append(texts, text)
				nodes[text] += n
			}
			tally.Add(n, texts...)
		}
		var lines []string
		for text, n := range nodes {
			lines = append(lines, fmt.Sprint(n, " ", text))
		}
		slices.Sort(lines)
		var got []string
		for _, c := range tally.Counts() {
			got = append(got, fmt.Sprint(c.Nodes, " ", c.Reason))
		}
		if diff := cmp.Diff(lines, got); diff != "" {
			t.Fatalf("seed %d: want (-), got (+):\n%s", seed, diff)
		}
		if again := tally.Counts(); len(again) > 0 {
			t.Fatalf("seed %d: %d counts are left", seed, len(again))
		}
	}
}

// TestTallyMerges: equal reasons take memory once, however often they are added.
func TestTallyMerges(t *testing.T) {
	var tally Tally
	texts := strings.Fields(strings.Repeat("x ", manyCounts))
	for range 100 {
		tally.Add(1, texts...)
	}
	if most := 4 * manyCounts; cap(tally.counts) > most {
		t.Errorf("%d equal reasons take %d places, want at most %d", 100*manyCounts, cap(tally.counts), most)
	}
	if got, want := tally.Counts(), []Count{{Nodes: 100 * manyCounts, Reason: "x"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
