package podtopologyspread

import (
	"math"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/internal/model"
)

// The matching in hints must agree with the library's selectors, and selectors with equal
// texts must select alike.
func TestSelectsAgreesWithSelectorOf(t *testing.T) {
	someKey := rapid.SampledFrom([]string{"a", "b", "c"})
	someValue := rapid.SampledFrom([]string{"", "x", "y"})
	someLabels := rapid.MapOfN(someKey, someValue, 0, 3)
	someRequirement := rapid.Custom(func(t *rapid.T) metav1.LabelSelectorRequirement {
		r := metav1.LabelSelectorRequirement{Key: someKey.Draw(t, "key"), Operator: rapid.SampledFrom([]metav1.LabelSelectorOperator{
			metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
		}).Draw(t, "operator")}
		if r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn {
			r.Values = rapid.SliceOfN(someValue, 1, 2).Draw(t, "values")
		}
		return r
	})
	seen := map[string]labels.Selector{}
	rapid.Check(t, func(t *rapid.T) {
		c := v1.TopologySpreadConstraint{MatchLabelKeys: rapid.SliceOfN(someKey, 0, 2).Draw(t, "keys")}
		if rapid.IntRange(0, 9).Draw(t, "absent") > 0 {
			c.LabelSelector = &metav1.LabelSelector{
				MatchLabels:      someLabels.Draw(t, "labels"),
				MatchExpressions: rapid.SliceOfN(someRequirement, 0, 2).Draw(t, "requirements"),
			}
		}
		own, other := someLabels.Draw(t, "own"), someLabels.Draw(t, "other")
		selector, err := selectorOf(&c, own)
		if err != nil {
			t.Fatal(err)
		}
		want := selector.Matches(labels.Set(other))
		if got := selects(&c, own, other); got != want {
			t.Fatalf("selects = %t, want %t", got, want)
		}
		text := string(model.AppendSelector(nil, c.LabelSelector, matchLabels(&c, own)...))
		if before, ok := seen[text]; ok && before.Matches(labels.Set(other)) != want {
			t.Fatalf("%s stands for %v and %v", text, before, selector)
		}
		seen[text] = selector
	})
}

func TestRounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Float64Range(0, 1<<50).Draw(t, "total")
		if got := rounded(total); got != int64(math.Round(total)) {
			t.Fatalf("rounded(%v) = %d", total, got)
		}
	})
	for _, total := range []float64{0, 0.5, math.Nextafter(0.5, 0), 1.5, 2.5, math.Nextafter(2.5, 2), 1 << 51} {
		if got := rounded(total); got != int64(math.Round(total)) {
			t.Errorf("rounded(%v) = %d", total, got)
		}
	}
}

// Searches are numbered, so that the marks of the last search need not be cleared. When
// the numbers wrap around, marks of an earlier search with the same number do not count.
func TestCountDomainsWhenNumbersAreUsedUp(t *testing.T) {
	x := &set{memory: &memory{}}
	domains := []int32{0, 1, 1, 3, 0}
	slots := []int32{0, 1, 2, 3, 4}
	for _, row := range []struct {
		search uint32 // the number of the last search
		slots  []int32
		want   int
	}{
		{0, slots, 3}, {1, slots[:1], 1}, {2, slots, 3}, {math.MaxUint32 - 1, slots[:4], 3}, {math.MaxUint32, slots, 3}, {1, slots[1:3], 1},
		{math.MaxUint32, nil, 0}, {1, slots, 3},
	} {
		x.search = row.search
		if got := x.countDomains(domains, row.slots); got != row.want {
			t.Errorf("after search %d: %d domains, want %d", row.search, got, row.want)
		}
	}
	// The first search after the wrap must ignore the marks of an earlier search with its
	// number.
	x.seen, x.search = slices.Repeat([]uint32{1}, 4), math.MaxUint32
	if got := x.countDomains(domains, slots); got != 3 {
		t.Errorf("%d domains, want 3", got)
	}
}

// Memory that is large enough is reused. Otherwise the new memory has spare capacity, so
// that a cluster that grows node by node does not reallocate for each node.
func TestGrown(t *testing.T) {
	made := 0
	var memory []int32
	for n := 1; n <= 10_000; n++ {
		before := cap(memory)
		memory = grown(memory, n)
		if len(memory) != n || cap(memory) > 3*n/2+1 {
			t.Fatalf("%d elements with room for %d, want %d", len(memory), cap(memory), n)
		}
		if cap(memory) != before {
			made++
		}
	}
	if made > 60 {
		t.Errorf("memory was made %d times", made)
	}
	if again := grown(memory, 5); len(again) != 5 || cap(again) != cap(memory) {
		t.Errorf("%d elements with room for %d, of memory for %d", len(again), cap(again), cap(memory))
	}
}

// The memory of scoring is shared: a need takes the memory that another has returned.
func TestMemoryIsTakenAgain(t *testing.T) {
	a, b := takeMemory(), takeMemory()
	if a == b {
		t.Fatal("two needs score in the same memory")
	}
	giveMemory(a)
	giveMemory(b)
	if c, d := takeMemory(), takeMemory(); c != b || d != a {
		t.Error("memory that was given back is not taken again")
	}
	giveMemory(a)
	giveMemory(b)
}
