package manifest

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/proof/build"
)

// A marker is a line that begins a document. Text after it on its line belongs to the
// document, unless it is only space.
func TestMarkers(t *testing.T) {
	for _, test := range []struct {
		text, body string
		lines      int
	}{
		{"---\na", "a", 1}, {"---\r\na", "a", 1}, {"---  \r\na", "a", 1}, {"...\na", "a", 1}, {"---\n", "", 1}, {"---", "", 0}, {"--- ", " ", 0},
		{"--- a\nb", " a\nb", 0}, {"--- ~\na", " ~\na", 0}, {"--- # c\na", " # c\na", 0}, {"---\t\na", "\t\na", 0},
		{"a\nb", "a\nb", 0}, {"\na", "\na", 0}, {"--\na", "--\na", 0}, {"----\na", "----\na", 0}, {"---a\nb", "---a\nb", 0}, {".. \na", ".. \na", 0},
	} {
		if body, lines := afterMarker([]byte(test.text)); string(body) != test.body || lines != test.lines {
			t.Errorf("%q: %q after %d lines, want %q after %d", test.text, body, lines, test.body, test.lines)
		}
	}
}

// The elements of a list are found if "items:" stands alone in the first column, and
// dashes in one column follow.
func TestLayout(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"items:\n- a\n- b\n", "items 0 end 15 dash 0 at 7:1 11:2"},
		{"items: \r\n- a\n", "items 0 end 13 dash 0 at 9:1"},
		{"x: y\nitems:\n  - a\n    b\n  - c", "items 5 end 29 dash 2 at 12:2 24:4"},
		{"items:\n- a\nx: y\n- b\n", "items 0 end 11 dash 0 at 7:1"},
		{"items:\n- a\n\n# c\nx: y\n", "items 0 end 16 dash 0 at 7:1"},
		{"items:\n-\n  a\n", "items 0 end 13 dash 0 at 7:1"},
		{"items:~\n- a\n", "none"}, {"items:x\n- a\n", "none"}, {"items: -\n- a\n", "none"}, {" items:\n- a\n", "none"}, {"item:\n- a\n", "none"},
		{"items:\n-a\n", "none"}, {"items:\nx: y\n", "none"}, {"items:\n", "none"}, {"", "none"},
		{"items:\n  - a\n - b\n", "none"}, {"items:\n- a\nitems:\n- b\n", "none"},
	} {
		l := layout([]byte(test.text))
		got := fmt.Sprintf("items %d end %d dash %d at", l.items, l.end, l.dash)
		for _, s := range l.starts {
			got += fmt.Sprintf(" %d:%d", s.at, s.line)
		}
		if l.starts == nil {
			got = "none"
		}
		if got != test.want {
			t.Errorf("%q: %s, want %s", test.text, got, test.want)
		}
	}
}

// The suggested word differs in at most a third of the letters plus one. It is the
// nearest, and the first of equally near ones.
func TestSuggest(t *testing.T) {
	for _, test := range []struct {
		word  string
		known []string
		want  string
	}{
		{"nodes", []string{"node", "pod"}, "node"},
		{"NODES", []string{"nodes"}, "nodes"},
		{"abx", []string{"abd", "abc"}, "abc"},
		{"abx", []string{"axy", "abd"}, "abd"},
		{"abx", []string{"axy", "uvw"}, "axy"}, // two of three letters
		{"abx", []string{"uvw"}, ""},
		{"abcdef", []string{"abcxyz"}, "abcxyz"},
		{"abcdef", []string{"abwxyz"}, ""},
		{"abcdef", []string{"abcxyz", "abcuvw"}, "abcuvw"},
		{"abcdef", nil, ""},
	} {
		known := map[string]bool{}
		for _, word := range test.known {
			known[word] = true
		}
		want := ""
		if test.want != "" {
			want = "; did you mean " + test.want + "?"
		}
		if got := suggest(test.word, known); got != want {
			t.Errorf("%s of %v: %q, want %q", test.word, test.known, got, want)
		}
	}
}

// Pod-level requests are derived if pod-level limits are set: from the containers'
// requests, otherwise from the limits, and only for supported resources.
func TestPodRequests(t *testing.T) {
	for _, test := range []struct {
		name, containers, requests, limits string
		want                               string // empty if none
	}{
		{"no limits", "cpu=1", "", "", ""},
		{"requests without limits stay", "cpu=1", "cpu=3", "", "cpu=3"},
		{"of the containers", "cpu=1 memory=2Gi", "", "cpu=4", "cpu=1 memory=2Gi"},
		{"of the limits", "", "", "cpu=4 memory=4Gi", "cpu=4 memory=4Gi"},
		{"of both", "memory=2Gi", "", "cpu=4 memory=4Gi", "cpu=4 memory=2Gi"},
		{"what is requested stays", "cpu=1 memory=2Gi", "cpu=3", "cpu=4", "cpu=3 memory=2Gi"},
		{"what pods cannot have is left out", "example.com/gpu=1", "", "example.com/gpu=1", ""},
		{"and does not hide what they can", "example.com/gpu=1", "", "example.com/gpu=1 cpu=2", "cpu=2"},
	} {
		p := &v1.Pod{}
		p.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: build.Resources(test.containers)}}}
		if test.requests+test.limits != "" {
			p.Spec.Resources = &v1.ResourceRequirements{}
		}
		if test.requests != "" {
			p.Spec.Resources.Requests = build.Resources(test.requests)
		}
		if test.limits != "" {
			p.Spec.Resources.Limits = build.Resources(test.limits)
		}
		fillPodRequests(p)
		var got v1.ResourceList
		if p.Spec.Resources != nil {
			got = p.Spec.Resources.Requests
		}
		want := build.Resources(test.want)
		same := len(got) == len(want) && (got == nil) == (test.want == "")
		for name, q := range want {
			same = same && q.Cmp(got[name]) == 0
		}
		if !same {
			t.Errorf("%s: %v, want %v", test.name, got, want)
		}
	}
}

// A document of comments, directives and space is blank, however short the following
// lines are.
func TestBlank(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "\n": true, "#": true, "# c\n\n%YAML 1.1\n \t\r\n": true,
		"a": false, "\na": false, "#\na": false, "#\na\n": false, "\n\n-": false, " #\n\n{": false,
	} {
		if got := blank([]byte(text)); got != want {
			t.Errorf("%q is blank: %t", text, got)
		}
	}
}
