package podtopologyspread

import (
	"math"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/internal/model"
)

// The matching in hints must agree with the library's selectors, and selectors with equal texts must select alike.
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
