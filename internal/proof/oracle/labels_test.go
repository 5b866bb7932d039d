package oracle

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// The selector must match the same labels as k8s.io/apimachinery's, and fail to parse on
// the same inputs.
func TestSelector(t *testing.T) {
	chosen := []*metav1.LabelSelector{
		choose("absent"), choose("everything"), choose("app=x"), choose("app=x tier=t"), choose("app="), choose("app=a/b"), choose("a/b/c=x"), choose("app Near x"), choose("app Gt 3"),
	}
	for _, operator := range []string{"In", "NotIn", "Exists", "DoesNotExist"} {
		for _, values := range []string{"", " x", " x,y", " -x"} {
			chosen = append(chosen, choose("app "+operator+values), choose("tier Exists; app "+operator+values))
		}
	}
	mixed := choose("app NotIn y")
	mixed.MatchLabels = labelsOf("tier=t")
	parsed := 0
	for _, from := range append(chosen, mixed) {
		theirs, err := metav1.LabelSelectorAsSelector(from)
		if ours := parseSelector(from); (ours != nil) != (err != nil) {
			t.Errorf("%v: got %v, want %v", from, ours, err)
		}
		if err != nil {
			continue
		}
		parsed++
		if got := selectorOf(from).everything(); got != theirs.Empty() {
			t.Errorf("%v: everything is %v", from, got)
		}
		for _, on := range []string{"", "app=x", "app=y", "app=z", "app=", "tier=t", "app=x tier=t", "app=y tier=u"} {
			if got := selectorOf(from).matches(labelsOf(on)); got != theirs.Matches(labels.Set(labelsOf(on))) {
				t.Errorf("%v on %q: got %v", from, on, got)
			}
		}
	}
	if parsed < 15 {
		t.Errorf("only %d selectors parsed", parsed)
	}
}
