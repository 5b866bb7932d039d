package preempt

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/state"
)

// boundsKey is what bounds depend on besides the state.
type boundsKey struct {
	priority                              int32
	asks                                  bool // there is a request
	cpuMilli, memoryBytes, ephemeralBytes int64
	scalars                               string
}

// bounds say of each slot how good its candidate can be at best, for pods of one priority and request. They follow the journal.
type bounds struct {
	priority int32
	request  *model.Resources // nil if it is not known what must be free
	version  uint64           // of the journal
	bySlot   []bound
	// exact are the ranks of candidates that were found, by slot.
	exact []exact
	used  uint64
	// rated is how many nodes the last sync has rated.
	rated int
}

// reads are the aspects of a node that bounds and candidates depend on. The labels are those that budgets select by.
const reads = model.Usage | model.Allocatable | model.PodLabels | model.Preemption | model.Presence

type boundState uint8

const (
	noNode boundState = iota
	// noLower: there is no pod of lower priority.
	noLower
	// tooShort: even without all pods of lower priority the request does not fit.
	tooShort
	// rated: the bound is that of a candidate.
	rated
)

// bound is the bound of one slot. The rungs are those of rank; there is no violation at best.
type bound struct {
	sum, start     int64
	highest, count int32
	// lacks are the resources that it is too short of: a bit for each, in the order of the request, or manyKinds.
	lacks uint32
	state boundState
}

// exact is the rank of a slot's candidate, without the tie, unless at is 0.
type exact struct {
	rank
	at uint64 // one more than the version of the budgets
}

// rankOf returns the best rank that the candidate of a slot may have, without the tie.
func (b *bounds) rankOf(slot int32, budgets uint64) rank {
	if e := &b.exact[slot]; e.at == budgets+1 {
		return e.rank
	}
	own := &b.bySlot[slot]
	return rank{highest: own.highest, sum: own.sum, count: own.count, start: own.start}
}

// learn notes the rank of a slot's candidate, which holds until the node or a budget changes.
func (b *bounds) learn(slot int32, r rank, budgets uint64) {
	r.tie = 0
	b.exact[slot] = exact{r, budgets + 1}
}

// sync rates the nodes that have changed.
func (b *bounds) sync(v state.View, use *state.Use) {
	s := v.State()
	b.rated = 0
	entries, ok := s.Since(b.version)
	slots := s.Slots()
	if all := !ok || len(b.bySlot) == 0 || len(entries) > slots; all {
		b.bySlot, b.exact = make([]bound, slots), make([]exact, slots)
		for slot, alive := range s.Alive() {
			if alive {
				b.rate(v, int32(slot), use)
			}
		}
		b.version = s.Version()
		return
	}
	if missing := slots - len(b.bySlot); missing > 0 {
		b.bySlot, b.exact = append(b.bySlot, make([]bound, missing)...), append(b.exact, make([]exact, missing)...)
	} else if missing < 0 {
		b.bySlot, b.exact = slices.Clone(b.bySlot[:slots]), slices.Clone(b.exact[:slots])
	}
	alive := s.Alive()
	for i, e := range entries {
		if e.Aspects&reads == 0 || i+1 < len(entries) && entries[i+1].Slot == e.Slot && entries[i+1].Aspects&reads != 0 {
			continue
		}
		b.bySlot[e.Slot], b.exact[e.Slot] = bound{}, exact{}
		if alive[e.Slot] {
			b.rate(v, e.Slot, use)
		}
	}
	b.version = s.Version()
}

// rate works out the bound of a node.
func (b *bounds) rate(v state.View, slot int32, use *state.Use) {
	b.rated++
	node := v.Node(slot)
	bands := node.Bands()
	lower := 0
	for lower < len(bands) && bands[lower].Priority < b.priority {
		lower++
	}
	to := &b.bySlot[slot]
	if lower == 0 {
		to.state = noLower
		return
	}
	use.Reset(node)
	v.AddNominated(slot, b.priority, use)
	needed := b.atLeast(node, use, bands[:lower]) // with all of them there
	highest := 0
	for ; highest < lower; highest++ {
		band := &bands[highest]
		before := b.atLeast(node, use, bands[highest:highest+1])
		use.Add(&band.Used, int(band.Pods), -1)
		if to.lacks = b.lacking(node, use); to.lacks != 0 {
			continue
		}
		b.set(to, bands, highest, before, max(needed, before))
		return
	}
	to.state = tooShort
}

// set sets the bound of a node where the bands up to the one at highest suffice, and those below it do not: so many pods at least must go of that band,
// and so many in all. If the pod's request fits anyway, something else is in the way, and one pod of the lowest band may be all that must go.
func (b *bounds) set(to *bound, bands []state.Band, highest int, ofBand, inAll int64) {
	band := &bands[highest]
	*to = bound{state: rated, highest: band.Priority, count: int32(inAll)}
	to.sum = ofBand*weightOf(band.Priority) + (inAll-ofBand)*weightOf(bands[0].Priority)
	if to.start = band.Latest; int64(band.Unstarted) >= ofBand {
		to.start = unstarted
	}
}

// lacking returns of which requested resources there is too little.
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

// atLeast returns how many pods of these bands must go at least so that what is short may fit: what is short, divided by the most that one of them
// occupies. It is at least 1.
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
		if short := asked - (size - used); asked > 0 && short > 0 && most > 0 {
			n = max(n, (short-1)/most+1)
		}
	}
	note(1, node.AllowedPods(), int64(pods), 1)
	note(ask.CPUMilli, size.CPUMilli, used.CPUMilli, most.CPUMilli)
	note(ask.MemoryBytes, size.MemoryBytes, used.MemoryBytes, most.MemoryBytes)
	note(ask.EphemeralBytes, size.EphemeralBytes, used.EphemeralBytes, most.EphemeralBytes)
	return min(n, present)
}
