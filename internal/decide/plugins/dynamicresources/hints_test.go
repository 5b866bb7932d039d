package dynamicresources

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/internal/decide/allocator"
	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/model"
)

// costlyText returns an expression that takes long to evaluate and that the API server
// admits. Each i has its own.
func costlyText(i int) string {
	text := fmt.Sprintf("%d >= 0", i)
	for level := range 4 {
		text = fmt.Sprintf("[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15].all(v%d, %s)", level, text)
	}
	return text
}

// asking returns the need of a pod with one claim. Its single request has these
// selectors, for a class without selectors.
func (w *world) asking(name string, selectors ...string) model.Need {
	w.set(claim(name, 1, ofClass("gpu", selectors...)))
	return w.plugin.AskedIn(w.View(), pod("p-"+name, name))
}

// sliceChanges changes the slice of a node to a number of devices, and returns the event.
func (w *world) sliceChanges(devices, version int) model.Event {
	var names []string
	for i := range devices {
		names = append(names, fmt.Sprint("d", i))
	}
	s := slice("a", names...)
	s.Spec.Pool.Generation = int64(version)
	w.set(s)
	e := model.Event{Resource: model.ResourceSliceEvent, Action: model.Update, Object: model.NewResourceSlice(s)}
	e.Pools = w.View().Devices().PoolsOf(nil, e.Object)
	return e
}

// TestHintsOfAnEventHaveOneBudget parks pods whose claims have costly selectors: from a
// single pod to a thousand, alike or all different. All hints about an event together
// cost a bounded amount of work, and their result is that the event helps. The results
// are cached.
func TestHintsOfAnEventHaveOneBudget(t *testing.T) {
	for _, row := range []struct {
		what      string
		pods      int
		selectors func(i int) []string
		most      int64 // of the work of an event
	}{
		{"one", 1, func(int) []string { return []string{costlyText(0), "false"} }, 2 * poolWork},
		{"a thousand alike", 1000, func(int) []string { return []string{costlyText(0), "false"} }, 2 * poolWork},
		{"ten of one selector more", 10, func(i int) []string {
			return append(make([]string, 0), strings.Split(strings.Repeat("true;", i)+costlyText(0), ";")...)
		}, 20 * poolWork},
		{"a thousand different", 1000, func(i int) []string { return []string{costlyText(i), "false"} }, eventWork + 2*poolWork},
		{"with very many selectors", 100, func(i int) []string {
			return strings.Split(strings.TrimSuffix(strings.Repeat(costlyText(i)+";", 32), ";"), ";")
		}, eventWork + 2*poolWork},
		{"with long selectors", 100, func(i int) []string { return []string{costlyText(i) + strings.Repeat(" ", 2000), "false"} }, price.Millisecond},
	} {
		w := newWorld(t)
		var needs []model.Need
		for i := range row.pods {
			needs = append(needs, w.asking(fmt.Sprint("c", i%1000), row.selectors(i)...))
		}
		h := w.plugin.hints
		hint := h.aboutSlices()
		for _, need := range needs {
			hint.Cause(need) // as when the pods are parked
		}
		e := w.sliceChanges(7, 1)
		for again := range 2 {
			before := hint.Spent()
			hint.Begin(0)
			for _, need := range needs {
				if !hint.Hint(need, e) {
					t.Fatalf("%s: the event does not help, although that is not known", row.what)
				}
			}
			if cost := hint.Spent() - before; cost > row.most {
				t.Errorf("%s, event %d: hints cost %d units, want at most %d", row.what, again, cost, row.most)
			}
		}
	}
}

// TestHintsOfManyEventsShareTheBudget lets events wait behind one another. The budget of
// each event shrinks, but not below a minimum.
func TestHintsOfManyEventsShareTheBudget(t *testing.T) {
	h := newHintCache(allocator.Features{})
	for _, row := range []struct {
		waiting int
		want    int64
	}{{0, eventWork}, {1, eventWork / 2}, {1000, leastEventWork}} {
		if h.begin(row.waiting); h.left != row.want {
			t.Errorf("%d events wait: %d units, want %d", row.waiting, h.left, row.want)
		}
	}
}

// TestOrdinaryHintsStayExact parks 500 pods with different ordinary selectors, and ten
// pods with costly selectors. An event about devices that suit none of the 500 helps none
// of the 500.
func TestOrdinaryHintsStayExact(t *testing.T) {
	w := newWorld(t)
	var costly, ordinary []model.Need
	for i := range 10 {
		costly = append(costly, w.asking(fmt.Sprint("x", i), costlyText(i), "false"))
	}
	for i := range 500 {
		ordinary = append(ordinary, w.asking(fmt.Sprint("c", i), fmt.Sprintf(`device.driver == "drv" && device.attributes["drv"].?size.orValue(0) == %d`, i+1)))
	}
	hint := w.plugin.hints.aboutSlices()
	for _, need := range append(costly, ordinary...) {
		hint.Cause(need) // as when the pods are parked
	}
	for version := range 5 {
		e := w.sliceChanges(8, version+1)
		hint.Begin(0)
		for _, need := range costly {
			if !hint.Hint(need, e) {
				t.Error("an event does not help, although that is not known")
			}
		}
		for i, need := range ordinary {
			if hint.Hint(need, e) {
				t.Fatalf("event %d helps pod %d, which can be given nothing of it", version, i)
			}
		}
	}
}

// TestWhatHintsRememberIsBounded parks pods whose claims have long texts. The memory that
// hints use for them is bounded.
func TestWhatHintsRememberIsBounded(t *testing.T) {
	w := newWorld(t)
	h := w.plugin.hints
	for i := range 300 {
		var selectors []string
		for s := range 10 {
			selectors = append(selectors, fmt.Sprint("true || ", i, " == ", s, strings.Repeat(" ", 4000)))
		}
		h.compile(w.asking("c", selectors...))
		bytes := 0
		for need := range h.needs {
			bytes += bytesOf(need)
		}
		if bytes != h.bytes || bytes > maxNeedBytes {
			t.Fatalf("after %d pods %d of %d bytes are counted, at most %d", i, h.bytes, bytes, maxNeedBytes)
		}
	}
	for i := range maxMatches + 1 {
		h.matches[match{need: uint64(i)}] = true
	}
	h.mayUse(w.asking("c", "false"), w.sliceChanges(1, 1).Pools)
	if len(h.matches) > maxMatches {
		t.Errorf("%d answers are remembered", len(h.matches))
	}
}

// TestClaimsOfEqualNodesAreJudgedOnce has a pod with very many claims, whose allocations
// are all usable on the same node. The verdicts check a single selector.
func TestClaimsOfEqualNodesAreJudgedOnce(t *testing.T) {
	w := newWorld(t)
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprint("c", i))
		w.set(claim(names[i], 1, allocated("a", fmt.Sprint("d", i))))
	}
	f := w.compiled(t, pod("p", names...))
	if len(f.selectors) != 1 || w.filter(t, pod("p", names...)) != "a; b: resourceclaim not available on the node" {
		t.Errorf("%d selectors; %s", len(f.selectors), w.filter(t, pod("p", names...)))
	}
}
