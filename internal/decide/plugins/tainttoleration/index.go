package tainttoleration

import v1 "k8s.io/api/core/v1"

// indexFrom is the number of tolerations from which an index is faster than a linear
// scan.
const indexFrom = 16

// index finds the tolerations of a taint by lookup. It is immutable.
type index struct {
	exists map[scope]struct{}
	equal  map[valued]struct{}
	// below and above are the bounds of Lt and Gt. Of several, the most tolerant is kept.
	below, above map[scope]int64
}

// scope is the taints of one key and effect. An empty key or effect stands for all.
type scope struct {
	key    string
	effect v1.TaintEffect
}

type valued struct {
	scope
	value string
}

// index returns the tolerations as an index.
func (ts tolerations) index() *index {
	x := &index{exists: map[scope]struct{}{}, equal: map[valued]struct{}{}, below: map[scope]int64{}, above: map[scope]int64{}}
	for i := range ts {
		t := &ts[i]
		of := scope{t.key, t.effect}
		switch t.operator {
		case v1.TolerationOpExists:
			x.exists[of] = struct{}{}
		case v1.TolerationOpEqual:
			x.equal[valued{of, t.value}] = struct{}{}
		case v1.TolerationOpLt:
			if bound, some := x.below[of]; !some || t.bound > bound {
				x.below[of] = t.bound
			}
		case v1.TolerationOpGt:
			if bound, some := x.above[of]; !some || t.bound < bound {
				x.above[of] = t.bound
			}
		}
	}
	return x
}

// tolerate reports whether some toleration tolerates the taint.
func (x *index) tolerate(taint *v1.Taint) bool {
	for _, of := range [...]scope{{taint.Key, taint.Effect}, {taint.Key, ""}, {"", taint.Effect}, {"", ""}} {
		if _, ok := x.exists[of]; ok {
			return true
		}
		if _, ok := x.equal[valued{of, taint.Value}]; ok {
			return true
		}
		if len(x.below)+len(x.above) > 0 && x.inRange(of, taint.Value) {
			return true
		}
	}
	return false
}

func (x *index) inRange(of scope, text string) bool {
	value, ok := decimal(text)
	if !ok {
		return false
	}
	if bound, some := x.below[of]; some && value < bound {
		return true
	}
	bound, some := x.above[of]
	return some && value > bound
}
