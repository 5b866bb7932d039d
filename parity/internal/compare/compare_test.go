package compare

import (
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/answers/explain"
	"github.com/berth-scheduler/berth/parity/internal/cases"
	"github.com/berth-scheduler/berth/parity/internal/upstream"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// TestNode checks that every kind of difference in a node is found.
func TestNode(t *testing.T) {
	total := int64(250)
	rejected := func(plugin, code string, reasons ...string) explain.Node {
		return explain.Node{Name: "n", Rejections: []explain.Rejection{{Plugin: plugin, Code: code, Reasons: reasons}}}
	}
	scored := func(score, weight int64) explain.Node {
		return explain.Node{Name: "n", Feasible: true, Scores: []explain.Score{{Plugin: "A", Score: score, Weight: weight}}, Total: &total}
	}
	no := upstream.Node{Name: "n", First: &upstream.Rejection{Plugin: "A", Code: "Unschedulable", Reasons: []string{"x", "y"}}}
	no.All = []upstream.Rejection{*no.First}
	yes := upstream.Node{Name: "n", Feasible: true, Total: 250, Scores: []upstream.Score{
		{Plugin: "A", Weight: 5, Raw: 7, Normalised: 50, Weighted: 250}, {Plugin: "Missing", Weight: 2},
	}}
	for _, tt := range []struct {
		name   string
		ours   explain.Node
		theirs upstream.Node
		want   string // the differing parts
	}{
		{"same", rejected("A", "Unschedulable", "x", "y"), no, ""},
		{"reasons in another order", rejected("A", "Unschedulable", "y", "x"), no, ""},
		{"a reason less", rejected("A", "Unschedulable", "x"), no, "first objection, all objections"},
		{"a reason's text", rejected("A", "Unschedulable", "x", "Y"), no, "first objection, all objections"},
		{"the code", rejected("A", "UnschedulableAndUnresolvable", "x", "y"), no, "first objection, all objections"},
		{"the plugin", rejected("B", "Unschedulable", "x", "y"), no, "first objection, all objections"},
		{"another objection", explain.Node{Name: "n", Rejections: append(rejected("A", "Unschedulable", "x", "y").Rejections,
			rejected("B", "Unschedulable", "z").Rejections...)}, no, "all objections"},
		{"feasible", explain.Node{Name: "n", Feasible: true}, no, "feasible, first objection, all objections"},
		{"same scores", scored(50, 5), yes, ""},
		{"a point more", scored(51, 5), yes, "scores"},
		{"a weight", scored(50, 4), yes, "scores"},
		{"no scores", explain.Node{Name: "n", Feasible: true}, yes, "scores"},
	} {
		c := comparison{pod: "default/p", missing: []string{"Missing"}}
		c.node(&tt.ours, &tt.theirs)
		var what []string
		for _, d := range c.differences {
			what = append(what, d.What)
		}
		if got := strings.Join(what, ", "); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestMissingPlugin checks that a plugin that Berth lacks may score 0; any other score is
// a difference.
func TestMissingPlugin(t *testing.T) {
	c := comparison{missing: []string{"Missing"}}
	n := upstream.Node{Name: "n", Feasible: true, Scores: []upstream.Score{{Plugin: "Missing", Weight: 2, Normalised: 3}}, Total: 6}
	if c.node(&explain.Node{Name: "n", Feasible: true}, &n); len(c.differences) != 1 {
		t.Errorf("got %v", c.differences)
	}
}

// TestCount checks that every pair of a pending pod and a node counts once, and a pod
// without nodes counts as one.
func TestCount(t *testing.T) {
	for _, s := range cases.Shapes() {
		tc := s.Draw(1)
		pending := 0
		for _, p := range tc.Pods {
			if p.Spec.NodeName == "" {
				pending++
			}
		}
		r, err := InProcess().Case(tc)
		if err != nil {
			t.Fatal(err)
		}
		if want := pending * max(1, len(tc.Nodes)); r.Passed+r.Failed > want || r.Passed == 0 {
			t.Errorf("%s: %d passed, %d failed of %d", s.Name, r.Passed, r.Failed, want)
		}
	}
}
