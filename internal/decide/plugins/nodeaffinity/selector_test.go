package nodeaffinity

import (
	"strconv"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	affinity "k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

var (
	someKey   = rapid.SampledFrom([]string{"a", "b", "", "not valid", nameField})
	someValue = rapid.SampledFrom([]string{"", "x", "y", "n1", "n2", "1", "-2", "+3", "03", "9223372036854775808", "not valid"})
	someOp    = rapid.SampledFrom([]v1.NodeSelectorOperator{v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, v1.NodeSelectorOpExists,
		v1.NodeSelectorOpDoesNotExist, v1.NodeSelectorOpGt, v1.NodeSelectorOpLt, "Near"})
	someRequirements = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) v1.NodeSelectorRequirement {
		r := v1.NodeSelectorRequirement{Key: someKey.Draw(t, "key"), Operator: someOp.Draw(t, "operator")}
		if r.Operator != v1.NodeSelectorOpExists && r.Operator != v1.NodeSelectorOpDoesNotExist {
			r.Values = rapid.SliceOfN(someValue, 0, 3).Draw(t, "values")
		}
		return r
	}), 0, 2)
	someTerm = rapid.Custom(func(t *rapid.T) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: someRequirements.Draw(t, "expressions"), MatchFields: someRequirements.Draw(t, "fields")}
	})
	someTerms     = rapid.SliceOfN(someTerm, 0, 3)
	somePreferred = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) v1.PreferredSchedulingTerm {
		return v1.PreferredSchedulingTerm{Weight: rapid.Int32Range(0, 100).Draw(t, "weight"), Preference: someTerm.Draw(t, "term")}
	}), 0, 3)
	someLabels = rapid.MapOfN(someKey, someValue, 0, 3)
)

func TestAgreesWithTheLibrary(t *testing.T) { rapid.Check(t, agreement(t)) }

func FuzzAgreesWithTheLibrary(f *testing.F) { f.Fuzz(rapid.MakeFuzz(agreement(f))) }

// agreement returns a property. The library, which allocates for every node, gives the
// same results. Pods with the same need get the same results.
func agreement(t testing.TB) func(*rapid.T) {
	p := newPlugin(t, nil)
	var mu sync.Mutex // for the maps: fuzzing may check several inputs at once
	filters, scores := map[model.Need]bool{}, map[model.Need]int64{}
	n := node("n1", "a=x", "b=-2")
	view := plugintest.Node(n)
	return func(t *rapid.T) {
		mu.Lock()
		defer mu.Unlock()
		object := &v1.Pod{Spec: v1.PodSpec{NodeSelector: someLabels.Draw(t, "selector"), Affinity: &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: somePreferred.Draw(t, "preferred"),
		}}}}
		if rapid.Bool().Draw(t, "requires") {
			object.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution =
				&v1.NodeSelector{NodeSelectorTerms: someTerms.Draw(t, "required")}
		}
		waiting := model.NewPod(object)

		other := node(rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "name"))
		other.Labels = someLabels.Draw(t, "labels")
		for _, on := range []*v1.Node{n, other} {
			want, _ := affinity.GetRequiredNodeAffinity(object).Match(on)
			if got := plugintest.Verdicts(p, waiting).Filter(plugintest.Node(on)) == 0; got != want {
				t.Fatalf("matches = %t, want %t", got, want)
			}
		}
		fits := plugintest.Verdicts(p, waiting).Filter(view) == 0
		need := plugintest.FilterNeed(p, waiting)
		if before, seen := filters[need]; seen && before != fits {
			t.Fatalf("the need %s fits and does not fit", need)
		}
		filters[need] = fits
		if need.IsZero() && !fits {
			t.Fatal("a pod without a need does not fit")
		}

		library, wantErr := affinity.NewPreferredSchedulingTerms(preferred(object))
		scorer := plugin.NodeScores{RawScores: nothing{}}
		var err error
		if need := p.ScoreNeed(waiting); need != nil {
			scorer, err = need.Compile()
		}
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Fatalf("error %v, want %v", err, wantErr)
		}
		score := int64(-1)
		if err == nil {
			score = library.Score(n)
			for _, on := range []*v1.Node{n, other} {
				if got := int64(scorer.Score(plugintest.Node(on))); got != library.Score(on) {
					t.Fatalf("score %d, want %d", got, library.Score(on))
				}
			}
		}
		need = plugintest.ScoreNeed(p, waiting)
		if before, seen := scores[need]; seen && before != score {
			t.Fatalf("the need %s scores %d and %d", need, before, score)
		}
		scores[need] = score
		if need.IsZero() && score != 0 {
			t.Fatal("a pod without a need has a score")
		}
	}
}

func TestInteger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[-+]{0,2}[0-9]{0,20}[_x]?`).Draw(t, "text")
		want, err := strconv.ParseInt(text, 10, 64)
		if got, ok := integer(text); ok != (err == nil) || ok && got != want {
			t.Fatalf("integer(%q) = %d, %t", text, got, ok)
		}
	})
	for _, text := range []string{"9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "-0", "", "-"} {
		want, err := strconv.ParseInt(text, 10, 64)
		if got, ok := integer(text); ok != (err == nil) || ok && got != want {
			t.Errorf("integer(%q) = %d, %t", text, got, ok)
		}
	}
}

// nothing scores for a pod that the plugin skips.
type nothing struct{}

func (nothing) Score(state.Node) int32 { return 0 }
