package engine

import (
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine/freeindex"
	"github.com/berth-scheduler/berth/internal/decide/engine/rank"
	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// A pod whose requests no pod had before has no columns of amounts, and filling them
// costs a look at every node. Instead, an index (package freeindex) holds the nodes by
// everything else that a ranking would group them by, and by their free amounts. All pods
// that differ only in amounts share the index. It follows the journal like a ranking, and
// makes the same choice as the scan. While a pod is nominated to any node, columns
// decide, because filters count nominated pods by priority.

// indexed is the index for pods with one key, and what was counted to decide whether it
// pays off.
type indexed struct {
	index *freeindex.Index // nil: decisions scan
	// groups are the groups of index, by their numbers, and find has the number of each.
	groups []rank.Group
	sums   []int64 // by group: the scores that depend on the node, not on its amounts
	find   map[indexGroup]int32
	// version is the version of the journal at which the index is up to date. reads are
	// the aspects that a node's place in it depends on.
	version uint64
	reads   model.Aspect
	used    uint64 // the engine's clock when it was last used
	// firsts counts the pods with new requests that came while the index was missing, and
	// served the decisions that used it. price is the number of firsts after which the
	// index is built; 0 stands for leastFirsts.
	firsts, served, price int
}

type indexGroup struct {
	of  rank.Coordinates
	sum int64
}

const (
	// An index is built after leastFirsts pods with new requests. If it served fewer
	// decisions than its price, the price doubles, up to maxFirsts.
	leastFirsts, maxFirsts = 16, 1024
	// indexFollows bounds the changes that an index follows: one in this many slots.
	indexFollows = 32
	// indexMarks bounds the nodes that are evaluated one by one: one in this many slots.
	indexMarks = 8
	// New requests must be common before they are decided about without columns: an
	// app's first pod fills the columns that its other pods use. Each pod with new
	// requests adds newGain to a level, up to maxNew, and each other pod takes 1 away.
	// From enoughNew on new requests are common.
	newGain, enoughNew, maxNew = 4, 20, 64
	// recentNeeds bounds the needs that are remembered from decisions by an index. The
	// next pod with such a need gets columns.
	recentNeeds = 4096
)

// indices are all indices, bounded in bytes, and the least recently used are dropped
// first.
type indices struct {
	byKey map[rankKey]*indexed
	// recent are the needs of the last decisions by an index; order has the same needs,
	// the oldest at next once it is full.
	recent map[model.Need]struct{}
	order  []model.Need
	next   int
	// level is high if new requests are common; see newGain.
	level int
}

// amountNeeds are the parts of a pod that depend on the amounts of nodes.
type amountNeeds struct {
	filter int // position of the filter
	need   model.Need
	query  freeindex.Query
	// skip has the positions of the scores, and of their compiled needs; nil for a plugin
	// that skips the pod.
	skip [maxScores]bool
	of   [maxScores]plugin.AmountScores
	// scalars means that the filter compares more than the demand.
	scalars bool
}

// readsAmounts reports whether a plugin reads nothing but amounts.
func readsAmounts(reads model.Aspect) bool { return reads&^(model.Usage|model.Allocatable) == 0 }

// amountNeedsOf finds the parts of the cycle's pod that depend on amounts. ok is false if
// an equal pod was seen before, or the parts depend on more.
func (e *Engine) amountNeedsOf(c *cycle, a *amountNeeds) (ok bool) {
	*a = amountNeeds{filter: -1, query: freeindex.Query{Scores: a.query.Scores[:0]}}
	for i, f := range c.profile.Filters {
		if !f.HasColumn() || c.needs[i].IsZero() || !readsAmounts(f.Reads.Nodes) {
			continue
		}
		if a.filter >= 0 || !e.alwaysIndex && !e.isNew(c.profile.ids[i], c.needs[i]) {
			return false
		}
		a.filter, a.need = i, c.needs[i]
	}
	// NodeResourcesBalancedAllocation counts a used share of more than 100 % as 100 %. On
	// a feasible node this never happens if the filter and the score read the same
	// request. Only then is the bound of its score valid.
	if a.filter < 0 || c.pod.Asks.CPUMilli != c.pod.Occupies.CPUMilli || c.pod.Asks.MemoryBytes != c.pod.Occupies.MemoryBytes {
		return false
	}
	verdicts := c.here.verdicts[a.filter]
	asks := verdicts.Request
	if asks == nil {
		return false
	}
	a.scalars = verdicts.Amounts == nil
	a.query.Demand = freeindex.Demand{CPUMilli: asks.CPUMilli, MemoryBytes: asks.MemoryBytes, EphemeralBytes: asks.EphemeralBytes}
	for i := range c.profile.Scores {
		single := c.profile.scorers[i].column
		if single == nil || !readsAmounts(single.Reads) {
			continue
		}
		if ok := e.addAmountScore(c, i, single, a); !ok {
			return false
		}
	}
	return true
}

// isNew reports whether no pod with the need was decided about lately, and new requests
// are common.
func (e *Engine) isNew(plugin int32, need model.Need) bool {
	x := &e.indices
	if _, recent := x.recent[need]; recent || e.columns.filters.of(plugin, need) != nil {
		x.level = max(x.level-1, 0)
		return false
	}
	x.level = min(x.level+newGain, maxNew)
	return x.level >= enoughNew
}

// addAmountScore compiles the need of a Score plugin that reads nothing but amounts.
func (e *Engine) addAmountScore(c *cycle, i int, single *plugin.Score, a *amountNeeds) (ok bool) {
	need, own, err := e.scoreNeed(c, i)
	if err != nil || own != nil || single.Normalization != model.AsIs {
		return false
	}
	a.skip[i] = true
	if need.IsZero() {
		return true
	}
	var scores plugin.NodeScores
	if column := e.columns.scores.of(c.profile.ids[len(c.profile.Filters)+i], need); column != nil {
		scores = column.scores
	} else if scores, err = c.profile.Profile.ScoreNeed(i, c.pod).Compile(); err != nil {
		return false
	}
	if scores.Amounts == nil {
		return false
	}
	a.of[i] = scores.Amounts
	if e.sampled {
		a.of[i] = &timedAmounts{scores.Amounts, e, single.Name}
	}
	a.query.Scores = append(a.query.Scores, freeindex.Weighted{AmountScores: a.of[i], Weight: c.profile.Scores[i].Weight})
	return true
}

// chooseForNew returns the node that the scan would choose for a pod whose requests no
// pod had before, its total and the number of feasible nodes. ok is false if another way
// must decide.
func (e *Engine) chooseForNew(c *cycle, following int) (best choice, ok bool) {
	a := &e.scratch.amounts
	if e.withoutRanking || following > 0 || c.view.Restriction() != nil || c.view.Nominated() > 0 || !e.isRanked(c) || !e.amountNeedsOf(c, a) {
		return best, false
	}
	s := &e.scratch.sight
	if !e.lookBesides(c, s, a) {
		return best, false
	}
	if best, ok = e.chooseByIndex(c, s, a); ok {
		e.work.Indexed++
	} else if best, ok = e.scanAmounts(c, s, a); !ok {
		return best, false
	}
	e.indices.note(a.need)
	if e.audits {
		e.doubtRank(c, best)
	}
	return best, true
}

// chooseByIndex is chooseForNew by an index, if the pod has one.
func (e *Engine) chooseByIndex(c *cycle, s *sight, a *amountNeeds) (best choice, ok bool) {
	if a.scalars {
		return best, false
	}
	x := e.indices.of(&s.key, e.columns.clock)
	if x.index != nil && !e.followIndex(x, c, s) {
		x.drop()
	}
	if x.index == nil && !e.startIndex(x, c, s) {
		return best, false
	}
	looked := x.index.Looked
	if !e.mark(x, c, s) {
		return best, false
	}
	best, ok = e.chooseIn(x, c, s, a)
	e.visited(int(x.index.Looked - looked))
	x.served++
	return best, ok
}

// mark marks the nodes with a count by host. It returns false if they are too many.
func (e *Engine) mark(x *indexed, c *cycle, s *sight) bool {
	s.marked = s.marked[:0]
	most := fewNodes + c.view.State().Slots()/indexMarks
	for i := range s.narrow {
		of := &s.narrow[i]
		e.meter.Spend(price.Nodes, int64(len(of.Domains)))
		for slot, domain := range of.Domains {
			if domain < 0 || int(domain) >= len(of.Counts) || of.Counts[domain] == 0 || x.index.GroupOf(int32(slot)) < 0 {
				continue
			}
			if s.marked = append(s.marked, int32(slot)); len(s.marked) > most {
				return false
			}
		}
	}
	if len(s.narrow) > 1 {
		slices.Sort(s.marked)
		s.marked = slices.Compact(s.marked)
	}
	x.index.Mark(s.marked)
	return true
}

// findGroups finds the groups with feasible nodes, and then the feasible marked nodes as
// groups of one node. It returns the number of feasible nodes, and of groups that are not
// marked nodes.
func (x *indexed) findGroups(c *cycle, s *sight, d *freeindex.Demand) (feasible, groups int) {
	s.groups, s.examples, s.sizes, s.totals = s.groups[:0], s.examples[:0], s.sizes[:0], s.totals[:0]
	s.feasible = slices.Grow(s.feasible[:0], len(x.groups))[:len(x.groups)]
	clear(s.feasible)
	put := func(group, example int32, nodes int) {
		feasible += nodes
		s.groups, s.examples, s.sizes = append(s.groups, group), append(s.examples, example), append(s.sizes, nodes)
		s.totals = append(s.totals, x.sums[group])
	}
	for _, slot := range s.marked {
		if x.index.Fits(slot, d) {
			s.feasible[x.index.GroupOf(slot)]--
		}
	}
	for g := range x.groups {
		group := int32(g)
		if x.index.Nodes(group) == 0 {
			continue
		}
		example := x.index.Example(group)
		if example < 0 || rejects(c, example) {
			continue
		}
		if n := s.feasible[g] + x.index.Feasible(group, d); n > 0 {
			put(group, example, n)
		}
	}
	groups = len(s.groups)
	for _, slot := range s.marked {
		if x.index.Fits(slot, d) && !rejects(c, slot) {
			put(x.index.GroupOf(slot), slot, 1)
		}
	}
	return feasible, groups
}

// chooseIn returns the best node of an index. ok is false if a score fails.
func (e *Engine) chooseIn(x *indexed, c *cycle, s *sight, a *amountNeeds) (best choice, ok bool) {
	feasible, groups := x.findGroups(c, s, &a.query.Demand)
	best.feasible = feasible
	if best.feasible == 0 {
		return best, true
	}
	if best.feasible > 1 { // a single node is not scored
		if e.enter(Score); !s.addScores(e, x.groups, c) {
			return best, false
		}
	}
	a.query.Groups, a.query.Base = s.groups[:groups], s.totals[:groups]
	a.query.Alone, a.query.AloneBase = s.examples[groups:], s.totals[groups:]
	found, _ := x.index.Search(&a.query)
	if best.feasible == 1 {
		best.slot = found.Slots[0]
		return best, true
	}
	hashes, places := c.view.State().NameHashes(), e.scratch.places[:0]
	for _, slot := range found.Slots {
		places = append(places, rank.Mix(hashes[slot]))
	}
	e.scratch.places = places
	best.slot, best.total = rank.Pick(e.saltIn(c), places, found.Slots), found.Total
	return best, true
}

// startIndex builds an index if enough pods had new requests.
func (e *Engine) startIndex(x *indexed, c *cycle, s *sight) bool {
	if x.firsts++; x.firsts <= max(x.price, leastFirsts) && !e.alwaysIndex {
		return false
	}
	x.firsts, x.served = 0, 0
	if !e.fillIndex(x, c, s) {
		x.drop()
		return false
	}
	e.indices.makeRoom(x, e.rankings.maxBytes)
	return true
}

// fillIndex puts all nodes that pass the filters besides amounts into a new index. It
// returns false if a filter fails, or the index would have too many groups.
func (e *Engine) fillIndex(x *indexed, c *cycle, s *sight) bool {
	slots, ok := e.keepBesides(c, s)
	if !ok {
		return false
	}
	st := c.view.State()
	x.index, x.groups, x.sums, x.find = freeindex.New(), x.groups[:0], x.sums[:0], map[indexGroup]int32{}
	x.index.Resize(st.Slots())
	x.version, x.reads = st.Version(), s.reads|model.Usage|model.Allocatable
	amounts := st.NodeAmounts()
	for _, slot := range slots {
		if !e.putIndexed(x, c, s, slot, &amounts[slot]) {
			return false
		}
	}
	return true
}

// putIndexed puts a node into its group. It returns false if the scan would fail, or if
// the index would have too many groups.
func (e *Engine) putIndexed(x *indexed, c *cycle, s *sight, slot int32, n *state.NodeAmounts) bool {
	of, sum, ok := s.placeOf(e, c, slot)
	if !ok {
		return false
	}
	name := indexGroup{of, sum}
	group, known := x.find[name]
	if !known {
		if group = int32(len(x.groups)); group >= e.groupsIn(c.view) {
			return false
		}
		x.find[name] = group
		x.groups, x.sums = append(x.groups, rank.Group{Of: of}), append(x.sums, sum)
		x.index.AddGroup()
	}
	x.index.Put(slot, group, n)
	e.meter.Spend(price.Nodes, putUnits)
	return true
}

// followIndex updates the places of the nodes that have changed since. It returns false
// if the index would be wrong, or if too much has changed.
func (e *Engine) followIndex(x *indexed, c *cycle, s *sight) bool {
	st := c.view.State()
	entries, ok := st.Since(x.version)
	if !ok || len(entries) > fewNodes+st.Slots()/indexFollows {
		return false
	}
	x.index.Resize(st.Slots())
	amounts, alive := st.NodeAmounts(), st.Alive()
	for i, entry := range entries {
		if entry.Aspects&x.reads == 0 || i > 0 && entries[i-1] == entry {
			continue
		}
		e.visited(1)
		x.index.Remove(entry.Slot)
		e.meter.Spend(price.Nodes, putUnits)
		if !alive[entry.Slot] {
			continue
		}
		passes := true
		for _, column := range s.filters {
			if column != nil && column.values[entry.Slot] != reason.None {
				if passes = false; column.values[entry.Slot].IsFailed() {
					return false
				}
			}
		}
		if passes && !e.putIndexed(x, c, s, entry.Slot, &amounts[entry.Slot]) {
			return false
		}
	}
	x.version = st.Version()
	return true
}

// lookBesides is look without the columns of amounts. It returns false, too, if a column
// is filled for a few nodes at a time.
func (e *Engine) lookBesides(c *cycle, s *sight, a *amountNeeds) bool {
	s.key, s.aside, s.narrow = rankKey{profile: c.profile}, true, s.narrow[:0]
	s.filters, s.scores, s.axes, s.reads = s.filters[:0], s.scores[:0], s.axes[:0], model.Presence
	if c.sharesDevices {
		s.key.devices = c.view.Versions().Devices + 1
	}
	for i, need := range c.needs {
		if i == a.filter {
			s.filters = append(s.filters, nil)
			continue
		}
		column := e.filterColumn(c, i)
		if s.filters = append(s.filters, column); column == nil {
			continue
		}
		if column.costly {
			return false
		}
		s.key.needs[i] = need
		s.reads |= column.reads
		s.follows(c, column.following)
	}
	for i := range c.profile.Scores {
		single := c.profile.scorers[i].column
		if single == nil || a.skip[i] {
			s.scores = append(s.scores, nil)
			continue
		}
		column, err := e.scoreColumn(c, i, single)
		if err != nil {
			return false
		}
		if s.scores = append(s.scores, column); column == nil {
			continue
		}
		if column.costly {
			return false
		}
		s.key.columns[i] = column.id
		s.reads |= column.reads
		s.follows(c, column.following)
	}
	return s.findAxes(e, c)
}

// drop discards the index.
func (x *indexed) drop() {
	price := max(x.price, leastFirsts)
	if x.price = 0; x.served < price {
		x.price = min(2*price, maxFirsts)
	}
	x.index, x.groups, x.sums, x.find, x.firsts, x.served = nil, nil, nil, nil, 0, 0
}

// of returns the entry for a key, and adds it if necessary.
func (x *indices) of(key *rankKey, clock uint64) *indexed {
	i := x.byKey[*key]
	if i == nil {
		if len(x.byKey) >= maxKeys {
			times := make([]uint64, 0, len(x.byKey))
			for _, other := range x.byKey {
				times = append(times, other.used)
			}
			slices.Sort(times)
			x.sweep(times[len(times)/2])
		}
		i = &indexed{}
		x.byKey[*key] = i
	}
	i.used = clock
	return i
}

// sweep removes indices not used since the horizon.
func (x *indices) sweep(horizon uint64) {
	maps.DeleteFunc(x.byKey, func(_ rankKey, i *indexed) bool { return i.used < horizon })
}

// makeRoom drops other indices, the least recently used first, until all are within the
// bound.
func (x *indices) makeRoom(of *indexed, maxBytes int) {
	bytes := 0
	var others []*indexed
	for _, i := range x.byKey {
		if i.index != nil {
			bytes += i.index.Bytes()
			if i != of {
				others = append(others, i)
			}
		}
	}
	slices.SortFunc(others, func(a, b *indexed) int { return int(int64(a.used) - int64(b.used)) })
	for _, other := range others {
		if bytes <= maxBytes {
			return
		}
		bytes -= other.index.Bytes()
		other.drop()
	}
}

// note remembers the need of a decision by an index.
func (x *indices) note(need model.Need) {
	if len(x.order) < recentNeeds {
		x.order = append(x.order, need)
	} else {
		delete(x.recent, x.order[x.next])
		x.order[x.next] = need
		x.next = (x.next + 1) % recentNeeds
	}
	x.recent[need] = struct{}{}
}
