package nodeaffinity

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func TestContract(t *testing.T) {
	plugintest.CheckContract(t, newPlugin(t, nil), plugintest.Contract{
		Name: "NodeAffinity", FilterReads: model.Labels, ScoreReads: model.Labels, Normalization: model.Largest,
		Events: []string{"NodeAdd NodeUpdateNodeLabel, hint, alike, cause"},
	})
}

// The texts of needs are compared literally: an incomplete text would let pods share a
// wrong column.
func TestTexts(t *testing.T) {
	p := newPlugin(t, nil)
	for _, row := range []struct {
		pod           *model.Pod
		filter, score string
	}{
		{pod(nil, "b=2", "a=1"), `filter "a"="1" "b"="2"`, ""},
		{pod(requiring("zone In b a & disk Exists | .metadata.name NotIn n1"), "a=1"),
			`filter "a"="1" one of(field"metadata.name""NotIn""n1") (label"disk""Exists" label"zone""In""a""b")`, ""},
		{pod(&v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{}}), "filter one of", ""},
		{pod(preferring([]int32{5, 0, 7}, "zone In b a | x Exists | .metadata.name In n1")), "",
			`score5(label"zone""In""a""b") 7(field"metadata.name""In""n1")`},
		{pod(preferring([]int32{0}, "x Exists")), "", "score"},
		{pod(preferring([]int32{5}, "x Near y")), "", `error [0].matchExpressions[0].operator: Unsupported value: "Near": ` +
			`supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"`},
	} {
		if got := plugintest.FilterNeed(p, row.pod).String(); got != row.filter {
			t.Errorf("filter: got %s, want %s", got, row.filter)
		}
		if got := plugintest.ScoreNeed(p, row.pod).String(); got != row.score {
			t.Errorf("score: got %s, want %s", got, row.score)
		}
	}
}

func TestCauses(t *testing.T) {
	many := "k In"
	var manyKeys []string
	for i := range maxValues {
		many += fmt.Sprintf(" v%02d", i)
		manyKeys = append(manyKeys, fmt.Sprintf(`"label:k=v%02d"`, i))
	}
	for _, row := range []struct {
		name string
		pod  *model.Pod
		want string
	}{
		{"selector", pod(nil, "kubernetes.io/arch=arm64", "kubernetes.io/os=linux", "zone=b"),
			`wants "label:zone=b" & "label:kubernetes.io/arch=arm64" & "label:kubernetes.io/os=linux"; ` +
				`keys "" "label:kubernetes.io/arch=arm64" "label:kubernetes.io/os=linux" "label:zone=b"`},
		{"terms", pod(requiring("zone In b a & cores Gt 4 & bad NotIn x & worse DoesNotExist | .metadata.name In n1"), "s=1"),
			`wants none or "label:zone=a"|"label:zone=b" & "label:cores!" & "label:s=1" or "name:n1" & "label:s=1"; ` +
				`keys "" "label:bad!" "label:cores!" "label:s=1" "label:worse!" "label:zone=a" "label:zone=b"`},
		{"no terms", pod(&v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{}}), `wants none; keys ""`},
		{"an empty term", pod(requiring("")), `wants none; keys ""`},
		{"a name that is excluded", pod(requiring(".metadata.name NotIn n1")), `wants none or all; keys ""`},
		{"terms that cannot be parsed", pod(requiring("zone Near b"), "s=1"), `wants "label:s=1"; keys none`},
		{"as many values as are keys", pod(requiring(many)),
			"wants none or " + strings.Join(manyKeys, "|") + `; keys "" ` + strings.Join(manyKeys, " ")},
		{"more values", pod(requiring(many + " w")), `wants none or "label:k!"; keys "" "label:k!"`},
	} {
		if got := plugintest.Causes(newPlugin(t, nil), row.pod); !slices.Equal(got, []string{row.want}) {
			t.Errorf("%s:\ngot  %s\nwant %s", row.name, got, row.want)
		}
	}
	for _, row := range []struct {
		name          string
		before, after *v1.Node
		want          string
	}{
		{"added", nil, node("n", "a=1"), `has "label:a!" "label:a=1" "name:n"; seeks any`},
		{"changed", node("n", "a=1", "gone=1", "same=1"), node("n", "a=2", "came=3", "same=1"),
			`has "label:a!" "label:a=2" "label:came!" "label:came=3" "label:same!" "label:same=1" "name:n"; ` +
				`seeks "label:a!"|"label:a=2"|"label:came!"|"label:came=3"|"label:gone!"`},
	} {
		e := model.Event{Resource: model.NodeEvent, Action: model.Add, Node: model.NewNode(row.after)}
		if row.before != nil {
			e.Action, e.OldNode = model.UpdateNodeLabel, model.NewNode(row.before)
		}
		if got := plugintest.Touched(newPlugin(t, nil), e); !slices.Equal(got, []string{row.want}) {
			t.Errorf("%s:\ngot  %s\nwant %s", row.name, got, row.want)
		}
	}
}

// TestOperators has the edge cases of requirements on a label or on the name, which
// random requirements rarely reach.
func TestOperators(t *testing.T) {
	for _, row := range []struct {
		requires string
		// fits lists the values of the label "k", of the values below, that match. "-" is
		// a node without the label.
		fits string
	}{
		{"k In a", "a"},
		{"k In b a", "a b"},
		{"k In a 5 b", "a b 5"},
		{"k NotIn a", "- b 4 5 6"},
		{"k NotIn b a", "- 4 5 6"},
		{"k Exists", "a b 4 5 6"},
		{"k DoesNotExist", "-"},
		{"k Gt 5", "6"},
		{"k Gt -5", ""}, // not a value of a label
		{"k Lt 5", "4"},
		{"k Lt 7", "4 5 6"},
		{".metadata.name In n", "- a b 4 5 6"},
		{".metadata.name In m", ""},
		{".metadata.name NotIn n", ""},
		{".metadata.name NotIn m", "- a b 4 5 6"},
		{".metadata.uid In n", ""},
		{".metadata.uid NotIn n", "- a b 4 5 6"},
	} {
		filter := plugintest.Verdicts(newPlugin(t, nil), pod(requiring(row.requires)))
		var fits []string
		for _, value := range []string{"-", "a", "b", "4", "5", "6"} {
			on := node("n", "k="+value)
			if value == "-" {
				on = node("n")
			}
			if filter.Filter(plugintest.Node(on)) == 0 {
				fits = append(fits, value)
			}
		}
		if got := strings.Join(fits, " "); got != row.fits {
			t.Errorf("%s: fits %s, want %s", row.requires, got, row.fits)
		}
	}
}

func TestIntegers(t *testing.T) {
	for _, row := range []struct {
		text string
		want int64
		ok   bool
	}{
		{"", 0, false}, {"-", 0, false}, {"+", 0, false}, {"0", 0, true}, {"-0", 0, true}, {"+9", 9, true}, {"007", 7, true}, {"1:", 0, false}, {"1/", 0, false},
		{":", 0, false}, {"-+1", 0, false}, {"9223372036854775807", 1<<63 - 1, true}, {"9223372036854775808", 0, false},
		{"-9223372036854775808", -1 << 63, true}, {"-9223372036854775809", 0, false}, {"92233720368547758070", 0, false},
	} {
		if got, ok := integer(row.text); ok != row.ok || ok && got != row.want {
			t.Errorf("%q: got %d, %t, want %d, %t", row.text, got, ok, row.want, row.ok)
		}
	}
}
