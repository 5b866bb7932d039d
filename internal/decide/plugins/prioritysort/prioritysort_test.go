package prioritysort

import (
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

func queued(priority int32, since int64) plugin.Queued {
	return plugin.Queued{Pod: &model.Pod{Priority: priority}, Since: time.Unix(since, 0)}
}

func TestLess(t *testing.T) {
	for _, row := range []struct {
		name   string
		a, b   plugin.Queued
		ab, ba bool // a before b, b before a
	}{
		{"priority before time", queued(10, 5), queued(0, 1), true, false},
		{"no priority is 0", queued(0, 2), queued(0, 1), false, true},
		{"negative priority", queued(-5, 1), queued(0, 9), false, true},
		{"failed and came back", queued(0, 8), queued(0, 5), false, true},
		{"no order", queued(7, 3), queued(7, 3), false, false},
		{"moved without failing", queued(0, 4), queued(0, 6), true, false},
		{"extremes", queued(2147483647, 9), queued(-2147483648, 1), true, false},
	} {
		if got := New().Less(row.a, row.b); got != row.ab {
			t.Errorf("%s: a before b = %t, want %t", row.name, got, row.ab)
		}
		if got := New().Less(row.b, row.a); got != row.ba {
			t.Errorf("%s: b before a = %t, want %t", row.name, got, row.ba)
		}
	}
}

func BenchmarkLess(b *testing.B) {
	x, y := queued(0, 1), queued(0, 2)
	for b.Loop() {
		New().Less(x, y)
	}
}
