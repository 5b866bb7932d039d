package freeindex

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/plugins/noderesourcesbalancedallocation"
	"github.com/berth-scheduler/berth/internal/decide/plugins/noderesourcesfit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// world is an index beside a list of the same nodes.
type world struct {
	*Index
	r      *rand.Rand
	nodes  []state.NodeAmounts // by slot; without pods allowed, the slot is free
	groups int32
	// sizes are the allocatable amounts in use.
	sizes []state.NodeAmounts
	fit   *noderesourcesfit.Plugin
	even  *noderesourcesbalancedallocation.Plugin
}

func newWorld(t testing.TB, r *rand.Rand, nodes, groups, sizes int, strategy configv1.ScoringStrategyType) *world {
	w := &world{Index: New(), r: r, nodes: make([]state.NodeAmounts, nodes), groups: int32(groups)}
	for range groups {
		w.AddGroup()
	}
	for range sizes {
		w.sizes = append(w.sizes, state.NodeAmounts{CPUMilli: 1000 * (1 + r.Int64N(64)), MemoryBytes: (1 + r.Int64N(256)) << 30, EphemeralBytes: 100 << 30, Pods: 110})
	}
	weights := []int64{1 + r.Int64N(2), 1}
	fit, err := noderesourcesfit.New(&configv1.NodeResourcesFitArgs{ScoringStrategy: &configv1.ScoringStrategy{
		Type: strategy, Resources: []configv1.ResourceSpec{{Name: "cpu", Weight: weights[0]}, {Name: "memory", Weight: weights[1]}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	even, err := noderesourcesbalancedallocation.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	w.fit, w.even = fit, even
	return w
}

// change gives a random slot another state: no node, an empty one, or one with some use,
// which may exceed the node.
func (w *world) change() {
	slot := w.r.IntN(len(w.nodes))
	w.Remove(int32(slot))
	n := state.NodeAmounts{}
	if w.r.IntN(20) > 0 {
		n = w.sizes[w.r.IntN(len(w.sizes))]
		switch w.r.IntN(30) {
		case 0:
			n.CPUMilli = 0
		case 1:
			n.MemoryBytes = 0
		case 2:
			n.MemoryBytes = 1 << (44 + w.r.IntN(16))
		}
		if w.r.IntN(3) > 0 {
			n.UsedCPUMilli, n.UsedMemoryBytes, n.UsedPods = w.r.Int64N(70000), w.r.Int64N(260<<30), w.r.Int64N(112)
			n.UsedEphemeralBytes = w.r.Int64N(2) * w.r.Int64N(110<<30)
			n.NonZeroCPUMilli, n.NonZeroMemoryBytes = n.UsedCPUMilli, n.UsedMemoryBytes
			if w.r.IntN(4) == 0 {
				n.NonZeroCPUMilli, n.NonZeroMemoryBytes = n.UsedCPUMilli+100, n.UsedMemoryBytes+200<<20
			}
		}
		w.Put(int32(slot), int32(slot)%w.groups, &n)
	}
	w.nodes[slot] = n
}

// query returns a search for a random pod in some groups, with a score of each.
func (w *world) query(t testing.TB) *Query {
	var pod *model.Pod
	switch w.r.IntN(4) {
	case 0:
		pod = model.NewPod(build.Pod(build.Container("")))
	case 1:
		pod = model.NewPod(build.Pod(build.Container(fmt.Sprintf("cpu=%dm ephemeral-storage=%d", w.r.IntN(3000), w.r.Int64N(80<<30)))))
	default:
		pod = model.NewPod(build.Pod(build.Container(fmt.Sprintf("cpu=%dm memory=%d", w.r.IntN(9000), w.r.Int64N(40<<30)))))
	}
	q := &Query{Demand: Demand{pod.Asks.CPUMilli, pod.Asks.MemoryBytes, pod.Asks.EphemeralBytes}}
	for _, p := range []plugintest.BuiltIn{w.fit, w.even} {
		if plugintest.ScoreNeed(p, pod).IsZero() {
			continue
		}
		scores, err := plugintest.NodeScores(p, pod)
		if err != nil {
			t.Fatal(err)
		}
		q.Scores = append(q.Scores, Weighted{scores.Amounts, 1 + w.r.Int64N(2)})
	}
	for g := range w.groups {
		if w.r.IntN(4) > 0 {
			q.Groups, q.Base = append(q.Groups, g), append(q.Base, w.r.Int64N(3)*w.r.Int64N(100))
		}
	}
	return q
}

// scan returns the result of a search by a look at every node.
func (w *world) scan(q *Query) (best Best, feasible []int) {
	feasible = make([]int, len(q.Groups))
	for slot := range w.nodes {
		at := slices.Index(q.Groups, int32(slot)%w.groups)
		if n := &w.nodes[slot]; at < 0 || n.Pods == 0 || !q.Demand.fits(n) {
			continue
		}
		feasible[at]++
		total := q.Base[at]
		for _, s := range q.Scores {
			var score [1]int32
			s.ScoreAmounts(w.nodes[slot:slot+1], score[:])
			total += s.Weight * int64(score[0])
		}
		if len(best.Slots) == 0 || total > best.Total {
			best = Best{Total: total}
		}
		if total == best.Total {
			best.Slots = append(best.Slots, int32(slot))
		}
	}
	return best, feasible
}

// TestSearch is a property test: after random changes, a search finds the nodes that a
// scan finds, with the same total, and counts the same feasible nodes.
func TestSearch(t *testing.T) {
	for seed := range uint64(build.UnlessRaced(60, 4)) {
		r := rand.New(rand.NewPCG(seed, 1))
		strategy := []configv1.ScoringStrategyType{configv1.LeastAllocated, configv1.MostAllocated}[seed%2]
		w := newWorld(t, r, 1+r.IntN(600), 1+r.IntN(6), 1+r.IntN(12), strategy)
		for step := range 2000 {
			w.change()
			if step%20 > 0 {
				continue
			}
			q := w.query(t)
			want, feasible := w.scan(q)
			got, ok := w.Search(q)
			slices.Sort(got.Slots)
			if ok != (len(want.Slots) > 0) || ok && (got.Total != want.Total || !slices.Equal(got.Slots, want.Slots)) {
				t.Fatalf("seed %d, step %d: got %+v, want %+v", seed, step, got, want)
			}
			for i, g := range q.Groups {
				if n := w.Feasible(g, &q.Demand); n != feasible[i] {
					t.Fatalf("seed %d, step %d: %d nodes of group %d are feasible, want %d", seed, step, n, g, feasible[i])
				}
			}
		}
	}
}

// TestKeep is a property test: Keep drops the nodes into which a demand does not fit,
// also if amounts are close to the largest numbers.
func TestKeep(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	amount := func() int64 {
		return []int64{0, 1, 2, r.Int64N(9), math.MaxInt64, math.MaxInt64 - r.Int64N(3), r.Int64()}[r.IntN(7)]
	}
	for range 20_000 {
		n := state.NodeAmounts{CPUMilli: amount(), MemoryBytes: amount(), EphemeralBytes: amount(), Pods: r.Int64N(3)}
		n.UsedCPUMilli, n.UsedMemoryBytes, n.UsedEphemeralBytes, n.UsedPods = amount(), amount(), amount(), r.Int64N(3)
		d := Demand{amount(), amount(), amount()}
		if kept := d.Keep([]int32{0}, []state.NodeAmounts{n}); (len(kept) == 1) != d.fits(&n) {
			t.Fatalf("%+v on %+v: kept %v", d, n, kept)
		}
	}
}

// TestBounds is a property test: no node in a random box has a score above the bound.
func TestBounds(t *testing.T) {
	for seed := range uint64(build.UnlessRaced(3000, 100)) {
		r := rand.New(rand.NewPCG(seed, 2))
		strategy := []configv1.ScoringStrategyType{configv1.LeastAllocated, configv1.MostAllocated}[seed%2]
		w := newWorld(t, r, 1+r.IntN(8), 1, 1+r.IntN(3), strategy)
		for range 4 * len(w.nodes) {
			w.change()
		}
		for range 10 {
			q := w.query(t)
			var all box
			var inside []int
			for slot := range w.nodes {
				if n := &w.nodes[slot]; n.Pods > 0 && isRegular(n) {
					if b := boxOf(n); len(inside) == 0 {
						all = b
					} else {
						all.widen(&b)
					}
					inside = append(inside, slot)
				}
			}
			for _, slot := range inside {
				if !q.Demand.fits(&w.nodes[slot]) {
					continue
				}
				for i, s := range q.Scores {
					var score [1]int32
					s.ScoreAmounts(w.nodes[slot:slot+1], score[:])
					if bound := s.BoundAmounts(&all.AmountBox); score[0] > bound {
						t.Fatalf("seed %d: score %d of %+v is %d, bound %d of %+v", seed, i, w.nodes[slot], score[0], bound, all)
					}
				}
			}
		}
	}
}

// TestSearchLooksAtFew counts the boxes and nodes that a search looks at.
func TestSearchLooksAtFew(t *testing.T) {
	for _, row := range []struct {
		nodes, most int
		fill        int64
	}{{5000, 600, 50}, {50000, 1500, 50}, {50000, 100, 0}} {
		r := rand.New(rand.NewPCG(1, 1))
		w := newWorld(t, r, row.nodes, 1, 1, configv1.LeastAllocated)
		w.sizes[0] = state.NodeAmounts{CPUMilli: 32000, MemoryBytes: 128 << 30, Pods: 110}
		for slot := range w.nodes {
			n := w.sizes[0]
			if row.fill > 0 {
				n.UsedCPUMilli, n.UsedMemoryBytes = r.Int64N(2*320*row.fill), r.Int64N(2*row.fill<<30)
			}
			n.NonZeroCPUMilli, n.NonZeroMemoryBytes = n.UsedCPUMilli, n.UsedMemoryBytes
			w.nodes[slot] = n
			w.Put(int32(slot), 0, &n)
		}
		var looked []int64
		for range 200 {
			q := w.query(t)
			q.Groups, q.Base = []int32{0}, []int64{0}
			before := w.Looked
			w.Feasible(0, &q.Demand)
			w.Search(q)
			looked = append(looked, w.Looked-before)
		}
		slices.Sort(looked)
		t.Logf("%d nodes, %d %% full: median %d, p99 %d", row.nodes, row.fill, looked[100], looked[197])
		if median := looked[100]; median > int64(row.most) {
			t.Errorf("%d nodes, %d %% full: a search looks at %d boxes and nodes, want at most %d", row.nodes, row.fill, median, row.most)
		}
	}
}
