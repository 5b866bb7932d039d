package elements

import (
	"maps"
	"strings"
	"testing"
)

type inner struct{ list []int }

type outer struct {
	byName map[string]*inner
	others []*inner
	any    any
	queue  chan int
	array  [2]inner
	text   strings.Builder // of another module
	next   *outer
	none   *outer
	f      func()
}

func made() *outer {
	one, two := &inner{[]int{1, 2}}, &inner{[]int{3}}
	o := &outer{byName: map[string]*inner{"one": one, "two": two, "again": one}, others: []*inner{one, two}, any: inner{[]int{4, 5, 6}}, queue: make(chan int, 3), none: nil}
	o.array[1].list = []int{7}
	o.text.WriteString("text")
	o.queue <- 1
	o.next, o.f = o, func() {}
	o.others = o.others[:1]
	return o
}

func TestOf(t *testing.T) {
	want := map[string]int{
		"elements.outer.byName": 3, "elements.outer.others": 1, "elements.outer.queue": 1,
		// One is counted once. Elements beyond the length of the others are not counted.
		"elements.inner.list": 2 + 1 + 3 + 0 + 1,
	}
	if got := Of(made()); !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

func TestReachable(t *testing.T) {
	o := made()
	if got, want := Reachable(o), map[string]int{"*elements.outer": 1, "*elements.inner": 2}; !maps.Equal(got, want) {
		t.Errorf("%v can be reached, want %v", got, want)
	}
	clear(o.byName)
	if n := Reachable(o)["*elements.inner"]; n != 2 {
		t.Errorf("%d can be reached with one that is beyond the length of a slice, want 2", n)
	}
	clear(o.others[:cap(o.others)])
	if n := Reachable(o)["*elements.inner"]; n != 0 {
		t.Errorf("%d can be reached of those that are gone", n)
	}
}
