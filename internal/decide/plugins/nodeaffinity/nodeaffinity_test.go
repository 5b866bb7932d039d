package nodeaffinity

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

const (
	addedText = "node(s) didn't match scheduler-enforced node affinity"
	podText   = "node(s) didn't match Pod's node affinity/selector"
)

// terms parses required terms: terms are separated by "|", requirements by "&", the words
// of a requirement by spaces. A requirement that starts with "." is about a field.
func terms(text string) []v1.NodeSelectorTerm {
	var list []v1.NodeSelectorTerm
	for _, term := range strings.Split(text, "|") {
		var t v1.NodeSelectorTerm
		for _, requirement := range strings.Split(term, "&") {
			words := strings.Fields(requirement)
			if len(words) == 0 {
				continue
			}
			r := v1.NodeSelectorRequirement{Key: words[0], Operator: v1.NodeSelectorOperator(words[1]), Values: words[2:]}
			if name, ok := strings.CutPrefix(r.Key, "."); ok {
				r.Key = name
				t.MatchFields = append(t.MatchFields, r)
			} else {
				t.MatchExpressions = append(t.MatchExpressions, r)
			}
		}
		list = append(list, t)
	}
	return list
}

func requiring(text string) *v1.NodeAffinity {
	return &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: terms(text)}}
}

func preferring(weights []int32, text string) *v1.NodeAffinity {
	a := &v1.NodeAffinity{}
	for i, term := range terms(text) {
		a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution,
			v1.PreferredSchedulingTerm{Weight: weights[i], Preference: term})
	}
	return a
}

func pod(a *v1.NodeAffinity, selector ...string) *model.Pod {
	object := &v1.Pod{}
	if a != nil {
		object.Spec.Affinity = &v1.Affinity{NodeAffinity: a}
	}
	if len(selector) > 0 {
		object.Spec.NodeSelector = labels(selector...)
	}
	return model.NewPod(object)
}

func labels(pairs ...string) map[string]string {
	m := map[string]string{}
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		m[key] = value
	}
	return m
}

func node(name string, pairs ...string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels(pairs...)}}
}

func newPlugin(t testing.TB, added *v1.NodeAffinity) *Plugin {
	t.Helper()
	p, err := New(&configv1.NodeAffinityArgs{AddedAffinity: added})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestFilter(t *testing.T) {
	abc := requiring("cores Gt abc | disk In ssd")
	inB := requiring(".metadata.name In n1 & zone In b")
	noTerms := &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{}}
	for _, row := range []struct {
		name  string
		added *v1.NodeAffinity
		pod   *model.Pod
		node  *v1.Node
		want  string
	}{
		{"selector, other value", nil, pod(nil, "disk=ssd"), node("n", "disk=hdd"), podText},
		{"selector, no label", nil, pod(nil, "disk="), node("n"), podText},
		{"selector, value of no valid form", nil, pod(nil, "disk=a b"), node("n", "disk=a b"), ""},
		{"selector, all entries", nil, pod(nil, "disk=ssd", "zone=a"), node("n", "disk=ssd", "zone=b"), podText},
		{"nothing required", nil, pod(nil), node("n"), ""},
		{"not in, no label", nil, pod(requiring("zone NotIn a")), node("n"), ""},
		{"greater", nil, pod(requiring("cores Gt 8")), node("n", "cores=16"), ""},
		{"greater, not a number", nil, pod(requiring("cores Gt 8")), node("n", "cores=abc"), podText},
		{"greater, no label", nil, pod(requiring("cores Gt 8")), node("n"), podText},
		{"bad term, good term", nil, pod(abc), node("n", "disk=ssd"), ""},
		{"bad term, good term elsewhere", nil, pod(abc), node("n", "disk=hdd"), podText},
		{"empty term", nil, pod(requiring("")), node("n"), podText},
		{"no terms", nil, pod(noTerms), node("n"), podText},
		{"conflict in one term", nil, pod(requiring(".metadata.name In n1 & .metadata.name In n2")), node("n1"), podText},
		{"name and zone, other zone", nil, pod(inB), node("n1", "zone=a"), podText},
		{"name and zone, other name", nil, pod(inB), node("n2", "zone=b"), podText},
		{"name not in", nil, pod(requiring(".metadata.name NotIn n1")), node("n2"), ""},
		{"other field reads as empty", nil, pod(requiring(".metadata.namespace NotIn x")), node("n"), ""},
		{"two values of a field", nil, pod(requiring(".metadata.name In n1 n2")), node("n1"), podText},
		{"selector and terms", nil, pod(requiring("zone In a"), "disk=ssd"), node("n", "zone=a", "disk=hdd"), podText},
		{"added, pod requires nothing", requiring("zone In a"), pod(nil), node("n", "zone=b"), addedText},
		{"added first", requiring("zone In a"), pod(nil, "disk=ssd"), node("n", "zone=b"), addedText},
		{"added and pod's", requiring("zone In a"), pod(nil, "disk=ssd"), node("n", "zone=a"), podText},
		{"added, all match", requiring("zone In a"), pod(nil, "disk=ssd"), node("n", "zone=a", "disk=ssd"), ""},
		{"added without terms", noTerms, pod(nil), node("n"), addedText},
	} {
		p := newPlugin(t, row.added)
		if row.want != "" && plugintest.FilterNeed(p, row.pod).IsZero() {
			t.Errorf("%s: no need", row.name)
		}
		filter := plugintest.Verdicts(p, row.pod)
		code := filter.Filter(plugintest.Node(row.node))
		var got string
		if code != 0 {
			got = filter.Reasons(code)[0]
		}
		if got != row.want || code != 0 && !code.IsUnresolvable() {
			t.Errorf("%s: got %x %q, want %q", row.name, code, got, row.want)
		}
	}
}

func TestNarrow(t *testing.T) {
	const name = ".metadata.name In "
	for _, row := range []struct {
		name, terms string
		want        []string
		rejection   string
	}{
		{"conflict in the only term", name + "n1 & " + name + "n2", nil, "pod affinity terms conflict"},
		{"conflict in one of two", name + "n1 & " + name + "n2 |" + name + "n3", []string{"n3"}, ""},
		{"a term without names", name + "n1 | disk In ssd", nil, ""},
		{"expressions do not narrow", name + "n1 & zone In b", []string{"n1"}, ""},
		{"union", name + "n2 |" + name + "n1 |" + name + "n2", []string{"n1", "n2"}, ""},
		{"intersection", name + "n1 n2 n3 & " + name + "n3 n2", []string{"n2", "n3"}, ""},
		{"not in", ".metadata.name NotIn n1", nil, ""},
		{"not in beside in", name + "n1 & .metadata.name NotIn n1", []string{"n1"}, ""},
		{"another field", ".metadata.namespace In n1", nil, ""},
		{"no values", name, nil, "pod affinity terms conflict"},
		{"an empty term", "", nil, ""},
	} {
		p, pod := newPlugin(t, nil), pod(requiring(row.terms))
		result := p.PreFilter(state.View{}, pod)
		if p.Skips(pod) != (row.want == nil && row.rejection == "") {
			t.Errorf("%s: skips: %t", row.name, p.Skips(pod))
		}
		names, narrowed, rejection := result.Nodes, result.Narrowed, result.Rejection
		if !slices.Equal(names, row.want) || narrowed != (row.want != nil) || rejection != row.rejection {
			t.Errorf("%s: got %q, %t, %q", row.name, names, narrowed, rejection)
		}
	}
	for _, free := range []*model.Pod{pod(nil), pod(nil, "disk=ssd"), pod(&v1.NodeAffinity{}),
		pod(&v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{}})} {
		p := newPlugin(t, nil)
		if result := p.PreFilter(state.View{}, free); !result.IsZero() || !p.Skips(free) {
			t.Errorf("the result is %+v for a pod that names no node", result)
		}
	}
}

func TestScore(t *testing.T) {
	three := preferring([]int32{10, 5, 50}, "disk In ssd | zone In a |")
	for _, row := range []struct {
		name  string
		added *v1.NodeAffinity
		pod   *model.Pod
		node  *v1.Node
		want  int32
	}{
		{"both", nil, pod(three), node("n1", "disk=ssd", "zone=a"), 15},
		{"one", nil, pod(three), node("n2", "zone=a"), 5},
		{"none", nil, pod(three), node("n3"), 0},
		{"added only, match", preferring([]int32{1}, "disk In ssd"), pod(nil), node("n1", "disk=ssd"), 1},
		{"added only, no match", preferring([]int32{1}, "disk In ssd"), pod(nil), node("n2"), 0},
		{"added and pod's", preferring([]int32{1}, "disk In ssd"), pod(three), node("n1", "disk=ssd"), 11},
		{"weight 0 is not parsed", nil, pod(preferring([]int32{0, 3}, "cores Gt abc | disk Exists")), node("n", "disk="), 3},
		{"the same term twice", nil, pod(preferring([]int32{2, 2}, "disk Exists | disk Exists")), node("n", "disk="), 4},
		{"selector does not count", nil, pod(three, "disk=ssd"), node("n", "disk=ssd"), 10},
	} {
		scorer, err := plugintest.NodeScores(newPlugin(t, row.added), row.pod)
		if err != nil {
			t.Errorf("%s: %v", row.name, err)
			continue
		}
		if got := scorer.Score(plugintest.Node(row.node)); got != row.want {
			t.Errorf("%s: got %d, want %d", row.name, got, row.want)
		}
	}
	if newPlugin(t, nil).Normalization() != model.Largest {
		t.Error("scores are not normalised by the largest")
	}
}

func TestScoreErrors(t *testing.T) {
	p := newPlugin(t, nil)
	bad := pod(preferring([]int32{1, 1}, "disk In ssd | cores Gt abc"))
	_, err := plugintest.NodeScores(p, bad)
	const want = `[1].matchExpressions[0].values[0]: Invalid value: "abc": for 'Gt', 'Lt' operators, the value must be an integer`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	// The error names the position of the term, so order matters here and only here.
	other := pod(preferring([]int32{1, 1}, "cores Gt abc | disk In ssd"))
	if plugintest.ScoreNeed(p, bad).IsZero() || plugintest.ScoreNeed(p, bad) == plugintest.ScoreNeed(p, other) {
		t.Error("pods that fail with different errors share a need")
	}
}

func TestArguments(t *testing.T) {
	bad := requiring("cores Gt abc")
	bad.PreferredDuringSchedulingIgnoredDuringExecution = preferring([]int32{1}, ".metadata.name Exists").PreferredDuringSchedulingIgnoredDuringExecution
	for _, row := range []struct {
		name  string
		added *v1.NodeAffinity
		want  []string
	}{
		{"nothing", nil, nil},
		{"empty", &v1.NodeAffinity{}, nil},
		{"required", requiring("-x Exists"), []string{"addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key"}},
		{"both", bad, []string{
			"addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values[0]",
			"addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].matchFields[0].operator",
		}},
	} {
		_, err := New(&configv1.NodeAffinityArgs{AddedAffinity: row.added})
		if (err != nil) != (row.want != nil) {
			t.Errorf("%s: error %v", row.name, err)
		}
		for _, want := range row.want {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in %q", row.name, want, err)
			}
		}
	}
	if _, err := New(nil); err != nil {
		t.Error(err)
	}
}

func TestNeeds(t *testing.T) {
	p := newPlugin(t, nil)
	for _, row := range []struct {
		name       string
		one, other *model.Pod
		equal      bool
	}{
		{"selector, as often as you like", pod(nil, "a=1", "b=2", "c=3"), pod(nil, "c=3", "b=2", "a=1"), true},
		{"order of terms", pod(requiring("a In 1 | b In 2")), pod(requiring("b In 2 | a In 1")), true},
		{"order of requirements", pod(requiring("a In 1 & b In 2")), pod(requiring("b In 2 & a In 1")), true},
		{"order of values", pod(requiring("a In 1 2")), pod(requiring("a In 2 1")), true},
		{"empty terms", pod(requiring("a In 1 |")), pod(requiring("a In 1")), true},
		{"and, or", pod(requiring("a In 1 & b In 2")), pod(requiring("a In 1 | b In 2")), false},
		{"operator", pod(requiring("a In 1")), pod(requiring("a NotIn 1")), false},
		{"field, label", pod(requiring("metadata.name In 1")), pod(requiring(".metadata.name In 1")), false},
		{"selector, term", pod(nil, "a=1"), pod(requiring("a In 1")), false},
		{"terms that match nothing", pod(requiring(""), "a=1"), pod(nil, "a=1"), false},
		{"repeated value of a field", pod(requiring(".metadata.name In 1 1")), pod(requiring(".metadata.name In 1")), false},
		{"split names", pod(nil, `a"=b`), pod(nil, `a="b`), false},
	} {
		if got := plugintest.FilterNeed(p, row.one) == plugintest.FilterNeed(p, row.other); got != row.equal {
			t.Errorf("filter, %s: equal = %t: %s and %s", row.name, got, plugintest.FilterNeed(p, row.one), plugintest.FilterNeed(p, row.other))
		}
	}
	for _, row := range []struct {
		name       string
		one, other *v1.NodeAffinity
		equal      bool
	}{
		{"order of terms", preferring([]int32{1, 2}, "a In 1 | b In 2"), preferring([]int32{2, 1}, "b In 2 | a In 1"), true},
		{"order of values", preferring([]int32{1}, "a In 1 2"), preferring([]int32{1}, "a In 2 1"), true},
		{"terms without weight", preferring([]int32{1, 0}, "a In 1 | b In 2"), preferring([]int32{1}, "a In 1"), true},
		{"weight", preferring([]int32{1}, "a In 1"), preferring([]int32{2}, "a In 1"), false},
		{"repetition", preferring([]int32{1, 1}, "a In 1 | a In 1"), preferring([]int32{1}, "a In 1"), false},
	} {
		one, other := plugintest.ScoreNeed(p, pod(row.one)), plugintest.ScoreNeed(p, pod(row.other))
		if got := one == other; got != row.equal {
			t.Errorf("score, %s: equal = %t: %s and %s", row.name, got, one, other)
		}
	}
	if !plugintest.FilterNeed(p, pod(nil)).IsZero() || !plugintest.FilterNeed(p, pod(preferring([]int32{1}, "a In 1"))).IsZero() {
		t.Error("a pod that requires nothing has a filter need")
	}
	if !plugintest.ScoreNeed(p, pod(nil)).IsZero() || !plugintest.ScoreNeed(p, pod(requiring("a In 1"))).IsZero() {
		t.Error("a pod that prefers nothing has a score need")
	}
	if plugintest.ScoreNeed(p, pod(preferring([]int32{1, 0}, "| a In 1"))).IsZero() {
		t.Error("terms that do not count take the score away, where kube-scheduler gives 0")
	}
	if added := newPlugin(t, requiring("a In 1")); plugintest.FilterNeed(added, pod(nil)).IsZero() || !plugintest.ScoreNeed(added, pod(nil)).IsZero() {
		t.Error("an added required term is a need of every pod, but only of the filter")
	}
	if added := newPlugin(t, preferring([]int32{1}, "a In 1")); !plugintest.FilterNeed(added, pod(nil)).IsZero() || plugintest.ScoreNeed(added, pod(nil)).IsZero() {
		t.Error("an added preferred term is a need of every pod, but only of the scorer")
	}
}

func TestEventsToRegister(t *testing.T) {
	a, b, neither := node("n", "zone=a"), node("n", "zone=b"), node("n")
	event := func(action model.Action, before, after *v1.Node) model.Event {
		e := model.Event{Resource: model.NodeEvent, Action: action, Node: model.NewNode(after)}
		if before != nil {
			e.OldNode = model.NewNode(before)
		}
		return e
	}
	const relabel = model.UpdateNodeLabel
	inA := pod(requiring("zone In a"))
	for _, row := range []struct {
		name  string
		added *v1.NodeAffinity
		pod   *model.Pod
		event model.Event
		want  bool
	}{
		{"matching node added", nil, inA, event(model.Add, nil, a), true},
		{"other node added", nil, inA, event(model.Add, nil, b), false},
		{"comes to match", nil, inA, event(relabel, b, a), true},
		{"matched before", nil, pod(requiring("zone Exists")), event(relabel, b, a), false},
		{"still no match", nil, inA, event(relabel, neither, b), false},
		{"comes to match the selector", nil, pod(nil, "zone=a"), event(relabel, b, a), true},
		{"bad term, no match", nil, pod(requiring("cores Gt abc")), event(relabel, b, a), true},
		{"bad term, no match, added", nil, pod(requiring("cores Gt abc")), event(model.Add, nil, a), true},
		{"bad term, but a match, and none before", nil, pod(requiring("cores Gt abc | zone In a")), event(relabel, b, a), true},
		{"fails what is added", requiring("zone In b"), inA, event(relabel, b, a), false},
		{"only what is added comes to match", requiring("disk Exists"), inA, event(relabel, a, node("n", "zone=a", "disk=")), true},
		{"nothing that is added changes", requiring("zone Exists"), inA, event(relabel, a, node("n", "zone=a", "disk=")), false},
		{"only what is added, and the pod requires nothing", requiring("disk Exists"), pod(nil), event(relabel, a, node("n", "disk=")), true},
		{"bad term, fails what is added", requiring("disk Exists"), pod(requiring("cores Gt abc")), event(model.Add, nil, a), false},
		{"taints", nil, inA, event(model.UpdateNodeTaint, b, a), false},
	} {
		if helps := plugintest.Helped(t, newPlugin(t, row.added), row.pod, row.event); helps != row.want {
			t.Errorf("%s: helps = %t, want %t", row.name, helps, row.want)
		}
	}
}

func TestAllocatesNothing(t *testing.T) {
	waiting := busy()
	p := newPlugin(t, requiring("zone Exists"))
	filter := plugintest.Verdicts(p, waiting)
	scorer, err := plugintest.NodeScores(p, waiting)
	if err != nil {
		t.Fatal(err)
	}
	n := plugintest.Node(node("n", "disk=ssd", "zone=a", "cores=many"))
	if allocs := testing.AllocsPerRun(100, func() { filter.Filter(n); scorer.Score(n) }); allocs != 0 {
		t.Errorf("Filter and Score allocate %v times", allocs)
	}
}

// busy returns a pod with a selector, required and preferred terms.
func busy() *model.Pod {
	a := requiring("zone In b c d & disk Exists | cores Gt 8 & zone In a | .metadata.name In n1")
	a.PreferredDuringSchedulingIgnoredDuringExecution =
		preferring([]int32{1, 2}, "zone In b c d | cores Lt 8").PreferredDuringSchedulingIgnoredDuringExecution
	return pod(a, "disk=ssd")
}

func BenchmarkFilter(b *testing.B) {
	filter, n := plugintest.Verdicts(newPlugin(b, nil), busy()), plugintest.Node(node("n", "disk=ssd", "zone=a", "cores=4"))
	b.ReportAllocs()
	for b.Loop() {
		filter.Filter(n)
	}
}

func BenchmarkScore(b *testing.B) {
	scorer, _ := plugintest.NodeScores(newPlugin(b, nil), busy())
	n := plugintest.Node(node("n", "disk=ssd", "zone=a", "cores=4"))
	b.ReportAllocs()
	for b.Loop() {
		scorer.Score(n)
	}
}

func BenchmarkFilterNeed(b *testing.B) {
	p, waiting := newPlugin(b, nil), busy()
	b.ReportAllocs()
	for b.Loop() {
		plugintest.FilterNeed(p, waiting)
	}
}

func BenchmarkScoreNeed(b *testing.B) {
	p, waiting := newPlugin(b, nil), busy()
	b.ReportAllocs()
	for b.Loop() {
		plugintest.ScoreNeed(p, waiting)
	}
}
