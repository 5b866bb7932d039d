package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"unsafe"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// TestObjectionsAreCounted counts different objections: more than a fast walk finds, and
// more than a column by slot can hold.
func TestObjectionsAreCounted(t *testing.T) {
	for _, different := range []int{1, fewObjections - 1, fewObjections, fewObjections + 1, fewObjections + 2, maxObjections, maxObjections + 1} {
		counts := objectionCounts{bySlot: make([]uint8, 3*different)}
		of := func(i int) objection { return objection{filter: i % 3, code: reason.Code(i)} }
		for slot := range 3 * different {
			counts.add(int32(slot), of(slot%different))
		}
		if len(counts.list) != different || (counts.at != nil) != (different > fewObjections) || (counts.bySlot != nil) != (different <= maxObjections) {
			t.Errorf("%d: %d are listed, by a map: %t, by slot: %t", different, len(counts.list), counts.at != nil, counts.bySlot != nil)
		}
		for i, o := range counts.list {
			if o.objection != of(i) || o.nodes != 3 || counts.at != nil && counts.at[o.objection] != i {
				t.Errorf("%d: the objection at %d is %+v", different, i, o)
			}
		}
		for slot, at := range counts.bySlot {
			if int(at) != slot%different+1 {
				t.Errorf("%d: slot %d has objection %d", different, slot, at)
			}
		}
	}
}

func TestColumnsOfObjections(t *testing.T) {
	counts := objectionCounts{bySlot: make([]uint8, 6)}
	left := counts.addColumn(2, []int32{0, 1, 2, 4, 5}, []reason.Code{7, 0, 7, 9, 8, 7})
	if !slices.Equal(left, []int32{1}) || !slices.Equal(counts.bySlot, []uint8{1, 0, 1, 0, 2, 1}) ||
		!slices.Equal(counts.list, []objectionCount{{objection{filter: 2, code: 7}, 3}, {objection{filter: 2, code: 8}, 1}}) {
		t.Errorf("left %v of %+v", left, counts)
	}
	// The rules of a filter run one after the other; a node is counted once.
	rules := []plugin.CountRule{
		{Domains: []int32{0, 1, 2, -1}, Counts: []int32{0, 5, 9}, Min: 0, Max: 5, Code: 1, Missing: 2},
		{Domains: []int32{0, 0, 1, 1}, Counts: []int32{1, 0}, Min: 1, Max: math.MaxInt32, Code: 4, Missing: 2},
	}
	counts = objectionCounts{bySlot: make([]uint8, 4)}
	left = counts.addRules(3, []int32{0, 1, 2, 3}, rules)
	if !slices.Equal(left, []int32{0, 1}) || !slices.Equal(counts.list, []objectionCount{{objection{filter: 3, code: 1}, 1}, {objection{filter: 3, code: 2}, 1}}) ||
		!slices.Equal(counts.bySlot, []uint8{0, 0, 1, 2}) {
		t.Errorf("left %v of %+v", left, counts)
	}
	rules[1].Counts = []int32{0, 1}
	if left = counts.addRules(3, []int32{0, 1}, rules); len(left) != 0 || counts.list[2] != (objectionCount{objection{filter: 3, code: 4}, 2}) {
		t.Errorf("left %v of %+v", left, counts)
	}
}

func TestObjectionsAreReplaced(t *testing.T) {
	a, b := objection{filter: 1, code: 1}, objection{filter: 2, code: 1}
	counts := objectionCounts{bySlot: make([]uint8, 2)}
	for _, step := range []struct {
		to      objection
		changed bool
		a, b    int
		at      uint8
	}{
		{objection{}, false, 0, 0, 0}, {a, true, 1, 0, 1}, {a, false, 1, 0, 1}, {b, true, 0, 1, 2}, {objection{}, true, 0, 0, 0}, {a, true, 1, 0, 1},
	} {
		changed := counts.replace(1, step.to)
		nodes := map[objection]int{}
		for _, o := range counts.list {
			nodes[o.objection] = o.nodes
		}
		if changed != step.changed || nodes[a] != step.a || nodes[b] != step.b || counts.bySlot[1] != step.at || counts.bySlot[0] != 0 {
			t.Errorf("replaced by %v: changed %t, %+v", step.to, changed, counts)
		}
	}
}

func TestRejectionsResize(t *testing.T) {
	r := &rejected{rejection: &plan.Rejection{}}
	r.bySlot = []uint8{1, 0, 1, 2, 0}
	r.list = []objectionCount{{objection{filter: 1, code: 1}, 2}, {objection{filter: 2, code: 1}, 1}}
	if r.resize(5); len(r.bySlot) != 5 || r.rejection == nil {
		t.Errorf("as many slots: %+v", r)
	}
	if r.resize(7); !slices.Equal(r.bySlot, []uint8{1, 0, 1, 2, 0, 0, 0}) || r.rejection == nil {
		t.Errorf("more slots: %+v", r)
	}
	if r.resize(4); r.rejection == nil || r.list[1].nodes != 1 {
		t.Errorf("without slots of no node: %+v", r)
	}
	if r.resize(1); !slices.Equal(r.bySlot, []uint8{1}) || r.list[0].nodes != 1 || r.list[1].nodes != 0 || r.rejection != nil {
		t.Errorf("fewer slots: %+v", r)
	}
}

// TestRejectionsMakeRoom: the oldest eighth goes repeatedly, until the new one fits.
func TestRejectionsMakeRoom(t *testing.T) {
	x := &rejections{byShape: map[shape]*rejected{}, maxBytes: 20 * rejectedBytes}
	for i := range 16 {
		r := &rejected{shape: shape{filters: int32(i)}, used: uint64(i)}
		x.byShape[r.shape] = r
		x.bytes += r.bytes()
	}
	if x.makeRoom(x.maxBytes+1) || len(x.byShape) != 16 {
		t.Error("there can be no room for more than all")
	}
	for _, step := range []struct{ bytes, left int }{{4 * rejectedBytes, 16}, {5 * rejectedBytes, 13}, {8 * rejectedBytes, 11}, {20 * rejectedBytes, 0}} {
		if !x.makeRoom(step.bytes) || len(x.byShape) != step.left || x.bytes != step.left*rejectedBytes {
			t.Errorf("room for %d: %d are left of %d bytes, want %d", step.bytes, len(x.byShape), x.bytes, step.left)
		}
	}
	r := rejected{}
	r.bySlot, r.list, r.rules = make([]uint8, 100), make([]objectionCount, 3), make([]uint64, 5)
	if got := r.bytes(); got != rejectedBytes+100+3*objectionBytes+40 {
		t.Errorf("a rejection takes %d bytes", got)
	}
}

func TestNormalize(t *testing.T) {
	for _, row := range []struct {
		how          model.Normalization
		raw, largest int32
		want         int64
	}{
		{model.AsIs, 7, 0, 7}, {model.AsIs, 7, 9, 7}, {model.Largest, 0, 0, 0}, {model.Largest, 1, 3, 33}, {model.Largest, 3, 3, 100},
		{model.LargestReversed, 0, 0, 100}, {model.LargestReversed, 1, 3, 67}, {model.LargestReversed, 3, 3, 0}, {model.LargestReversed, 0, 3, 100},
		{model.Largest, math.MaxInt32, math.MaxInt32, 100},
	} {
		if got := normalize(row.how, row.raw, row.largest); got != row.want {
			t.Errorf("%d: %d of %d is %d, want %d", row.how, row.raw, row.largest, got, row.want)
		}
	}
	e := &Engine{}
	for _, row := range []struct {
		largest int32
		nodes   int
		table   bool
	}{{1, 1, true}, {2, 1, false}, {3, 1, false}, {tabulated, 1000, true}, {tabulated + 1, 1000, false}, {tabulated, tabulated - 1, false}, {4, 4, true}} {
		shares := e.sharesTo(row.largest, row.nodes, model.LargestReversed, 3)
		if row.table && len(shares) != int(row.largest)+1 || !row.table && shares != nil {
			t.Errorf("up to %d on %d nodes: %v", row.largest, row.nodes, shares)
		}
		for raw, share := range shares {
			if share != 3*normalize(model.LargestReversed, int32(raw), row.largest) {
				t.Errorf("%d of %d: %d", raw, row.largest, share)
			}
		}
	}
	want := `applying score defaultWeights on Score plugins: plugin "P" returns an invalid score -3, it should in the range of [0, 100] after normalizing`
	if err := errOutOfRange("P", -3); err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	var of *plan.PluginError
	if err := errPreScore("P", errors.New("broken")); !errors.As(err, &of) || of.Point != "PreScore" || of.Plugin != "P" || of.Err.Error() != "broken" {
		t.Errorf("%+v", of)
	}
}

// TestTied finds the positions of the highest total, wherever it stands.
func TestTied(t *testing.T) {
	e := &Engine{}
	for _, row := range []struct {
		totals []int64
		want   []int32
	}{
		{[]int64{9, 1, 2, 3}, []int32{0}}, {[]int64{1, 9, 2, 3}, []int32{1}}, {[]int64{1, 2, 3, 9}, []int32{3}}, {[]int64{5, 5, 5}, []int32{0, 1, 2}},
		{[]int64{1, 5, 5, 1}, []int32{1, 2}}, {[]int64{-1, -1, -2}, []int32{0, 1}}, {[]int64{4, 4, 5, 1, 5}, []int32{2, 4}}, {[]int64{0}, []int32{0}},
	} {
		if got := e.tiedAt(row.totals); !slices.Equal(got, row.want) {
			t.Errorf("of %v: %v, want %v", row.totals, got, row.want)
		}
	}
}

func TestNarrowed(t *testing.T) {
	for _, row := range []struct {
		by       []string
		slots    []int32
		slot     int32
		rejector string
		after    []int32
		text     string
	}{
		{nil, nil, 3, "C", nil, "node(s) didn't satisfy plugin(s) []"},
		{[]string{"B"}, []int32{1, 5}, 3, "", []int32{1, 3, 5}, "node(s) didn't satisfy plugin(s) [B]"},
		{[]string{"B"}, []int32{1, 5}, 5, "C", []int32{1, 5}, "node(s) didn't satisfy plugin(s) [B C]"},
		{[]string{"B", "C"}, []int32{1, 5}, 9, "A", []int32{1, 5, 9}, "node(s) didn't satisfy plugin(s) [A B C]"},
		{[]string{"B", "C"}, nil, 0, "C", []int32{0}, "node(s) didn't satisfy plugin(s) [B C]"},
	} {
		n := narrowed{by: row.by, slots: row.slots}
		if n.has(3) != (row.by == nil) || row.slots != nil && !n.has(5) {
			t.Errorf("%v has 3: %t", n, n.has(3))
		}
		n.addNominated(row.slot, row.rejector)
		if !slices.Equal(n.slots, row.after) || row.by != nil && n.text() != row.text || row.by == nil && n.rejector != "" || !slices.IsSorted(n.by) {
			t.Errorf("got %+v, %q; want %v, %q", n, n.text(), row.after, row.text)
		}
	}
	one, two := narrowed{by: []string{"A"}}, narrowed{by: []string{"A", "B"}}
	if one.emptyText() != "node(s) didn't satisfy plugin A" || two.emptyText() != "node(s) didn't satisfy plugin(s) [A B] simultaneously" {
		t.Errorf("%q, %q", one.emptyText(), two.emptyText())
	}
	if got := intersect([]string{"a", "b", "c", "b"}, []string{"c", "x", "b"}); !slices.Equal(got, []string{"b", "c", "b"}) {
		t.Errorf("%v", got)
	}
}

func TestLists(t *testing.T) {
	rest, out := apart([]int32{1, 2, 5, 7}, []int32{7, 3, 2, 9})
	if !slices.Equal(rest, []int32{1, 5}) || !slices.Equal(out, []int32{2, 7}) {
		t.Errorf("%v, %v", rest, out)
	}
	if rest, out = apart([]int32{1, 2}, nil); !slices.Equal(rest, []int32{1, 2}) || out != nil {
		t.Errorf("%v, %v", rest, out)
	}
	if got := aliveOf([]bool{true, false, true}, []int32{2, 1, 0}); !slices.Equal(got, []int32{2, 0}) {
		t.Errorf("%v", got)
	}
	e := &Engine{}
	for _, alive := range [][]bool{{true, false, true, true}, {false, false}, {true}, {true, true, true, true, true, false}} {
		var want []int32
		for slot, ok := range alive {
			if ok {
				want = append(want, int32(slot))
			}
		}
		got := e.alive(alive)
		if e.scratch.slots = got; !slices.Equal(got, want) {
			t.Errorf("alive %v: %v", alive, got)
		}
	}
	kept, seen := keepFeasible([]int32{0, 2, 3, 4}, []reason.Code{0, 9, 2, 0, 4})
	if !slices.Equal(kept, []int32{0, 3}) || seen != 6 {
		t.Errorf("%v, %d", kept, seen)
	}
}

// TestKeepWithin agrees with the verdicts of rules, one by one.
func TestKeepWithin(t *testing.T) {
	for _, missing := range []reason.Code{reason.None, 3} {
		for low := range int32(4) {
			for high := low - 1; high < 5; high++ {
				rule := plugin.CountRule{Domains: []int32{0, 1, 2, 3, -1, 4, 9}, Counts: []int32{0, 1, 2, 3, 4}, Min: low, Max: high, Code: 1, Missing: missing}
				var want []int32
				for slot := range int32(7) {
					if rule.Verdict(slot) == reason.None {
						want = append(want, slot)
					}
				}
				if got := keepWithin([]int32{0, 1, 2, 3, 4, 5, 6}, &rule); !slices.Equal(got, want) {
					t.Errorf("%+v keeps %v, want %v", rule, got, want)
				}
			}
		}
	}
}

// TestKeepWithinDifferences: the view's differences are added, even in a single domain.
func TestKeepWithinDifferences(t *testing.T) {
	for _, row := range []struct {
		differences []state.Difference
		want        []int32
	}{
		{nil, []int32{1, 2}}, {[]state.Difference{{Domain: 0, Pods: -1}}, []int32{0, 1, 2}}, {[]state.Difference{{Domain: 1, Pods: 1}}, []int32{1}},
		{[]state.Difference{{Domain: 2, Pods: 2}}, []int32{2}}, {[]state.Difference{{Domain: 0, Pods: -1}, {Domain: 1, Pods: 1}}, []int32{0, 1}},
	} {
		rule := plugin.CountRule{Domains: []int32{0, 2, 1, -1}, Counts: []int32{2, 1}, Max: 1, Code: 1, Missing: 2, Differences: row.differences}
		if got := keepWithin([]int32{0, 1, 2, 3}, &rule); !slices.Equal(got, row.want) {
			t.Errorf("with %v: %v, want %v", row.differences, got, row.want)
		}
	}
}

// TestRejectedBytes: rejectedBytes covers the parts of fixed size, with their key in the
// map, and is less than twice their size.
func TestRejectedBytes(t *testing.T) {
	if size := int(unsafe.Sizeof(rejected{}) + unsafe.Sizeof(shape{})); size > rejectedBytes || 2*size < rejectedBytes {
		t.Errorf("a rejection and its key take %d bytes, and count as %d", size, rejectedBytes)
	}
	if size := int(unsafe.Sizeof(objectionCount{}) + unsafe.Sizeof(objection{}) + unsafe.Sizeof(0)); size > objectionBytes || 2*size < objectionBytes {
		t.Errorf("an objection takes %d bytes, and counts as %d", size, objectionBytes)
	}
}

// TestExtended: verdicts of several extenders stand together, each text under one code,
// with or without reason.Unresolvable.
func TestExtended(t *testing.T) {
	s := plugintest.Cluster([]*v1.Node{build.Node("a"), build.Node("b"), build.Node("c"), build.Node("d"), build.Node("e")})
	x := &extended{asked: []int32{0, 1, 2, 4}, codes: make([]reason.Code, 4), byText: map[string]reason.Code{}, absent: []string{"left out"}}
	passed := x.take(s.View(), &plugin.ExtenderVerdicts{
		Passed: []string{"a", "d"}, Failed: map[string]string{"b": "busy", "c": "old", "a": "?"}, Unresolvable: map[string]string{"c": "busy"},
	}, []int32{0, 1, 2, 4})
	if !slices.Equal(passed, []int32{0}) || x.bare {
		t.Errorf("passed %v, bare %t", passed, x.bare)
	}
	if passed = x.take(s.View(), &plugin.ExtenderVerdicts{Failed: map[string]string{"a": "late"}, Bare: true}, passed); len(passed) != 0 || !x.bare {
		t.Errorf("passed %v, bare %t", passed, x.bare)
	}
	if x.take(s.View(), &plugin.ExtenderVerdicts{}, nil); !x.bare {
		t.Error("what an extender returned is forgotten")
	}
	for slot, want := range []string{"late", "busy", "busy!", "", "left out!"} {
		got := ""
		if code := x.Filter(s.Node(int32(slot))); code != reason.None {
			if got = x.Reasons(code)[0]; code.IsUnresolvable() {
				got += "!"
			}
			if code.IsFailed() {
				t.Errorf("slot %d failed", slot)
			}
		}
		if got != want {
			t.Errorf("slot %d: %q, want %q", slot, got, want)
		}
	}
	if len(x.texts) != 2 {
		t.Errorf("texts %q", x.texts)
	}
	p := &profile{Profile: &plugin.Profile{Filters: []*plugin.Filter{{Name: "F"}}}}
	if p.nameOf(0) != "F" || p.nameOf(1) != plugin.ExtenderName {
		t.Errorf("%s, %s", p.nameOf(0), p.nameOf(1))
	}
}

// TestFailing: a filter whose Turn failed fails for each node, with its error.
func TestFailing(t *testing.T) {
	f := failing{errors.New("broken")}
	codes := make([]reason.Code, 2)
	f.FilterAll(nil, codes)
	if code := f.Filter(plugintest.Cluster([]*v1.Node{build.Node("a")}).Node(0)); !code.IsFailed() || codes[0] != code || codes[1] != code || f.IsPending(code) ||
		!slices.Equal(f.Reasons(code), []string{"broken"}) || f.Err(state.View{}, nil, code).Error() != "broken" {
		t.Errorf("code %x, codes %x, reasons %s, error %v", code, codes, fmt.Sprint(f.Reasons(code)), f.Err(state.View{}, nil, code))
	}
}
