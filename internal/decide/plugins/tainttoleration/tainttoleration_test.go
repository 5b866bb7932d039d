package tainttoleration

import (
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

const (
	exists   = v1.TolerationOpExists
	equal    = v1.TolerationOpEqual
	less     = v1.TolerationOpLt
	greater  = v1.TolerationOpGt
	no       = v1.TaintEffectNoSchedule
	noExec   = v1.TaintEffectNoExecute
	preferNo = v1.TaintEffectPreferNoSchedule
)

func tol(key string, op v1.TolerationOperator, value string, effect v1.TaintEffect) v1.Toleration {
	return v1.Toleration{Key: key, Operator: op, Value: value, Effect: effect}
}

func taint(key, value string, effect v1.TaintEffect) v1.Taint {
	return v1.Taint{Key: key, Value: value, Effect: effect}
}

func pod(tolerations ...v1.Toleration) *model.Pod {
	return model.NewPod(&v1.Pod{Spec: v1.PodSpec{Tolerations: tolerations}})
}

func node(taints ...v1.Taint) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1.NodeSpec{Taints: taints}}
}

func TestFilter(t *testing.T) {
	const off, on = EqualAndExists, WithComparisons
	both := node(taint("a", "b", no), taint("a", "b", noExec))
	sla := node(taint("sla", "990", no))
	for _, row := range []struct {
		name      string
		operators Operators
		pod       *model.Pod
		node      *v1.Node
		fits      bool
	}{
		{"untolerated", off, pod(), node(taint("a", "b", no)), false},
		{"advice", off, pod(), node(taint("a", "b", preferNo)), true},
		{"one effect of two", off, pod(tol("a", equal, "b", no)), both, false},
		{"any effect", off, pod(tol("a", equal, "b", "")), both, true},
		{"exists ignores values", off, pod(tol("a", exists, "", "")), node(taint("a", "zzz", noExec)), true},
		{"exists ignores its own value", off, pod(tol("a", exists, "x", "")), node(taint("a", "zzz", noExec)), true},
		{"no operator, another value", off, pod(tol("a", "", "", "")), node(taint("a", "b", no)), false},
		{"no operator, empty value", off, pod(tol("a", "", "", "")), node(taint("a", "", no)), true},
		{"empty key compares values", off, pod(tol("", equal, "b", "")), both, true},
		{"unknown operator", off, pod(tol("a", "Near", "b", "")), both, false},
		{"greater, gate off", off, pod(tol("sla", greater, "950", "")), sla, false},
		{"greater, gate on", on, pod(tol("sla", greater, "950", "")), sla, true},
		{"not greater", on, pod(tol("sla", greater, "990", "")), sla, false},
		{"less", on, pod(tol("sla", less, "991", "")), sla, true},
		{"not canonical", on, pod(tol("sla", greater, "0950", "")), sla, false},
		{"taint not canonical", on, pod(tol("sla", greater, "0", "")), node(taint("sla", "+1", no)), false},
		{"everything", off, pod(tol("", exists, "", "")), both, true},
		{"seconds are ignored", off, pod(v1.Toleration{Key: "a", Operator: exists, TolerationSeconds: new(int64)}), both, true},
	} {
		filter := plugintest.Verdicts(New(row.operators), row.pod)
		code := filter.Filter(plugintest.Node(row.node))
		if fits := code == 0; fits != row.fits {
			t.Errorf("%s: fits = %t, want %t", row.name, fits, row.fits)
		}
		if code != 0 && (!code.IsUnresolvable() || filter.Reasons(code)[0] != "node(s) had untolerated taint(s)") {
			t.Errorf("%s: rejected with %x %q", row.name, code, filter.Reasons(code))
		}
	}
}

func TestScore(t *testing.T) {
	one := node(taint("x", "", preferNo))
	for _, row := range []struct {
		name string
		pod  *model.Pod
		node *v1.Node
		want int32
	}{
		{"no taints", pod(), node(), 0},
		{"one", pod(), one, 1},
		{"two", pod(), node(taint("x", "", preferNo), taint("y", "", preferNo)), 2},
		{"three", pod(), node(taint("x", "", preferNo), taint("y", "", preferNo), taint("z", "", preferNo)), 3},
		{"tolerated for another effect", pod(tol("x", exists, "", no)), one, 1},
		{"tolerated for its effect", pod(tol("x", exists, "", preferNo)), one, 0},
		{"tolerated for any effect", pod(tol("x", exists, "", "")), one, 0},
		{"forbidding taints do not count", pod(), node(taint("x", "", no), taint("y", "", noExec)), 0},
	} {
		scorer, err := plugintest.NodeScores(New(EqualAndExists), row.pod)
		if err != nil {
			t.Fatal(err)
		}
		if got := scorer.Score(plugintest.Node(row.node)); got != row.want {
			t.Errorf("%s: got %d, want %d", row.name, got, row.want)
		}
	}
	if New(EqualAndExists).Normalization() != model.LargestReversed {
		t.Error("scores are not reversed")
	}
}

func TestNeeds(t *testing.T) {
	a, b := tol("a", equal, "1", no), tol("b", exists, "", "")
	seconds := b
	seconds.TolerationSeconds = new(int64)
	for _, row := range []struct {
		name          string
		operators     Operators
		one, other    *model.Pod
		filter, score bool // equal needs
	}{
		{"order", 0, pod(a, b), pod(b, a), true, true},
		{"repetition", 0, pod(a, b), pod(a, b, b), true, true},
		{"empty operator", 0, pod(tol("a", "", "1", no)), pod(a), true, true},
		{"value of exists", 0, pod(tol("b", exists, "x", "")), pod(b), true, true},
		{"seconds", 0, pod(seconds), pod(b), true, true},
		{"tolerates all anyway", 0, pod(tol("", exists, "", "")), pod(a, tol("", exists, "", "")), true, true},
		{"effect of scoring only", 0, pod(tol("b", exists, "", preferNo)), pod(), true, false},
		{"effect of filtering only", 0, pod(a), pod(), false, true},
		{"other value", 0, pod(tol("b", equal, "1", "")), pod(tol("b", equal, "2", "")), false, false},
		{"comparison, gate off", 0, pod(tol("b", less, "1", "")), pod(), true, true},
		{"comparison, gate on", WithComparisons, pod(tol("b", less, "1", "")), pod(tol("b", greater, "1", "")), false, false},
		{"split names", 0, pod(tol(`a"`, equal, "b", "")), pod(tol("a", equal, `"b`, "")), false, false},
	} {
		p := New(row.operators)
		if got := plugintest.FilterNeed(p, row.one) == plugintest.FilterNeed(p, row.other); got != row.filter {
			t.Errorf("%s: filter needs equal = %t: %s and %s", row.name, got, plugintest.FilterNeed(p, row.one), plugintest.FilterNeed(p, row.other))
		}
		if got := plugintest.ScoreNeed(p, row.one) == plugintest.ScoreNeed(p, row.other); got != row.score {
			t.Errorf("%s: score needs equal = %t: %s and %s", row.name, got, plugintest.ScoreNeed(p, row.one), plugintest.ScoreNeed(p, row.other))
		}
	}
	p := New(EqualAndExists)
	if plugintest.FilterNeed(p, pod()).IsZero() || plugintest.ScoreNeed(p, pod()).IsZero() {
		t.Error("a pod without tolerations has no need")
	}
	if everything := pod(tol("", exists, "", "")); !plugintest.FilterNeed(p, everything).IsZero() || plugintest.ScoreNeed(p, everything).IsZero() {
		t.Error("a pod that tolerates everything passes every node, but still gets points")
	}
}

func TestEventsToRegister(t *testing.T) {
	x, y := taint("x", "", no), taint("y", "", no)
	nodeEvent := func(action model.Action, before, after *v1.Node) model.Event {
		e := model.Event{Resource: model.NodeEvent, Action: action, Node: model.NewNode(after)}
		if before != nil {
			e.OldNode = model.NewNode(before)
		}
		return e
	}
	target := func(action model.Action) model.Event {
		return model.Event{Resource: model.TargetPodEvent, Action: action, OldPod: pod(), Pod: pod()}
	}
	for _, row := range []struct {
		name  string
		event model.Event
		want  bool
	}{
		{"two taints become one", nodeEvent(model.UpdateNodeTaint, node(x, y), node(x)), false},
		{"the last taint goes", nodeEvent(model.UpdateNodeTaint, node(x), node()), true},
		{"a taint becomes advice", nodeEvent(model.UpdateNodeTaint, node(x), node(taint("x", "", preferNo))), true},
		{"was fine before", nodeEvent(model.UpdateNodeTaint, node(taint("x", "", preferNo)), node()), false},
		{"added with a taint", nodeEvent(model.Add, nil, node(x)), false},
		{"added without", nodeEvent(model.Add, nil, node()), true},
		{"labels", nodeEvent(model.UpdateNodeLabel, node(x), node()), false},
		{"tolerations", target(model.UpdatePodToleration), true},
		{"labels of the pod", target(model.UpdatePodLabel), false},
	} {
		helps := false
		for _, registration := range New(EqualAndExists).EventsToRegister() {
			helps = helps || registration.Helps(pod(), row.event)
		}
		if helps != row.want {
			t.Errorf("%s: helps = %t, want %t", row.name, helps, row.want)
		}
	}
}

// The API's own rule, which needs a logger and allocates, must give the same result.
func TestAgreesWithTheAPI(t *testing.T) {
	text := rapid.SampledFrom([]string{"", "a", "b", "0", "-0", "00", "7", "-7", "+7", "007", "8", "9223372036854775807", "9223372036854775808",
		"-9223372036854775808", "-9223372036854775809", "99999999999999999999"})
	effect := rapid.SampledFrom([]v1.TaintEffect{"", no, noExec, preferNo})
	operator := rapid.SampledFrom([]v1.TolerationOperator{"", exists, equal, less, greater, "Near"})
	key := rapid.SampledFrom([]string{"", "a", "b"})
	rapid.Check(t, func(t *rapid.T) {
		operators := rapid.SampledFrom([]Operators{EqualAndExists, WithComparisons}).Draw(t, "operators")
		list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) v1.Toleration {
			return tol(key.Draw(t, "key"), operator.Draw(t, "operator"), text.Draw(t, "value"), effect.Draw(t, "effect"))
		}), 0, 3).Draw(t, "tolerations")
		taint := taint(key.Draw(t, "taint key"), text.Draw(t, "taint value"), effect.Filter(func(e v1.TaintEffect) bool { return e != "" }).Draw(t, "taint effect"))
		var want bool
		for i := range list {
			want = want || list[i].ToleratesTaint(klog.Logger{}, &taint, operators == WithComparisons)
		}
		effects := forbids
		if advises(taint.Effect) {
			effects = advises
		}
		if got := tolerationsOf(list, effects, operators).tolerate(&taint); got != want {
			t.Fatalf("got %t, want %t", got, want)
		}
	})
}

func TestDecimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[-+]?[0-9]{0,20}x?`).Draw(t, "text")
		want, err := strconv.ParseInt(text, 10, 64)
		canonical := err == nil && strconv.FormatInt(want, 10) == text
		if got, ok := decimal(text); ok != canonical || ok && got != want {
			t.Fatalf("decimal(%q) = %d, %t", text, got, ok)
		}
	})
}

func TestAllocatesNothing(t *testing.T) {
	p, n := New(WithComparisons), plugintest.Node(node(taint("x", "no number", no), taint("y", "7", preferNo)))
	waiting := pod(tol("x", greater, "7", no), tol("y", less, "7", preferNo))
	filter := plugintest.Verdicts(p, waiting)
	scorer, _ := plugintest.NodeScores(p, waiting)
	if allocs := testing.AllocsPerRun(100, func() { filter.Filter(n); scorer.Score(n) }); allocs != 0 {
		t.Errorf("Filter and Score allocate %v times", allocs)
	}
}

// The tolerations that admission adds to every pod.
var usual = pod(tol(v1.TaintNodeNotReady, exists, "", noExec), tol(v1.TaintNodeUnreachable, exists, "", noExec))

func BenchmarkFilter(b *testing.B) {
	filter, n := plugintest.Verdicts(New(EqualAndExists), usual), plugintest.Node(node(taint("dedicated", "db", no)))
	b.ReportAllocs()
	for b.Loop() {
		filter.Filter(n)
	}
}

func BenchmarkScore(b *testing.B) {
	scorer, _ := plugintest.NodeScores(New(EqualAndExists), usual)
	n := plugintest.Node(node(taint("dedicated", "db", preferNo)))
	b.ReportAllocs()
	for b.Loop() {
		scorer.Score(n)
	}
}

func BenchmarkNeeds(b *testing.B) {
	p := New(EqualAndExists)
	b.ReportAllocs()
	for b.Loop() {
		plugintest.FilterNeed(p, usual)
		plugintest.ScoreNeed(p, usual)
	}
}
