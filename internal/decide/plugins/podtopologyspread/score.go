package podtopologyspread

import (
	"fmt"
	"math"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Compile prepares the soft constraints. It fails if a selector is malformed.
func (x soft) Compile() (plugin.SetScores, error) {
	all, err := x.compile()
	if err != nil {
		return nil, fmt.Errorf("calculating preScoreState: %w", err)
	}
	return &set{constraints: all, keysRequired: x.keysRequired}, nil
}

// set is compiled soft constraints.
type set struct {
	constraints
	// keysRequired excludes nodes that lack a topology key. Otherwise nodes are scored by
	// the keys they have, and nodes without a key share a domain.
	keysRequired bool
	*memory      // only while scoring
	// sizes, if not nil, is the number of nodes that each slot stands for.
	sizes []int
}

// Axes returns an axis for each constraint. The score depends on the count in the node's
// domain, and on the set of domains, each represented by an example node.
func (x *set) Axes(v state.View, to []plugin.Axis) ([]plugin.Axis, bool) {
	if !x.apply(v) || x.excludesAll(v) {
		return to, true
	}
	for i := range x.list {
		g := x.domainCounts(v, &x.list[i])
		to = append(to, plugin.Axis{
			Present: g.present, Domains: g.domains, Counts: g.counts, ByDomain: x.list[i].key != v1.LabelHostname, Layout: g.layout, Counted: g.counted,
		})
	}
	return to, true
}

// ScoreAlike scores nodes that stand for many. Only the number of nodes differs from the
// number of slots; host counts are weighted by it.
func (x *set) ScoreAlike(v state.View, slots []int32, sizes []int, scores []int64) (bool, error) {
	x.sizes = sizes
	defer func() { x.sizes = nil }()
	return x.Score(v, slots, scores)
}

// nodes returns the number of nodes that some of the slots stand for. Both lists have the
// same order.
func (x *set) nodes(some, all []int32) int {
	if x.sizes == nil {
		return len(some)
	}
	n, at := 0, 0
	for _, slot := range some {
		for all[at] != slot {
			at++
		}
		n += x.sizes[at]
	}
	return n
}

// memory is the scratch memory of scoring. It grows with the number of nodes, so
// thousands of needs share few of them.
type memory struct {
	kept   []int32   // the slots that are not excluded
	totals []float64 // by position in kept
	seen   []uint32  // by domain: the search that last found it
	search uint32
	shares []int64 // normalized scores, from the smallest raw score on
}

// memories holds unused scratch memory, at most as many as engines have scored at the
// same time. A sync.Pool was rejected, because it may drop its memory at any time.
var memories struct {
	sync.Mutex
	free []*memory
}

func takeMemory() *memory {
	memories.Lock()
	defer memories.Unlock()
	last := len(memories.free) - 1
	if last < 0 {
		return new(memory)
	}
	m := memories.free[last]
	memories.free = memories.free[:last]
	return m
}

func giveMemory(m *memory) {
	memories.Lock()
	defer memories.Unlock()
	memories.free = append(memories.free, m)
}

// Score rates each node by the number of pods in its domains.
func (x *set) Score(v state.View, slots []int32, scores []int64) (bool, error) {
	if !x.apply(v) {
		return false, nil
	}
	if x.excludesAll(v) {
		clear(scores)
		return true, nil
	}
	x.memory = takeMemory()
	defer func() {
		giveMemory(x.memory)
		x.memory = nil
	}()
	kept := slots
	if x.keysRequired {
		kept = x.withAllKeys(v, slots)
	}
	x.sum(v, kept, x.nodes(kept, slots))
	x.normalize(scores[:len(kept)])
	if len(kept) < len(slots) {
		putBack(slots, kept, scores)
	}
	return true, nil
}

// excludesAll reports whether every node lacks a required key.
func (x *set) excludesAll(v state.View) bool { return x.keysRequired && x.anyAbsent(v) }

// withAllKeys returns the slots of nodes that have all topology keys.
func (x *set) withAllKeys(v state.View, slots []int32) []int32 {
	kept := slots
	for i := range x.list {
		domains := v.Domains(state.TopologyKey{Label: x.list[i].key})
		if hasAll(domains, kept) {
			continue
		}
		x.kept = grown(x.kept, len(slots))
		n := 0
		for _, slot := range kept {
			x.kept[n] = slot
			if domains[slot] >= 0 {
				n++
			}
		}
		kept = x.kept[:n]
	}
	return kept
}

func hasAll(domains, slots []int32) bool {
	var signs int32
	for _, slot := range slots {
		signs |= domains[slot]
	}
	return signs >= 0
}

// putBack moves the scores of the kept slots from the front to the positions of their
// slots. All other slots score 0.
func putBack(slots, kept []int32, scores []int64) {
	last := len(kept) - 1
	for at := len(slots) - 1; at >= 0; at-- {
		if last >= 0 && kept[last] == slots[at] {
			scores[at] = scores[last]
			last--
		} else {
			scores[at] = 0
		}
	}
}

// sum adds each constraint's part to the raw scores of slots, which stand for the given
// number of nodes. It follows the order of the constraints, since sums of doubles depend
// on the order.
func (x *set) sum(v state.View, slots []int32, nodes int) {
	x.totals = grown(x.totals, len(slots))
	clear(x.totals)
	for i := range x.list {
		c := &x.list[i]
		g := x.domainCounts(v, c)
		size := nodes
		if c.key != v1.LabelHostname {
			size = x.countDomains(g.domains, slots)
		}
		g.add(x.totals, slots, math.Log(float64(size+2)), float64(c.maxSkew-1))
	}
}

// domainCounts are the pods of a constraint by domain, for scoring.
type domainCounts struct {
	present []int32       // by slot: negative without the key
	domains []int32       // by slot, for every scored node
	counts  []int32       // by domain; a domain beyond its end counts 0
	layout  state.Layout  // of the domains
	counted state.Counted // zero if nothing is counted
}

func (x *set) domainCounts(v state.View, c *constraint) domainCounts {
	key, nodes := state.TopologyKey{Label: c.key, AbsentIsEmpty: !x.keysRequired}, c.nodes
	if c.key == v1.LabelHostname { // each node is a domain of its own, whatever its label
		key, nodes = state.TopologyKey{}, state.NodeSet{}
	}
	g := domainCounts{present: v.Domains(state.TopologyKey{Label: c.key})}
	if c.selected.pods.Uncounted {
		g.domains, g.layout = v.Domains(key), v.Layout(key)
		return g
	}
	t := v.Tally(c.selected.pods, key, nodes)
	g.layout, g.counted = t.Layout(), t.Counted()
	g.domains, g.counts = t.Domains(), v.ExpandedWith(t, v.Differences(t, nil))
	return g
}

// countDomains returns the number of domains of the slots.
func (x *set) countDomains(domains, slots []int32) int {
	if x.search++; x.search == 0 {
		clear(x.seen)
		x.search = 1
	}
	n := 0
	for _, slot := range slots {
		domain := domains[slot]
		if int(domain) >= len(x.seen) {
			x.seen = append(x.seen, make([]uint32, int(domain)+1-len(x.seen))...)
		}
		if x.seen[domain] != x.search {
			x.seen[domain] = x.search
			n++
		}
	}
	return n
}

// add adds weight × count + bonus for each node that has the key. The product is rounded
// separately: a fused multiply-add would give other scores on other processors.
func (g *domainCounts) add(totals []float64, slots []int32, weight, bonus float64) {
	totals = totals[:len(slots)]
	for at, slot := range slots {
		if g.present[slot] < 0 {
			continue
		}
		var count int32
		if domain := int(g.domains[slot]); domain < len(g.counts) {
			count = g.counts[domain]
		}
		totals[at] += float64(float64(count)*weight) + bonus
	}
}

// normalize rounds the totals and inverts them: a score is ⌊100·(high + low − raw)/high⌋,
// or 100 if the largest total, high, is 0.
func (x *set) normalize(scores []int64) {
	low, high := int64(math.MaxInt64), int64(0)
	for at, total := range x.totals[:len(scores)] {
		raw := rounded(total)
		scores[at] = raw
		low, high = min(low, raw), max(high, raw)
	}
	switch {
	case high == 0:
		for at := range scores {
			scores[at] = plugin.MaxScore
		}
	case high-low < int64(len(scores)): // then a table saves most divisions
		x.shares = grown(x.shares, int(high-low+1))
		for i := range x.shares {
			x.shares[i] = plugin.MaxScore * (high - int64(i)) / high
		}
		for at, raw := range scores {
			scores[at] = x.shares[raw-low]
		}
	default:
		for at, raw := range scores {
			scores[at] = plugin.MaxScore * (high + low - raw) / high
		}
	}
}

// rounded is math.Round for numbers that are neither negative nor huge.
func rounded(total float64) int64 {
	whole := int64(total)
	if total-float64(whole) >= 0.5 {
		whole++
	}
	return whole
}

// grown returns a slice of n elements, reusing memory if it is large enough. The content
// is undefined.
func grown[T any](memory []T, n int) []T {
	if cap(memory) < n {
		return make([]T, n+n/4)[:n]
	}
	return memory[:n]
}
