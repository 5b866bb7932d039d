package prioritysort

import (
	"testing"
	"time"
)

func rank(priority int32, since int64) Rank {
	return Rank{Priority: priority, Since: time.Unix(since, 0)}
}

func TestLess(t *testing.T) {
	for _, row := range []struct {
		name   string
		a, b   Rank
		ab, ba bool // a before b, b before a
	}{
		{"priority before time", rank(10, 5), rank(0, 1), true, false},
		{"no priority is 0", rank(0, 2), rank(0, 1), false, true},
		{"negative priority", rank(-5, 1), rank(0, 9), false, true},
		{"failed and came back", rank(0, 8), rank(0, 5), false, true},
		{"no order", rank(7, 3), rank(7, 3), false, false},
		{"moved without failing", rank(0, 4), rank(0, 6), true, false},
		{"extremes", rank(2147483647, 9), rank(-2147483648, 1), true, false},
	} {
		if got := Less(row.a, row.b); got != row.ab {
			t.Errorf("%s: a before b = %t, want %t", row.name, got, row.ab)
		}
		if got := Less(row.b, row.a); got != row.ba {
			t.Errorf("%s: b before a = %t, want %t", row.name, got, row.ba)
		}
	}
}

func BenchmarkLess(b *testing.B) {
	x, y := rank(0, 1), rank(0, 2)
	for b.Loop() {
		Less(x, y)
	}
}
