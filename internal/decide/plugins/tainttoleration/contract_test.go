package tainttoleration

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func TestContract(t *testing.T) {
	plugintest.CheckContract(t, New(EqualAndExists), plugintest.Contract{
		Name: "TaintToleration", FilterReads: model.Taints, ScoreReads: model.Taints, Normalization: model.LargestReversed,
		Events: []string{"NodeAdd NodeUpdateNodeTaint, hint, alike, cause", "TargetPodUpdatePodToleration"},
	})
}

// The texts of needs are compared literally: an incomplete text would let pods share a
// wrong column.
func TestTexts(t *testing.T) {
	p := New(WithComparisons)
	for _, row := range []struct {
		pod           *model.Pod
		filter, score string
	}{
		{pod(), "filter", "score"},
		{pod(tol("b", exists, "x", ""), tol("a", equal, "1", no)), `filter "a"Equal"1"NoSchedule "b"Exists""`, `score "b"Exists""`},
		{pod(tol("a", "", "1", preferNo)), "filter", `score "a"Equal"1"PreferNoSchedule`},
		{pod(tol("n", less, "5", noExec), tol("n", greater, "5", noExec)), `filter "n"Gt"5"NoExecute "n"Lt"5"NoExecute`, "score"},
		{pod(tol("a", equal, "1", no), tol("", exists, "", no), tol("", exists, "", "")), "", `score ""Exists""`},
	} {
		if got := plugintest.FilterNeed(p, row.pod).String(); got != row.filter {
			t.Errorf("filter: got %s, want %s", got, row.filter)
		}
		if got := plugintest.ScoreNeed(p, row.pod).String(); got != row.score {
			t.Errorf("score: got %s, want %s", got, row.score)
		}
	}
	if p.FilterNeed(pod()) != p.FilterNeed(pod()) || p.ScoreNeed(pod()) != p.ScoreNeed(pod()) {
		t.Error("the needs of pods without tolerations are not shared")
	}
}

func TestCauses(t *testing.T) {
	waiting := pod(tol("a", equal, "1", no), tol("b", exists, "x", noExec), tol("", equal, "2", no), tol("c", exists, "", preferNo))
	want := []string{`wants any; keys "" "tolerated" "tolerated:a=1" "tolerated:b!"`}
	if got := plugintest.Causes(New(EqualAndExists), waiting); !slices.Equal(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	event := func(before, after *v1.Node) model.Event {
		e := model.Event{Resource: model.NodeEvent, Action: model.UpdateNodeTaint, Node: model.NewNode(after)}
		if before == nil {
			e.Action = model.Add
		} else {
			e.OldNode = model.NewNode(before)
		}
		return e
	}
	x := taint("x", "1", no)
	const seeksX = `has none; seeks "tolerated"|"tolerated:x!"|"tolerated:x=1"`
	for _, row := range []struct {
		name          string
		before, after *v1.Node
		want          string
	}{
		{"added", nil, node(x, taint("w", "", noExec), taint("z", "", preferNo)), seeksX + ` & "tolerated"|"tolerated:w"|"tolerated:w!"`},
		{"added without a taint", nil, node(), "has none; seeks all"},
		{"one came", node(x), node(x, taint("y", "", no)), "has none; seeks none"},
		{"one went", node(x, taint("y", "", no)), node(x), seeksX},
		{"one that only advises went", node(x, taint("y", "", preferNo)), node(x), "has none; seeks none"},
		{"another key", node(taint("y", "1", no)), node(x), seeksX},
		{"another value", node(taint("x", "2", no)), node(x), seeksX},
		{"another effect", node(taint("x", "1", noExec)), node(x), seeksX},
		{"the same in another order", node(x, taint("x", "2", no)), node(taint("x", "2", no), x), "has none; seeks none"},
	} {
		if got := plugintest.Touched(New(EqualAndExists), event(row.before, row.after)); !slices.Equal(got, []string{row.want}) {
			t.Errorf("%s: got %s, want %s", row.name, got, row.want)
		}
	}
}

func TestDecimals(t *testing.T) {
	for _, row := range []struct {
		text string
		want int64
		ok   bool
	}{
		{"0", 0, true}, {"-0", 0, false}, {"00", 0, false}, {"01", 0, false}, {"10", 10, true}, {"-10", -10, true}, {"", 0, false}, {"-", 0, false},
		{"/", 0, false}, {":", 0, false}, {"1x", 0, false}, {"9", 9, true},
		{"9223372036854775807", 1<<63 - 1, true}, {"9223372036854775808", 0, false}, {"-9223372036854775808", -1 << 63, true}, {"-9223372036854775809", 0, false},
		{"10000000000000000000", 0, false}, {"20000000000000000000", 0, false},
	} {
		if got, ok := decimal(row.text); ok != row.ok || ok && got != row.want {
			t.Errorf("%q: got %d, %t, want %d, %t", row.text, got, ok, row.want, row.ok)
		}
	}
}

func TestComparisons(t *testing.T) {
	for _, row := range []struct {
		op           v1.TolerationOperator
		bound, taint string
		want         bool
	}{
		{less, "5", "4", true}, {less, "5", "5", false}, {less, "5", "6", false}, {less, "5", "four", false}, {less, "-5", "four", false},
		{greater, "5", "6", true}, {greater, "5", "5", false}, {greater, "5", "4", false}, {greater, "-5", "four", false}, {greater, "five", "6", false},
	} {
		filter := plugintest.Verdicts(New(WithComparisons), pod(tol("n", row.op, row.bound, no)))
		if got := filter.Filter(plugintest.Node(node(taint("n", row.taint, no)))) == 0; got != row.want {
			t.Errorf("%s %s tolerates %s: %t, want %t", row.op, row.bound, row.taint, got, row.want)
		}
	}
}
