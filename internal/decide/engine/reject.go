package engine

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// reject returns the first objection to each node, as a rejection and as counts. It
// remembers the rejection for pods of the same shape. The objections are valid until the
// next cycle.
func (e *Engine) reject(of *cycle) (*plan.Rejection, objectionCounts) {
	own := *of // a copy, so that cycles of placed pods stay on the stack
	c := &own
	known := e.rejections.toLearn(c, e.columns.clock)
	var counts objectionCounts
	if known != nil {
		counts.bySlot = known.emptyColumn(c)
	}
	keep := counts.bySlot != nil
	if !keep && len(c.profile.PostFilters) > 0 {
		counts.bySlot = e.objectionColumn(c)
	}
	e.countObjections(c, &counts)
	if e.unfinished {
		return nil, counts
	}
	rejection := c.rejectionFor(c.here.verdicts, &counts)
	e.listed(len(rejection.Counts))
	if known != nil {
		if keep {
			counts.decided = e.rejections.next()
		}
		kept := counts
		if !keep {
			kept.bySlot = nil
		}
		e.rejections.learn(known, c, e.versionsFor(c), kept, rejection)
	}
	return rejection, counts
}

// objectionColumn returns an empty column for the objections by slot, valid until the
// next cycle.
func (e *Engine) objectionColumn(c *cycle) []uint8 {
	slots := c.view.State().Slots()
	if cap(e.scratch.objections) < slots {
		e.scratch.objections = make([]uint8, slots)
	}
	column := e.scratch.objections[:slots]
	clear(column)
	return column
}

// rejectionFor builds the text of the objections to all nodes. verdicts returned the
// codes.
func (c *cycle) rejectionFor(verdicts []*plugin.Verdicts, counts *objectionCounts) *plan.Rejection {
	r := &plan.Rejection{Plugins: slices.Clone(c.narrowed.by)}
	var tally reason.Tally
	for _, o := range counts.list {
		if o.nodes == 0 {
			continue
		}
		if o.kept != 0 {
			r.HeldRoom = true
			tally.Add(o.nodes, "node(s) had capacity reserved for pod group "+c.view.RoomHolder(o.kept))
		} else {
			tally.Add(o.nodes, verdicts[o.filter].Reasons(o.code)...)
		}
		name := c.profile.nameOf(o.filter)
		if !slices.Contains(r.Plugins, name) {
			r.Plugins = append(r.Plugins, name)
		}
		if isPending(verdicts[o.filter], o.code) && !slices.Contains(r.Pending, name) {
			r.Pending = append(r.Pending, name)
		}
	}
	if outside := c.view.ToChooseAmong() - len(c.narrowed.slots); len(c.narrowed.by) > 0 && outside > 0 {
		tally.Add(outside, c.narrowed.text())
	}
	r.Counts = tally.Counts()
	slices.Sort(r.Plugins)
	slices.Sort(r.Pending)
	return r
}

// objectionCounts counts nodes by the first objection to them. Different objections are
// few, whatever the number of nodes.
type objectionCounts struct {
	// Invariant: the objections are distinct, and at, once needed, has the position of
	// each.
	list []objectionCount
	at   map[objection]int
	// bySlot, unless nil, receives each node's objection: its position in list plus one,
	// 0 for slots without a node.
	bySlot []uint8
	// decided numbers the decisions that are remembered with a column; 0 for others.
	// Since that decision the column has followed the journal.
	decided uint64
}

type objectionCount struct {
	objection
	nodes int
}

const (
	// fewObjections is the number of objections up to which a walk is faster than a map.
	fewObjections = 16
	// maxObjections bounds the different objections in a column by slot.
	maxObjections = 255
)

// index returns the position of an objection, adding it if it is new.
func (t *objectionCounts) index(o objection) int {
	if t.at != nil {
		if i, ok := t.at[o]; ok {
			return i
		}
	} else if i := slices.IndexFunc(t.list, func(c objectionCount) bool { return c.objection == o }); i >= 0 {
		return i
	}
	t.list = append(t.list, objectionCount{objection: o})
	last := len(t.list) - 1
	if t.at != nil {
		t.at[o] = last
	} else if last >= fewObjections {
		t.at = make(map[objection]int, 2*fewObjections)
		for i, c := range t.list {
			t.at[c.objection] = i
		}
	}
	if len(t.list) > maxObjections {
		t.bySlot = nil
	}
	return last
}

// add counts one node.
func (t *objectionCounts) add(slot int32, o objection) {
	i := t.index(o)
	t.list[i].nodes++
	if t.bySlot != nil {
		t.bySlot[slot] = uint8(i + 1)
	}
}

// addColumn counts the nodes that a filter rejects and drops them, in place.
func (t *objectionCounts) addColumn(filter int, slots []int32, codes []reason.Code) (left []int32) {
	n, last, at := 0, reason.None, 0
	for _, slot := range slots {
		code := codes[slot]
		if code == reason.None {
			slots[n] = slot
			n++
			continue
		}
		if code != last {
			last, at = code, t.index(objection{filter: filter, code: code})
		}
		t.list[at].nodes++
		if t.bySlot != nil {
			t.bySlot[slot] = uint8(at + 1)
		}
	}
	return slots[:n]
}

// addRules counts the nodes that a filter's rules about counts reject and drops them, in
// place.
func (t *objectionCounts) addRules(filter int, slots []int32, rules []plugin.CountRule) (left []int32) {
	for i := range rules {
		rule, n := &rules[i], 0
		for _, slot := range slots {
			if code := rule.Verdict(slot); code != reason.None {
				t.add(slot, objection{filter: filter, code: code})
				continue
			}
			slots[n] = slot
			n++
		}
		slots = slots[:n]
	}
	return slots
}

// countObjections counts the nodes by the first objection to each. It goes filter by
// filter over the nodes that passed so far. So a node costs one lookup in each column up
// to the first that rejects it. Nodes with nominated pods, or on which the view has other
// pods than the state, are checked one by one.
func (e *Engine) countObjections(c *cycle, counts *objectionCounts) {
	nominated := e.objectionsBesideNominated(c)
	slots := e.slotsToCheck(c)
	e.visited(len(slots))
	single := slices.Clone(c.view.Touched())
	for slot := range nominated {
		single = append(single, slot)
	}
	if len(c.narrowed.by) > 0 && len(c.narrowed.slots) <= fewNodes {
		single = slots
	}
	slots, single = apart(slots, single)
	for _, slot := range single {
		o, ok := nominated[slot]
		if !ok {
			o = e.first(c, &c.here, slot)
		}
		counts.add(slot, o)
	}
	for i := range c.needs {
		switch {
		case len(slots) == 0:
			return
		case c.counting[i] != nil:
			e.begin()
			slots = counts.addRules(i, slots, c.here.counts[i].rules)
			e.endAt(filterPoint, c.profile, i, Success)
		case c.profile.Filters[i].Turn != nil:
			if own := e.turnVerdicts(c, i); own != nil {
				e.asked(c.profile.first+int32(i), own.ask(slots))
				slots = counts.addColumn(i, slots, own.codes)
			}
		default:
			if column := e.filterColumn(c, i); column != nil && column.nonZero > 0 {
				// a failure counts as an objection, and an unfinished turn counts nothing
				_ = e.completeFilter(c, i, column, slots)
				slots = counts.addColumn(i, slots, column.values)
			}
		}
	}
	if c.extended != nil {
		for _, slot := range slots {
			counts.add(slot, objection{filter: len(c.profile.Filters), code: c.extended.Filter(c.view.Node(slot))})
		}
	}
}

// slotsToCheck returns the nodes of the view's restriction that PreFilter left,
// ascending. The caller owns them until the next cycle.
func (e *Engine) slotsToCheck(c *cycle) []int32 {
	switch only := c.view.Restriction(); {
	case len(c.narrowed.by) > 0:
		return append(e.scratch.slots[:0], c.narrowed.slots...)
	case only != nil:
		return append(e.scratch.slots[:0], only.Slots()...)
	}
	return e.alive(c.view.State().Alive())
}
