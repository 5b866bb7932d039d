package tainttoleration

import (
	"cmp"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
)

// Operators is the set of operators that tolerations may use.
type Operators uint8

// The sets of operators.
const (
	// EqualAndExists is kube-scheduler's default set.
	EqualAndExists Operators = iota
	// WithComparisons adds Lt and Gt (feature gate TaintTolerationComparisonOperators).
	WithComparisons
)

// toleration is a toleration in canonical form: the operator is valid, and a value that
// the operator ignores is empty.
type toleration struct {
	key, value string
	effect     v1.TaintEffect
	operator   v1.TolerationOperator
	bound      int64 // the value as a number, for Lt and Gt
}

// tolerations are sorted and distinct.
type tolerations []toleration

// tolerationsOf compiles the tolerations that can tolerate a taint of the given effects.
func tolerationsOf(list []v1.Toleration, effects func(v1.TaintEffect) bool, operators Operators) tolerations {
	var compiled tolerations
	for i := range list {
		if list[i].Effect != "" && !effects(list[i].Effect) {
			continue
		}
		if t, ok := tolerationOf(&list[i], operators); ok {
			if compiled == nil {
				compiled = make(tolerations, 0, len(list)-i)
			}
			compiled = append(compiled, t)
		}
	}
	if compiled.everything() {
		return tolerations{{operator: v1.TolerationOpExists}}
	}
	slices.SortFunc(compiled, toleration.compare)
	return slices.Compact(compiled)
}

// tolerationOf compiles one toleration. ok is false if it can tolerate nothing.
func tolerationOf(t *v1.Toleration, operators Operators) (compiled toleration, ok bool) {
	compiled = toleration{key: t.Key, value: t.Value, effect: t.Effect, operator: t.Operator}
	switch t.Operator {
	case "", v1.TolerationOpEqual:
		compiled.operator = v1.TolerationOpEqual
		return compiled, true
	case v1.TolerationOpExists:
		compiled.value = ""
		return compiled, true
	case v1.TolerationOpLt, v1.TolerationOpGt:
		compiled.bound, ok = decimal(t.Value)
		return compiled, ok && operators == WithComparisons
	}
	return compiled, false
}

func (t toleration) compare(o toleration) int {
	return cmp.Or(
		strings.Compare(t.key, o.key),
		strings.Compare(t.value, o.value),
		strings.Compare(string(t.effect), string(o.effect)),
		strings.Compare(string(t.operator), string(o.operator)),
	)
}

// appendText appends the canonical text.
func (ts tolerations) appendText(text []byte) []byte {
	for i := range ts {
		t := &ts[i]
		text = append(text, ' ')
		text = model.AppendQuote(text, t.key)
		text = append(text, t.operator...)
		text = model.AppendQuote(text, t.value)
		text = append(text, t.effect...)
	}
	return text
}

// everything reports whether some toleration tolerates every taint.
func (ts tolerations) everything() bool {
	for i := range ts {
		if ts[i].key == "" && ts[i].effect == "" && ts[i].operator == v1.TolerationOpExists {
			return true
		}
	}
	return false
}

// tolerate reports whether some toleration tolerates the taint.
func (ts tolerations) tolerate(taint *v1.Taint) bool {
	for i := range ts {
		if ts[i].tolerates(taint) {
			return true
		}
	}
	return false
}

func (t *toleration) tolerates(taint *v1.Taint) bool {
	if t.effect != "" && t.effect != taint.Effect || t.key != "" && t.key != taint.Key {
		return false
	}
	switch t.operator {
	case v1.TolerationOpEqual:
		return t.value == taint.Value
	case v1.TolerationOpExists:
		return true
	}
	value, ok := decimal(taint.Value)
	if t.operator == v1.TolerationOpLt {
		return ok && value < t.bound
	}
	return ok && value > t.bound
}

// decimal parses a canonical decimal integer: no plus sign, no leading zeros, no -0,
// within 64 bits. strconv would allocate an error for every other text.
func decimal(text string) (value int64, ok bool) {
	digits, negative := strings.CutPrefix(text, "-")
	if digits == "" || len(digits) > 19 || digits[0] == '0' && text != "0" {
		return 0, false
	}
	var magnitude uint64 // 19 digits fit
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, false
		}
		magnitude = 10*magnitude + uint64(digits[i]-'0')
	}
	if negative {
		return -int64(magnitude), magnitude <= 1<<63
	}
	return int64(magnitude), magnitude <= math.MaxInt64
}
