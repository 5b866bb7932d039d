package tainttoleration

import (
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestIndexAgreesWithEachToleration: an index tolerates a taint exactly if any of its
// tolerations does.
func TestIndexAgreesWithEachToleration(t *testing.T) {
	effects := []v1.TaintEffect{"", v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute, v1.TaintEffectPreferNoSchedule}
	values := []string{"", "x", "1", "5", "9", "05", "-2"}
	for seed := range 20_000 {
		r := rand.New(rand.NewPCG(uint64(seed), 9))
		operators := []v1.TolerationOperator{"", v1.TolerationOpExists, v1.TolerationOpLt, v1.TolerationOpGt, "Near"}
		if r.IntN(2) == 0 {
			operators = operators[2:4] // so that bounds of one key coincide
		}
		var compiled tolerations
		for range r.IntN(5) {
			source := v1.Toleration{Key: []string{"", "a", "b"}[r.IntN(3)], Operator: operators[r.IntN(len(operators))], Value: values[r.IntN(len(values))], Effect: effects[r.IntN(4)]}
			if one, ok := tolerationOf(&source, WithComparisons); ok {
				compiled = append(compiled, one)
			}
		}
		taint := v1.Taint{Key: []string{"a", "b"}[r.IntN(2)], Value: values[r.IntN(len(values))], Effect: effects[1+r.IntN(3)]}
		if got, want := compiled.index().tolerate(&taint), compiled.tolerate(&taint); got != want {
			t.Fatalf("seed %d: %+v: the index of %+v tolerates %t, the tolerations %t", seed, taint, compiled, got, want)
		}
	}
}
