package preempt

import (
	"maps"

	// the name rank is taken by a candidate's rank here
	"github.com/berth-scheduler/berth/internal/cluster/state"
	ranked "github.com/berth-scheduler/berth/internal/decide/engine/rank"
	"github.com/berth-scheduler/berth/internal/model"
)

// order holds the potential nodes for pods of one remembered rejection and priority, in
// the order of their bounds. Nodes that need not be tried are only counted. It follows
// the journal, the findings and the budgets. So a search visits only changed nodes and
// the nodes that it tries.
//
// The result equals that of a search that considers each node (search.tryByBounds).
type order struct {
	basis
	reads model.Aspect
	used  uint64
	// Versions up to which changes have been applied: the journal, and the pending slots
	// of bounds and findings.
	version           uint64
	boundsAt, foundAt uint64
	// wait is the number of further searches with few changes before each, until the
	// nodes are put in order again.
	wait int
	// looked counts the nodes considered in this search.
	looked int

	open *ranked.Tournament // the nodes with a bound; nil if the nodes are not in order
	// group and at are indexed by slot: the position in groups, -1 for a node that is not
	// potential, and the position in that group.
	group, at []int32
	groups    []grouped
	find      map[groupKey]int32
}

// groupKey is common to the nodes of a group. They are to be tried (rated), have no pods
// of lower priority (noLower), lack the same resources (tooShort), or have no candidate
// for the same reason (noCandidate).
type groupKey struct {
	state boundState
	what  uint32 // the missing resources, or the position of the reasons
}

// noCandidate extends boundState: the node has no candidate, and the reason is cached.
const noCandidate = rated + 1

type grouped struct {
	groupKey
	slots []int32 // empty for the group of nodes to try
}

type orderKey struct {
	rejection uint64
	priority  int32
}

const (
	// fewOrders is the number of rejections whose orders are always kept, maxOrders the
	// maximum. orderBytes is about the memory limit of all orders, at orderBytesPerSlot
	// for each order and slot.
	fewOrders         = 4
	maxOrders         = 32
	orderBytes        = 32 << 20
	orderBytesPerSlot = 56
	// maxSeen bounds the rejections whose searches are counted.
	maxSeen = 256
	// looksPerOrder is the number of searches that consider each node and together cost
	// about as much as building an order. That many come first, so orders at most double
	// the total cost.
	looksPerOrder = 8
)

// orderFor returns the up-to-date order of the potential nodes for pods like the cycle's.
// It is nil if changes cannot be followed, or after too few such searches. The nodes are
// not in order while considering each node costs less than building the order.
func (m *Memory) orderFor(c *cycle, b basis, priority int32) *order {
	if c.Rejection == 0 {
		return nil
	}
	key := orderKey{c.Rejection, priority}
	o := m.orders[key]
	if o == nil {
		if n := m.seen[key]; n < looksPerOrder {
			if n == 0 && len(m.seen) >= maxSeen {
				clear(m.seen)
			}
			m.seen[key]++
			return nil
		}
		delete(m.seen, key)
		most := orderBytes / (orderBytesPerSlot * max(1, c.View.State().Slots()))
		for len(m.orders) >= min(max(fewOrders, most), maxOrders) {
			forgetOldest(m.orders, func(o *order) uint64 { return o.used })
		}
		o = &order{}
		m.orders[key] = o
	}
	o.used, o.looked, o.reads = m.clock, 0, c.Reads|boundReads
	entries, noted, few := o.changes(c.View.State(), b)
	switch {
	case !few && o.open != nil:
		*o = order{reads: o.reads, used: o.used, wait: looksPerOrder}
	case !few && o.wait > 0:
		o.wait = looksPerOrder
	case o.wait > 1:
		o.wait--
	case o.open == nil:
		o.fill(c, b)
	default:
		o.follow(c, entries, noted)
	}
	o.basis = b
	return o
}

// forgetOrders deletes the orders whose basis is no longer kept.
func (m *Memory) forgetOrders(on func(basis) bool) {
	maps.DeleteFunc(m.orders, func(_ orderKey, o *order) bool { return on(o.basis) })
}

// changes returns the changes since the last search: journal entries and pending slots.
// few is false if any slot may have changed, or too many have.
func (o *order) changes(s *state.State, b basis) (entries []state.Entry, slots [2][]int32, few bool) {
	if o.basis != b || s.Slots() < len(o.group) {
		return nil, slots, false
	}
	entries, few = s.Since(o.version)
	if few {
		slots[0], few = b.bounds.noted.since(o.boundsAt)
	}
	if few && b.known != nil {
		slots[1], few = b.known.noted.since(o.foundAt)
	}
	return entries, slots, few && len(entries)+len(slots[0])+len(slots[1]) <= fewChanges+s.Slots()/changesPerSlot
}

// follow updates the nodes that have changed.
func (o *order) follow(c *cycle, entries []state.Entry, noted [2][]int32) {
	o.grow(c.View.State().Slots())
	for i, e := range entries {
		if e.Aspects&o.reads != 0 && (i+1 == len(entries) || entries[i+1].Slot != e.Slot || entries[i+1].Aspects&o.reads == 0) {
			o.look(c, e.Slot)
		}
	}
	for _, slots := range noted {
		for _, slot := range slots {
			o.look(c, slot)
		}
	}
}

const (
	// An order follows at most fewChanges changes, plus one for every changesPerSlot
	// slots.
	fewChanges     = 64
	changesPerSlot = 32
)

// followed records that all changes so far have been applied.
func (o *order) followed(s *state.State) {
	o.version, o.boundsAt = s.Version(), o.bounds.noted.now()
	if o.known != nil {
		o.foundAt = o.known.noted.now()
	}
}

// fill puts all potential nodes in order.
func (o *order) fill(c *cycle, b basis) {
	s := c.View.State()
	o.basis, o.group, o.at, o.groups, o.find = b, nil, nil, nil, map[groupKey]int32{}
	o.grow(s.Slots())
	var open []int32
	potential := c.Potential()
	for _, slot := range potential {
		key := o.keyOf(slot)
		if key.state == rated {
			open = append(open, slot)
		}
		o.join(slot, key)
	}
	o.looked += len(potential)
	hashes := s.NameHashes()
	place := func(slot int32) uint64 { return placeOf(hashes, slot) }
	o.open = ranked.NewTournament(s.Slots(), open, place, o.compare)
}

func (o *order) grow(slots int) {
	for slot := len(o.group); slot < slots; slot++ {
		o.group, o.at = append(o.group, -1), append(o.at, 0)
	}
	if o.open != nil {
		o.open.Grow(slots)
	}
}

// look updates one node.
func (o *order) look(c *cycle, slot int32) {
	o.looked++
	if !c.Resolvable(slot) {
		o.open.Remove(slot)
		o.leave(slot)
		return
	}
	key := o.keyOf(slot)
	if at := o.group[slot]; at < 0 || o.groups[at].groupKey != key {
		o.leave(slot)
		o.join(slot, key)
	}
	if key.state == rated {
		o.open.Put(slot, c.place(slot))
	} else {
		o.open.Remove(slot)
	}
}

// keyOf returns the group of a potential node.
func (o *order) keyOf(slot int32) groupKey {
	if o.known != nil {
		if at, known := o.known.reasons(slot); known {
			return groupKey{noCandidate, uint32(at)}
		}
	}
	switch state := o.bounds.states[slot]; state {
	case tooShort:
		return groupKey{state, o.bounds.lacks[slot]}
	case noLower:
		return groupKey{state: state}
	}
	return groupKey{state: rated}
}

func (o *order) join(slot int32, key groupKey) {
	i, ok := o.find[key]
	if !ok {
		i = int32(len(o.groups))
		o.groups, o.find[key] = append(o.groups, grouped{groupKey: key}), i
	}
	o.group[slot] = i
	if key.state == rated {
		return
	}
	g := &o.groups[i]
	o.at[slot], g.slots = int32(len(g.slots)), append(g.slots, slot)
}

func (o *order) leave(slot int32) {
	i := o.group[slot]
	if i < 0 {
		return
	}
	o.group[slot] = -1
	g := &o.groups[i]
	if g.state == rated {
		return
	}
	last := g.slots[len(g.slots)-1]
	g.slots[o.at[slot]], o.at[last] = last, o.at[slot]
	g.slots = g.slots[:len(g.slots)-1]
}

func (o *order) compare(a, b int32) int { return o.boundOf(a).compareRungs(o.boundOf(b)) }

// short returns the groups of nodes that lack a resource.
func (o *order) short() (groups []grouped) {
	for _, g := range o.groups {
		if g.state == tooShort && len(g.slots) > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// noted are slots that changed since from in ways that the journal does not record.
type noted struct {
	from  uint64
	slots []int32
}

// maxNoted bounds the slots; beyond it any slot may have changed.
const maxNoted = 1 << 12

func (n *noted) note(slot int32) {
	if len(n.slots) == maxNoted {
		n.noteAll()
	}
	n.slots = append(n.slots, slot)
}

// noteAll records that any slot may have changed.
func (n *noted) noteAll() { n.from, n.slots = n.now()+1, n.slots[:0] }

// now returns the position after the last record.
func (n *noted) now() uint64 { return n.from + uint64(len(n.slots)) }

// since returns the slots recorded after position at. It returns false if any slot may
// have changed.
func (n *noted) since(at uint64) ([]int32, bool) {
	if at < n.from {
		return nil, false
	}
	return n.slots[at-n.from:], true
}
