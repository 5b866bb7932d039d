package engine

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// digits returns a state with nodes n0, n1, …, and a column with the value of the label
// "v" of each. The column counts its calls.
func digits(values ...int) (*state.State, *column[int32]) {
	s := state.New()
	for i, v := range values {
		plugintest.Set(s, digit(i, v))
	}
	return s, &column[int32]{reads: model.Labels | model.Presence, ask: func(n state.Node) int32 {
		var v int32
		_, _ = fmt.Sscan(n.Object().Labels["v"], &v)
		return v
	}}
}

func digit(i, v int) *v1.Node {
	return build.Node(fmt.Sprint("n", i), build.NodeLabels(fmt.Sprint("v=", v)))
}

func (c *column[T]) expect(t *testing.T, what string, asked, wantAsked int, values ...T) {
	t.Helper()
	nonZero := 0
	for _, v := range values {
		if v != 0 {
			nonZero++
		}
	}
	if !slices.Equal(c.values, values) || c.nonZero != nonZero || asked != wantAsked {
		t.Errorf("%s: values %v, %d not zero, %d asked; want %v, %d, %d", what, c.values, c.nonZero, asked, values, nonZero, wantAsked)
	}
}

// TestColumnFollows: a column calls the plugin for nodes whose labels have changed, and
// counts the values that are not zero.
func TestColumnFollows(t *testing.T) {
	s, c := digits(1, 0, 3, 0, 5, 6)
	c.expect(t, "filled", c.sync(s), 6, 1, 0, 3, 0, 5, 6)
	c.expect(t, "again", c.sync(s), 0, 1, 0, 3, 0, 5, 6)
	plugintest.Set(s, digit(0, 0), digit(1, 2))
	c.expect(t, "two changed", c.sync(s), 2, 0, 2, 3, 0, 5, 6)
	plugintest.Set(s, build.Node("n2", build.NodeLabels("v=3"), build.Allocatable("cpu=1")))
	c.expect(t, "something else changed", c.sync(s), 0, 0, 2, 3, 0, 5, 6)
	s.Apply([]model.Change{{Kind: model.NodeGone, Name: "n4"}})
	c.expect(t, "one went", c.sync(s), 0, 0, 2, 3, 0, 0, 6)
	plugintest.Set(s, digit(7, 8), digit(8, 9))
	c.expect(t, "two came, one to a free slot", c.sync(s), 2, 0, 2, 3, 0, 8, 6, 9)
	plugintest.Set(s, digit(0, 1), digit(1, 1), digit(2, 1), digit(3, 1))
	c.expect(t, "more than half changed", c.sync(s), 7, 1, 1, 1, 1, 8, 6, 9)
	var changes []model.Change
	for range 5 {
		changes = append(changes, model.Change{Kind: model.NodeSet, Node: model.NewNode(build.Node("n8", build.NodeLabels("v=9"), build.Allocatable(fmt.Sprint("cpu=", len(changes)+1))))})
	}
	for _, change := range changes {
		s.Apply([]model.Change{change})
	}
	c.expect(t, "much has changed that is not read", c.sync(s), 0, 1, 1, 1, 1, 8, 6, 9)
}

// TestColumnOfOneSlot: a column of one slot is up to date once it is filled, like any
// other.
func TestColumnOfOneSlot(t *testing.T) {
	s, c := digits(4)
	c.expect(t, "filled", c.sync(s), 1, 4)
	c.expect(t, "again", c.sync(s), 0, 4)
}

func TestColumnOfFew(t *testing.T) {
	s, c := digits(7, 7, 1, 0, 7)
	s.Apply([]model.Change{{Kind: model.NodeGone, Name: "n1"}})
	c.sparse = func(*state.State) ([]int32, int32, bool) { return []int32{2, 3}, 7, true }
	c.expect(t, "few", c.sync(s), 2, 7, 0, 1, 0, 7)
	c.expect(t, "again", c.sync(s), 0, 7, 0, 1, 0, 7)
	c.version, c.values = 0, nil
	c.sparse = func(*state.State) ([]int32, int32, bool) { return []int32{0, 2, 4}, 0, true }
	c.expect(t, "few, the others zero", c.sync(s), 3, 7, 0, 1, 0, 7)
	c.version, c.values = 0, nil
	c.sparse = func(*state.State) ([]int32, int32, bool) { return nil, 3, false }
	c.expect(t, "not known", c.sync(s), 4, 7, 0, 1, 0, 7)

	like := &column[int32]{ask: c.ask, reads: c.reads}
	plugintest.Set(s, digit(2, 9), digit(0, 0))
	like.expect(t, "like another but for some", like.copyBut(s, []int32{0, 1, 2}, c), 2, 0, 0, 9, 0, 7)
	like.expect(t, "up to date", like.sync(s), 0, 0, 0, 9, 0, 7)
}

func TestColumnResizes(t *testing.T) {
	c := &column[int32]{values: []int32{1, 0, 3, 0, 5}, nonZero: 3}
	c.resize(5)
	c.expect(t, "as many", 0, 0, 1, 0, 3, 0, 5)
	c.resize(6)
	c.expect(t, "more", 0, 0, 1, 0, 3, 0, 5, 0)
	c.resize(2)
	c.expect(t, "fewer", 0, 0, 1, 0)
	c.set(1, 4)
	c.set(0, 0)
	c.set(1, 5)
	c.expect(t, "set", 0, 0, 0, 5)
}

// TestWornColumn: classes without nodes are dropped once they are more than a few and
// more than twice the slots.
func TestWornColumn(t *testing.T) {
	s, _ := digits(1, 2)
	for classes, worn := range map[int]bool{fewClasses + 4: false, fewClasses + 5: true} {
		c := scoreColumn{scores: plugin.NodeScores{Classes: classList(make([]int32, classes))}}
		c.values = make([]int32, 2)
		if c.isWorn(s.View()) != worn {
			t.Errorf("%d classes of two nodes are worn: %t", classes, !worn)
		}
	}
	if c := (scoreColumn{}); c.isWorn(s.View()) {
		t.Error("a column of scores is worn")
	}
}

type classList []int32

func (l classList) Classes(state.View) []int32 { return l }

func key(i int) columnKey { return columnKey{int32(i), model.NeedOf(fmt.Sprint(i))} }

// TestColumnsMakeRoom: of ten columns of 100 slots the oldest eighth goes, except columns
// that the present decision uses.
func TestColumnsMakeRoom(t *testing.T) {
	const size = columnBytes + valueBytes*100
	for _, row := range []struct {
		limit, since int
		left         string
	}{
		{17, 99, "0123456789abcdef"}, {16, 99, "3456789abcdef"}, {15, 99, "23456789abcdef"}, {16, 1, "123456789abcdef"}, {16, 2, "23456789abcdef"}, {1, 99, "123456789abcdef"}, {0, 99, "123456789abcdef"},
	} {
		c := newColumns(row.limit*size + 1)
		for i := range 16 {
			if i%2 == 0 {
				f := &filterColumn{}
				f.used = uint64(i)
				c.filters.all[key(i)] = f
			} else {
				s := &scoreColumn{}
				s.used = uint64(i)
				c.scores.all[key(i)] = s
			}
		}
		c.makeRoom(100, uint64(row.since))
		left := ""
		for i := range 16 {
			if c.filters.all[key(i)] != nil || c.scores.all[key(i)] != nil {
				left += fmt.Sprintf("%x", i)
			}
		}
		if left != row.left {
			t.Errorf("room for %d columns, those since %d in use: %s are left, want %s", row.limit, row.since, left, row.left)
		}
	}
}

// TestIdleColumnsGo: a column that was not used for idleAfter decisions goes at the next
// sweep.
func TestIdleColumnsGo(t *testing.T) {
	c := newColumns(1 << 20)
	add := func(i int) {
		f, s := &filterColumn{}, &scoreColumn{}
		f.used, s.used = c.clock, c.clock
		c.filters.all[key(i)], c.scores.all[key(i)] = f, s
	}
	add(0)
	for c.clock < sweptEach {
		c.tick()
	}
	add(1)
	for c.clock < idleAfter {
		if c.tick(); len(c.filters.all) != 2 || len(c.scores.all) != 2 {
			t.Fatalf("at %d a column is gone that may still be used", c.clock)
		}
	}
	for c.clock < idleAfter+sweptEach-1 {
		c.tick()
	}
	if c.filters.all[key(0)] == nil || c.scores.all[key(0)] == nil {
		t.Errorf("at %d, between the times at which they are looked at, columns went", c.clock)
	}
	if c.tick(); c.filters.all[key(0)] != nil || c.scores.all[key(0)] != nil || c.filters.all[key(1)] == nil || c.scores.all[key(1)] == nil {
		t.Errorf("at %d the columns since 0 are not gone, or those since %d are", c.clock, sweptEach)
	}
	c.aside = true
	for range 2 * sweptEach {
		if c.tick(); len(c.filters.all) != 1 {
			t.Fatal("questions have aged a column")
		}
	}
	c.aside = false
	for range sweptEach {
		c.tick()
	}
	if len(c.filters.all)+len(c.scores.all) != 0 {
		t.Errorf("at %d %d columns are left", c.clock, len(c.filters.all)+len(c.scores.all))
	}
}

// TestCompiledNeedsMakeRoom: above the limit the older half goes, sets and counts alike.
func TestCompiledNeedsMakeRoom(t *testing.T) {
	c := newColumns(1)
	fill := func(n, first int) {
		clear(c.counting.all)
		clear(c.sets.all)
		for i := range n {
			if i%2 == first {
				c.counting.all[key(i)] = &counting{used: uint64(i)}
			} else {
				c.sets.all[key(i)] = &set{used: uint64(i)}
			}
		}
	}
	fill(compiledKept-1, 0)
	if c.makeRoomForCompiled(model.Need{}); len(c.counting.all)+len(c.sets.all) != compiledKept-1 {
		t.Error("there was room")
	}
	fill(compiledKept, 0)
	c.makeRoomForCompiled(model.Need{})
	if len(c.counting.all) != compiledKept/4-1 || len(c.sets.all) != compiledKept/4 {
		t.Errorf("%d and %d are left", len(c.counting.all), len(c.sets.all))
	}
	if c.counting.all[key(compiledKept/2)] != nil || c.sets.all[key(compiledKept/2+1)] == nil || c.counting.all[key(compiledKept-2)] == nil {
		t.Error("it is not the older half that went")
	}
	fill(compiledKept, 1)
	if c.makeRoomForCompiled(model.Need{}); len(c.counting.all) != compiledKept/4 || len(c.sets.all) != compiledKept/4-1 || c.sets.all[key(compiledKept/2)] != nil {
		t.Errorf("%d and %d are left, with a set in the middle", len(c.counting.all), len(c.sets.all))
	}
}

// TestByNeed: a dropped value is no longer found, even as the latest of its plugin.
func TestByNeed(t *testing.T) {
	b := newByNeed[int]()
	one, two, three := model.NeedOf("1"), model.NeedOf("2"), model.NeedOf("3")
	expect := func(what string, plugin int32, need model.Need, want int) {
		t.Helper()
		for range 2 { // the second time it is the latest
			got := 0
			if found := b.of(plugin, need); found != nil {
				got = *found
			}
			if got != want {
				t.Errorf("%s: plugin %d has %d for need %s, want %d", what, plugin, got, need, want)
			}
		}
	}
	for i, need := range []model.Need{one, two, three} {
		b.put(7, need, new(i+1))
		b.put(3, need, new(10*i+10))
	}
	expect("put", 7, one, 1)
	expect("put", 3, one, 10)
	expect("put", 7, two, 2)
	expect("never put", 8, one, 0)
	b.put(7, two, new(22))
	expect("replaced", 7, two, 22)
	b.drop(7, one)
	expect("another dropped", 7, two, 22)
	b.drop(7, two)
	expect("dropped", 7, two, 0)
	expect("of another plugin", 3, two, 20)
	b.dropIf(func(value *int) bool { return *value > 10 })
	expect("dropped with others", 3, two, 0)
	expect("kept", 3, one, 10)
	if len(b.all) != 2 {
		t.Errorf("%d are left, want 2", len(b.all))
	}
}

// TestColumnsOfLongNeedsAreBoundedInBytes has columns of long and short needs. The long
// ones are evicted, the least recently used first, except those of the present decision.
func TestColumnsOfLongNeedsAreBoundedInBytes(t *testing.T) {
	c := newColumns(DefaultColumnBytes)
	long := func(i int) model.Need {
		return model.LongNeedOf(append(make([]byte, 1<<20), strconv.Itoa(i)...))
	}
	for i := range 100 {
		c.clock++
		c.makeRoomForLong(long(i), c.clock)
		c.filters.put(0, long(i), &filterColumn{column: column[reason.Code]{used: c.clock}})
		c.filters.put(1, model.NeedOf(strconv.Itoa(i)), &filterColumn{column: column[reason.Code]{used: c.clock}})
	}
	kept := 0
	for key := range c.filters.all {
		if key.need.Size() >= longNeed {
			kept++
		}
	}
	if most := maxCompiledBytes / (compiledPerText << 20); kept > most || kept < most/2 || len(c.filters.all) != kept+100 {
		t.Errorf("%d columns of long needs are kept, at most %d should be, and %d others", kept, most, len(c.filters.all)-kept)
	}
	if c.filters.of(0, long(99)) == nil {
		t.Error("the latest column is evicted")
	}
}
