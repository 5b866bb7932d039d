package preempt

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/amount"
)

// boundsKey is everything besides the state that bounds depend on.
type boundsKey struct {
	priority                              int32
	asks                                  bool // the request is known
	cpuMilli, memoryBytes, ephemeralBytes int64
	scalars                               string
}

// bounds hold a lower bound on the cost of each slot's candidate, for pods of one
// priority and request. They follow the journal.
type bounds struct {
	priority int32
	request  *model.Resources // nil if unknown
	version  uint64           // of the journal
	used     uint64
	// rated counts the nodes rated by the last sync.
	rated int

	// The slices are indexed by slot. lacks are the missing resources, a bit for each in
	// the order of the request, or manyKinds. sums are the bounds computed from sums,
	// without violations. ranks are equal to sums until a candidate was found, and its
	// rank afterwards. Ranks are without ties.
	states []boundState
	lacks  []uint32
	sums   []rank
	ranks  []rank
	// stale is a slot whose values are wrong, -1 for none.
	stale int32
	// budgets is the version of the budgets for which ranks are valid. learned means that
	// some ranks are from candidates.
	budgets uint64
	learned bool
	// noted are the slots whose bounds or ranks changed although the journal lists no
	// aspect that they depend on.
	noted noted
}

// boundReads are the aspects of a node that bounds and candidates depend on. PodLabels
// are included because budgets select by labels.
const boundReads = model.Usage | model.Allocatable | model.PodLabels | model.Nominations | model.Starts | model.Presence

type boundState uint8

const (
	noNode boundState = iota
	// noLower means that no pod has lower priority.
	noLower
	// tooShort means that the request does not fit even without the pods of lower
	// priority.
	tooShort
	// rated means that the slot has a bound for a candidate.
	rated
)

// learn records the rank of a slot's candidate, valid until the node or a budget changes.
func (b *bounds) learn(slot int32, r rank) {
	r.tie = 0
	b.ranks[slot], b.learned = r, true
	b.noted.note(slot)
}

// sync rates the nodes that have changed.
func (b *bounds) sync(v state.View, rules model.BudgetRules, use *state.Use) {
	s := v.State()
	b.rated = 0
	entries, ok := s.Since(b.version)
	if slots := s.Slots(); !ok || len(b.states) == 0 || len(entries) > slots {
		b.resize(0)
		b.resize(slots)
		b.noted.noteAll()
		for slot, alive := range s.Alive() {
			if alive {
				b.rate(v, int32(slot), use)
			}
		}
	} else {
		b.resize(slots)
		b.follow(v, entries, use)
		if b.stale >= 0 && int(b.stale) < slots && s.Alive()[b.stale] {
			b.forget(b.stale)
			b.rate(v, b.stale, use)
			b.noted.note(b.stale)
		}
	}
	b.version, b.stale = s.Version(), -1
	b.followBudgets(v, rules)
}

// followBudgets drops ranks that became wrong because budgets changed.
func (b *bounds) followBudgets(v state.View, rules model.BudgetRules) {
	since := b.budgets
	if b.budgets = v.BudgetsVersion(); !b.learned || since == b.budgets {
		return
	}
	if !v.BudgetedSince(since, rules, func(slot int32) {
		if b.ranks[slot] != b.sums[slot] {
			b.ranks[slot] = b.sums[slot]
			b.noted.note(slot)
		}
	}) {
		copy(b.ranks, b.sums)
		b.learned = false
		b.noted.noteAll()
	}
}

func (b *bounds) follow(v state.View, entries []state.Entry, use *state.Use) {
	alive := v.State().Alive()
	for i, e := range entries {
		if e.Aspects&boundReads == 0 || i+1 < len(entries) && entries[i+1].Slot == e.Slot && entries[i+1].Aspects&boundReads != 0 {
			continue
		}
		b.forget(e.Slot)
		if alive[e.Slot] {
			b.rate(v, e.Slot, use)
		}
	}
}

func (b *bounds) forget(slot int32) {
	b.states[slot], b.lacks[slot], b.sums[slot], b.ranks[slot] = noNode, 0, rank{}, rank{}
}

// resize adds slots, which the journal lists, or drops slots that the state has cut off.
func (b *bounds) resize(slots int) {
	b.states, b.lacks = resized(b.states, slots), resized(b.lacks, slots)
	b.sums, b.ranks = resized(b.sums, slots), resized(b.ranks, slots)
}

func resized[T any](values []T, n int) []T {
	if missing := n - len(values); missing >= 0 {
		return append(values, make([]T, missing)...)
	}
	return slices.Clone(values[:n])
}

// rate computes the bound of a node.
func (b *bounds) rate(v state.View, slot int32, use *state.Use) {
	b.rated++
	node := v.Node(slot)
	bands := node.Bands()
	lower := 0
	for lower < len(bands) && bands[lower].Priority < b.priority {
		lower++
	}
	if lower == 0 {
		b.states[slot] = noLower
		return
	}
	use.Reset(node)
	v.AddNominated(slot, b.priority, use)
	needed := b.atLeast(node, use, bands[:lower]) // with all of them there
	highest := 0
	for ; highest < lower; highest++ {
		band := &bands[highest]
		before := b.atLeast(node, use, bands[highest:highest+1])
		use.RemoveBand(band)
		if b.lacks[slot] = b.lacking(node, use); b.lacks[slot] != 0 {
			continue
		}
		b.states[slot] = rated
		b.sums[slot] = boundOf(bands, highest, before, max(needed, before))
		b.ranks[slot] = b.sums[slot]
		return
	}
	b.states[slot] = tooShort
}

// boundOf returns the bound of a node where removing the bands up to the one at highest
// suffices, and removing only the lower ones does not. At least ofBand pods of that band
// must go, and at least inAll pods in all. If the pod's request fits anyway, another
// filter objects, and one pod of the lowest band may be the only victim.
func boundOf(bands []state.Band, highest int, ofBand, inAll int64) rank {
	band := &bands[highest]
	r := rank{highest: band.Priority, count: int32(inAll), start: unstarted}
	r.sum = ofBand*weightOf(band.Priority) + (inAll-ofBand)*weightOf(bands[0].Priority)
	if seconds, ok := band.LatestStart(ofBand); ok {
		r.start = seconds
	}
	return r
}

// lacking returns the requested resources that a node lacks.
func (b *bounds) lacking(node state.Node, use *state.Use) uint32 {
	if b.request == nil {
		return 0
	}
	size, ask := node.Allocatable(), b.request
	used, pods := use.Used()
	var lacks uint32
	note := func(bit int, asked, size, used int64) {
		if asked > 0 && size-used < asked {
			lacks |= 1 << min(bit, manyBit)
		}
	}
	note(0, 1, node.AllowedPods(), int64(pods))
	note(1, ask.CPUMilli, size.CPUMilli, used.CPUMilli)
	note(2, ask.MemoryBytes, size.MemoryBytes, used.MemoryBytes)
	note(3, ask.EphemeralBytes, size.EphemeralBytes, used.EphemeralBytes)
	for i := range ask.Scalars {
		scalar := &ask.Scalars[i]
		note(4+i, scalar.Value, size.Scalar(scalar.Name), used.Scalar(scalar.Name))
	}
	return lacks
}

const (
	manyBit   = 31
	manyKinds = 1 << manyBit
)

// atLeast returns a lower bound on the pods of these bands that must go before the
// request may fit: the shortage divided by the largest usage of a single pod. It is at
// least 1.
func (b *bounds) atLeast(node state.Node, use *state.Use, bands []state.Band) int64 {
	n := int64(1)
	if b.request == nil {
		return n
	}
	var most state.Amounts
	var present int64
	for i := range bands {
		m := &bands[i].Most
		most.CPUMilli, most.MemoryBytes = max(most.CPUMilli, m.CPUMilli), max(most.MemoryBytes, m.MemoryBytes)
		most.EphemeralBytes = max(most.EphemeralBytes, m.EphemeralBytes)
		present += int64(bands[i].Pods)
	}
	size, ask := node.Allocatable(), b.request
	used, pods := use.Used()
	note := func(asked, size, used, most int64) {
		if short := amount.Add(asked, used-size); asked > 0 && short > 0 && most > 0 {
			n = max(n, (short-1)/most+1)
		}
	}
	note(1, node.AllowedPods(), int64(pods), 1)
	note(ask.CPUMilli, size.CPUMilli, used.CPUMilli, most.CPUMilli)
	note(ask.MemoryBytes, size.MemoryBytes, used.MemoryBytes, most.MemoryBytes)
	note(ask.EphemeralBytes, size.EphemeralBytes, used.EphemeralBytes, most.EphemeralBytes)
	return min(n, present)
}
