package simulate

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestAgenda plans effects at random times, many for one instant, while others are due.
// It compares the order with a sorted list.
func TestAgenda(t *testing.T) {
	type planned struct {
		at    time.Time
		order int
	}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		var a agenda
		var list []planned
		var did []int
		now, order := epoch, 0
		for range 3000 {
			if r.IntN(2) == 0 { // the agenda grows first and shrinks then
				for range r.IntN(8) {
					at, nth := now.Add(time.Duration(r.IntN(4)*r.IntN(3))*time.Second), order
					a.plan(at, 0, func() { did = append(did, nth) })
					list = append(list, planned{at, order})
					order++
				}
			}
			if r.IntN(6) == 0 {
				now = now.Add(time.Second)
			}
			for range r.IntN(6) {
				slices.SortFunc(list, func(a, b planned) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.order, b.order)) })
				at, ok := a.next()
				if ok != (len(list) > 0) || ok && !at.Equal(list[0].at) {
					t.Fatalf("seed %d: the next effect is at %s, %t, of %d", seed, at, ok, len(list))
				}
				e, ok := a.due(now)
				if want := len(list) > 0 && !list[0].at.After(now); ok != want {
					t.Fatalf("seed %d: an effect is due: %t, want %t", seed, ok, want)
				}
				if !ok {
					continue
				}
				if e.do(); did[len(did)-1] != list[0].order {
					t.Fatalf("seed %d: effect %d happens, want %d", seed, did[len(did)-1], list[0].order)
				}
				list = list[1:]
			}
		}
		if len(did) < 1000 {
			t.Errorf("seed %d: only %d effects have happened", seed, len(did))
		}
	}
}

// TestAgendaIsAsLargeAsWhatIsPlanned checks that past effects use no memory for long,
// whether the agenda is emptied or some effects always wait.
func TestAgendaIsAsLargeAsWhatIsPlanned(t *testing.T) {
	var a agenda
	nothing := func() {}
	for i := range 100_000 {
		a.plan(epoch, i, nothing)
	}
	for range 99_999 {
		a.due(epoch)
	}
	for range 200_000 {
		a.plan(epoch, 0, nothing)
		a.due(epoch)
	}
	if n := len(a.line); n > 200_000 {
		t.Errorf("the line has %d positions for one effect", n)
	}
	a.due(epoch)
	if a.line != nil {
		t.Errorf("an empty line keeps %d positions", cap(a.line))
	}
}
