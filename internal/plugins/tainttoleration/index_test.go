package tainttoleration

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// TestIndexAgreesWithEachToleration: an index tolerates a taint exactly if one of its tolerations does.
func TestIndexAgreesWithEachToleration(t *testing.T) {
	key, effect := rapid.SampledFrom([]string{"", "a", "b"}), rapid.SampledFrom([]v1.TaintEffect{"", v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute, v1.TaintEffectPreferNoSchedule})
	value := rapid.SampledFrom([]string{"", "x", "1", "5", "9", "05", "-2"})
	operator := rapid.SampledFrom([]v1.TolerationOperator{"", v1.TolerationOpEqual, v1.TolerationOpExists, v1.TolerationOpLt, v1.TolerationOpGt, "Near"})
	rapid.Check(t, func(t *rapid.T) {
		var compiled tolerations
		for range rapid.IntRange(0, 6).Draw(t, "tolerations") {
			source := v1.Toleration{Key: key.Draw(t, "key"), Operator: operator.Draw(t, "operator"), Value: value.Draw(t, "value"), Effect: effect.Draw(t, "effect")}
			if one, ok := tolerationOf(&source, WithComparisons); ok {
				compiled = append(compiled, one)
			}
		}
		taint := v1.Taint{Key: key.Draw(t, "taint"), Value: value.Draw(t, "its value"), Effect: effect.Draw(t, "its effect")}
		if got, want := compiled.index().tolerate(&taint), compiled.tolerate(&taint); got != want {
			t.Fatalf("%+v: the index tolerates %t, the tolerations %t", taint, got, want)
		}
	})
}
