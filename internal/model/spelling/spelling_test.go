package spelling

import (
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	long := strings.Repeat("a", maxWord+1)
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"pod", "pod", 0}, {"", "pod", 3}, {"pods", "pod", 1}, {"spce", "spec", 2}, {"kitten", "sitting", 3}, {long, long, maxWord + 1},
	} {
		if got := Distance(test.a, test.b); got != test.want {
			t.Errorf("from %.10q to %.10q: %d, want %d", test.a, test.b, got, test.want)
		}
		if got := Distance(test.b, test.a); got != test.want {
			t.Errorf("from %.10q to %.10q: %d, want %d", test.b, test.a, got, test.want)
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"filter", "filters", "score", "preScore"}
	for word, want := range map[string]string{"Filter": "filter", "filterz": "filter", "prescore": "preScore", "bind": "", "": ""} {
		if got := Nearest(word, words); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}
