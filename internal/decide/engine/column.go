package engine

import (
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// column holds one plugin's verdicts or scores for one need, for every slot. The first
// use of the need fills it. Later it follows the journal, and refreshes only the nodes
// that changed in an aspect that the plugin reads.
type column[T int32 | reason.Code] struct {
	// ask returns the plugin's value for an existing node. It depends on the aspects in
	// reads.
	ask func(state.Node) T
	// dense, unless nil, writes the values of all nodes from their amounts, including
	// slots without a node. See plugin.AmountVerdicts and plugin.AmountScores.
	dense func(nodes []state.NodeAmounts, values []T)
	// sparse, unless nil, may return one value for all but a few nodes; see
	// plugin.Sparse.
	sparse func(*state.State) (slots []int32, others T, ok bool)
	// following, unless nil, returns the values that change with resources shared by
	// nodes.
	following plugin.Following
	// costly means that values stay unasked until a decision looks at them, see complete.
	// fresh is set by a fill, until complete first reaches the end of its nodes.
	costly, fresh bool
	reads         model.Aspect
	version       uint64 // values are up to date at this version of the journal
	// values is indexed by slot; zero for slots without a node.
	values []T
	// nonZero counts the values that are not zero. The scan skips a column without any.
	nonZero int
	// used is the engine's clock when the column was last used.
	used uint64
}

// valueBytes is the size of one value of a column. columnBytes is about the size of
// everything else in a column, and dominates in a small cluster.
const (
	valueBytes  = 4
	columnBytes = 1 << 10
)

// sync updates the column and returns the number of plugin calls.
func (c *column[T]) sync(s *state.State) (asked int) {
	entries, ok := c.entries(s)
	if !ok {
		return c.fill(s)
	}
	c.resize(s.Slots())
	alive := s.Alive()
	for _, e := range entries {
		switch {
		case e.Aspects&c.reads == 0:
		case c.costly && alive[e.Slot]:
			c.set(e.Slot, unasked[T]())
		default:
			var value T
			if alive[e.Slot] {
				value = c.ask(s.Node(e.Slot))
				asked++
			}
			c.set(e.Slot, value)
		}
	}
	if c.following != nil {
		asked += c.follow(s)
	}
	c.version = s.Version()
	return asked
}

// follow refreshes the nodes whose shared resources have changed.
func (c *column[T]) follow(s *state.State) (asked int) {
	slots, asked := c.following.Follow(s, nil)
	alive := s.Alive()
	for _, slot := range slots {
		switch {
		case !alive[slot]:
		case c.costly:
			c.set(slot, unasked[T]())
		default:
			c.set(slot, c.ask(s.Node(slot)))
			asked++
		}
	}
	return asked
}

// entries returns the changes since the column was up to date. ok is false if it must be
// filled again.
func (c *column[T]) entries(s *state.State) (entries []state.Entry, ok bool) {
	entries, ok = s.Since(c.version)
	return entries, ok && len(c.values) > 0 && (len(entries) <= s.Slots()/2 || !c.concerns(entries))
}

func (c *column[T]) concerns(entries []state.Entry) bool {
	for _, e := range entries {
		if e.Aspects&c.reads != 0 {
			return true
		}
	}
	return false
}

func (c *column[T]) fill(s *state.State) (asked int) {
	c.resize(s.Slots())
	c.nonZero = 0
	if c.sparse != nil {
		if slots, others, ok := c.sparse(s); ok {
			return c.fillBut(s, slots, others)
		}
	}
	if c.dense != nil && !c.costly {
		c.dense(s.NodeAmounts(), c.values)
		return c.filledDense(s)
	}
	alive := s.Alive()
	c.fresh = c.costly
	for slot := range c.values {
		var value T
		switch {
		case !alive[slot]:
		case c.costly:
			value = unasked[T]()
		default:
			value = c.ask(s.Node(int32(slot)))
			asked++
		}
		if c.values[slot] = value; value != 0 {
			c.nonZero++
		}
	}
	if c.following != nil {
		c.following.Filled(s)
	}
	c.version = s.Version()
	return asked
}

// fillBut gives the same value to all nodes, except for some slots that the plugin
// evaluates.
func (c *column[T]) fillBut(s *state.State, slots []int32, others T) (asked int) {
	alive := s.Alive()
	for slot := range c.values {
		var value T
		if alive[slot] {
			value = others
		}
		c.values[slot] = value
	}
	if others != 0 {
		c.nonZero = s.View().Nodes()
	}
	for _, slot := range slots {
		c.set(slot, c.ask(s.Node(slot)))
	}
	c.version = s.Version()
	return len(slots)
}

// copyBut copies the values of an up-to-date column, except for some slots that the
// plugin evaluates.
func (c *column[T]) copyBut(s *state.State, slots []int32, of *column[T]) (asked int) {
	c.resize(s.Slots())
	copy(c.values, of.values)
	c.nonZero = of.nonZero
	alive := s.Alive()
	for _, slot := range slots {
		if alive[slot] {
			c.set(slot, c.ask(s.Node(slot)))
			asked++
		}
	}
	c.version = s.Version()
	return asked
}

// resize adds slots, which the journal lists, or drops slots that the state has cut off.
func (c *column[T]) resize(slots int) {
	if missing := slots - len(c.values); missing > 0 {
		c.values = append(c.values, make([]T, missing)...)
	} else if missing < 0 {
		for _, value := range c.values[slots:] {
			if value != 0 {
				c.nonZero--
			}
		}
		c.values = slices.Clone(c.values[:slots])
	}
}

func (c *column[T]) set(slot int32, value T) {
	if c.values[slot] != 0 {
		c.nonZero--
	}
	if c.values[slot] = value; value != 0 {
		c.nonZero++
	}
}

// filterColumn is a column of verdicts.
type filterColumn struct {
	column[reason.Code]
	verdicts *plugin.Verdicts
}

// scoreColumn is a column of raw scores, or of classes.
type scoreColumn struct {
	column[int32]
	// id distinguishes columns of scores. A later column of the same need has another id.
	id     uint64
	scores plugin.NodeScores
}

// fewClasses is a number of classes that a column keeps even with fewer nodes.
const fewClasses = 64

// isWorn reports whether most classes have lost their nodes. Classes are never renumbered
// while the column lives, so that its values stay valid.
func (c *scoreColumn) isWorn(v state.View) bool {
	return c.scores.Classes != nil && len(c.scores.Classes.Classes(v)) > fewClasses+2*len(c.values)
}

// counting is the compiled need of a count filter, which has no column.
type counting struct {
	plugin.Counting
	used  uint64
	bytes int
}

// set is the compiled need of a Score plugin with Set, which has no column.
type set struct {
	plugin.SetScores
	used  uint64
	bytes int
}

// columnKey identifies a column: a plugin, by its number, and a need.
type columnKey struct {
	plugin int32
	need   model.Need
}

// byNeed stores values that plugins compiled, by need.
type byNeed[T any] struct {
	all map[columnKey]*T
	// latest is the last value found for each plugin, by its number. The next pod mostly
	// has the same need, and comparing needs costs a fraction of hashing a key.
	latest []found[T]
}

type found[T any] struct {
	need  model.Need
	value *T
}

func newByNeed[T any]() byNeed[T] { return byNeed[T]{all: map[columnKey]*T{}} }

// of returns the value that a plugin compiled for a need, or nil. The need is not zero.
func (b *byNeed[T]) of(plugin int32, need model.Need) *T {
	if int(plugin) < len(b.latest) && b.latest[plugin].need == need {
		return b.latest[plugin].value
	}
	value := b.all[columnKey{plugin, need}]
	if value != nil {
		b.note(plugin, need, value)
	}
	return value
}

func (b *byNeed[T]) put(plugin int32, need model.Need, value *T) {
	b.all[columnKey{plugin, need}] = value
	b.note(plugin, need, value)
}

func (b *byNeed[T]) note(plugin int32, need model.Need, value *T) {
	if missing := int(plugin) + 1 - len(b.latest); missing > 0 {
		b.latest = append(b.latest, make([]found[T], missing)...)
	}
	b.latest[plugin] = found[T]{need, value}
}

func (b *byNeed[T]) drop(plugin int32, need model.Need) {
	delete(b.all, columnKey{plugin, need})
	if int(plugin) < len(b.latest) && b.latest[plugin].need == need {
		b.latest[plugin] = found[T]{}
	}
}

// dropIf drops the values for which some returns true.
func (b *byNeed[T]) dropIf(some func(*T) bool) {
	maps.DeleteFunc(b.all, func(_ columnKey, value *T) bool { return some(value) })
	clear(b.latest)
}

// columns are all columns, bounded in bytes. The least recently used are evicted first.
type columns struct {
	filters  byNeed[filterColumn]
	scores   byNeed[scoreColumn]
	counting byNeed[counting]
	sets     byNeed[set]
	maxBytes int
	// Invariant: compiledBytes is the sum of bytes over counting and sets.
	compiledBytes int
	clock         uint64
	built         uint64 // number of score columns built
	// decisions counts decisions; sweeps are the values of clock at the last sweeps.
	// aside means that a question about a pod runs, not a decision: it advances the
	// clock, and ages nothing.
	decisions uint64
	sweeps    [idleAfter / sweptEach]uint64
	aside     bool
}

func newColumns(maxBytes int) columns {
	return columns{
		filters: newByNeed[filterColumn](), scores: newByNeed[scoreColumn](), counting: newByNeed[counting](), sets: newByNeed[set](), maxBytes: maxBytes,
	}
}

// A column is dropped after idleAfter decisions without a use, because each rollout
// leaves some behind. Filling it again takes about as long as ten decisions, so an app
// that returns so rarely is not slowed down. Idle columns are swept once in sweptEach
// decisions.
const (
	idleAfter = 4096
	sweptEach = 512
)

// tick begins a decision or a question. After a sweep it returns the horizon: values last
// used before it are idle.
func (c *columns) tick() (horizon uint64, swept bool) {
	c.clock++
	if c.aside {
		return 0, false
	}
	if c.decisions++; c.decisions%sweptEach != 0 {
		return 0, false
	}
	last := &c.sweeps[c.decisions/sweptEach%uint64(len(c.sweeps))]
	horizon, *last = *last, c.clock
	if c.decisions < idleAfter {
		return 0, false
	}
	c.filters.dropIf(func(column *filterColumn) bool { return column.used < horizon })
	c.scores.dropIf(func(column *scoreColumn) bool { return column.used < horizon })
	return horizon, true
}

// compiledKept bounds the number of compiled needs without a column. They are small, but
// each pod of a StatefulSet has its own.
//
// Needs with thousands of terms are large: about compiledPerText bytes for each byte of
// their text. So compiled needs are bounded in bytes, too.
const (
	compiledKept     = 4096
	compiledPerText  = 4
	maxCompiledBytes = 64 << 20
	// longNeed is the size of a need from which its column is also accounted by size.
	longNeed = 4 << 10
)

// makeRoomForCompiled makes space for another compiled need and returns the need's bytes.
// It evicts the least recently used half of the compiled needs if they would become too
// many or too large.
func (c *columns) makeRoomForCompiled(need model.Need) (bytes int) {
	bytes = compiledPerText * need.Size()
	if len(c.counting.all)+len(c.sets.all) >= compiledKept || c.compiledBytes+bytes > maxCompiledBytes {
		c.evictCompiled()
	}
	c.compiledBytes += bytes
	return bytes
}

func (c *columns) evictCompiled() {
	if len(c.counting.all)+len(c.sets.all) == 0 {
		return
	}
	times := make([]uint64, 0, compiledKept)
	for _, l := range c.counting.all {
		times = append(times, l.used)
	}
	for _, s := range c.sets.all {
		times = append(times, s.used)
	}
	slices.Sort(times)
	middle := times[len(times)/2]
	evict := func(used uint64, bytes int) bool {
		if used > middle {
			return false
		}
		c.compiledBytes -= bytes
		return true
	}
	c.counting.dropIf(func(l *counting) bool { return evict(l.used, l.bytes) })
	c.sets.dropIf(func(s *set) bool { return evict(s.used, s.bytes) })
}

// makeRoomForLong evicts columns of long needs, the least recently used first, until
// another one fits. The compiled form of a long need is larger than the values of its
// column. So these columns have the same bound in bytes as compiled needs without one.
func (c *columns) makeRoomForLong(need model.Need, since uint64) {
	if need.Size() < longNeed {
		return
	}
	bytes := compiledPerText * need.Size()
	var times []uint64
	count := func(of model.Need, used uint64) {
		if size := of.Size(); size >= longNeed {
			bytes += compiledPerText * size
			times = append(times, used)
		}
	}
	for key, column := range c.filters.all {
		count(key.need, column.used)
	}
	for key, column := range c.scores.all {
		count(key.need, column.used)
	}
	if bytes <= maxCompiledBytes || len(times) == 0 {
		return
	}
	slices.Sort(times)
	middle := times[len(times)/2]
	evicts := func(of model.Need, used uint64) bool { return of.Size() >= longNeed && used <= middle && used < since }
	maps.DeleteFunc(c.filters.all, func(key columnKey, column *filterColumn) bool { return evicts(key.need, column.used) })
	maps.DeleteFunc(c.scores.all, func(key columnKey, column *scoreColumn) bool { return evicts(key.need, column.used) })
	clear(c.filters.latest)
	clear(c.scores.latest)
}

// makeRoom evicts columns until one more fits. Columns used by the present decision stay.
func (c *columns) makeRoom(slots int, since uint64) {
	limit := max(c.maxBytes/(columnBytes+valueBytes*slots), 1)
	if len(c.filters.all)+len(c.scores.all) < limit {
		return
	}
	// Evicting an eighth at once makes the search for the oldest rare, so its cost does
	// not matter.
	horizon := c.horizon(limit / 8)
	c.filters.dropIf(func(column *filterColumn) bool { return column.used <= horizon && column.used < since })
	c.scores.dropIf(func(column *scoreColumn) bool { return column.used <= horizon && column.used < since })
}

// horizon returns the time of last use of the n-th oldest column.
func (c *columns) horizon(n int) uint64 {
	times := make([]uint64, 0, len(c.filters.all)+len(c.scores.all))
	for _, column := range c.filters.all {
		times = append(times, column.used)
	}
	for _, column := range c.scores.all {
		times = append(times, column.used)
	}
	slices.Sort(times)
	return times[min(n, len(times)-1)]
}

// filterColumn returns the up-to-date column of a filter for the cycle's pod. It is nil
// if every node passes, or the filter has no column.
func (e *Engine) filterColumn(c *cycle, i int) *filterColumn {
	need := c.needs[i]
	if need.IsZero() {
		return nil
	}
	f := c.profile.Filters[i]
	if !f.HasColumn() {
		return nil
	}
	asked := e.work.Asked
	e.begin()
	column := e.filterColumnOf(c, i, need, f.Reads.Nodes|model.Presence, func() *plugin.Verdicts { return c.here.verdicts[i] })
	if e.work.Asked > asked {
		e.endAt(filterPoint, c.profile, i, Success)
	}
	return column
}

// filterColumnOf returns the up-to-date column of a filter for a need, which it compiles
// if necessary.
func (e *Engine) filterColumnOf(c *cycle, i int, need model.Need, reads model.Aspect, compile func() *plugin.Verdicts) *filterColumn {
	id := c.profile.ids[i]
	column := e.columns.filters.of(id, need)
	if column == nil {
		e.columns.makeRoom(c.view.State().Slots(), e.columns.clock)
		e.columns.makeRoomForLong(need, e.columns.clock)
		verdicts := compile()
		column = &filterColumn{verdicts: verdicts}
		column.ask, column.reads = verdicts.NodeVerdicts.Filter, reads
		if verdicts.Amounts != nil {
			column.dense = verdicts.Amounts.FilterAmounts
		}
		if verdicts.Sparse != nil {
			column.sparse = verdicts.Sparse.Sparse
		}
		column.following, column.costly = verdicts.Following, verdicts.Costly
		e.columns.filters.put(id, need, column)
		e.work.Filled++
	} else {
		e.work.Found++
	}
	column.used = e.columns.clock
	s := c.view.State()
	if variant := column.verdicts.Variant; variant != nil {
		if _, ok := column.entries(s); !ok {
			if of, slots, ok := variant.Variant(s); ok {
				like := e.filterColumnOf(c, i, plugin.NeedOf(of), reads, of.Compile)
				e.askedFor(need, c.profile.first+int32(i), column.copyBut(s, slots, &like.column))
				return column
			}
		}
	}
	e.askedFor(need, c.profile.first+int32(i), column.sync(s))
	return column
}

// verdictsOf returns the compiled need of a filter with columns, nil where every node
// passes.
func (e *Engine) verdictsOf(c *cycle, i int) *plugin.Verdicts {
	need := c.needs[i]
	if need.IsZero() {
		return nil
	}
	if column := e.columns.filters.of(c.profile.ids[i], need); column != nil {
		return column.verdicts
	}
	var own plugin.FilterNeed
	e.begin()
	if c.profile.Filters[i].Need != nil && (len(c.own) == 0 || c.own[i] == nil) {
		own = c.profile.FilterNeed(i, c.pod)
	} else {
		own = c.own[i]
	}
	verdicts := own.Compile()
	e.endAt(filterPoint, c.profile, i, Success)
	return verdicts
}

// countingOf returns the compiled need of a filter with Count.
func (e *Engine) countingOf(c *cycle, i int) plugin.Counting {
	id, need := c.profile.ids[i], c.needs[i]
	have := e.columns.counting.of(id, need)
	if have == nil {
		have = &counting{Counting: c.profile.CountNeed(i, c.pod).Compile(), bytes: e.columns.makeRoomForCompiled(need)}
		e.columns.counting.put(id, need, have)
	}
	have.used = e.columns.clock
	return have.Counting
}

// scoreNeed returns the need of a Score plugin for the cycle's pod, zero if the plugin
// skips the pod. own is the uncompiled need of NeedIn or Varying.
func (e *Engine) scoreNeed(c *cycle, i int) (need model.Need, own plugin.ScoreNeed, err error) {
	switch p := c.profile.scorers[i].column; {
	case p.NeedIn != nil:
		e.begin()
		own, err = p.NeedIn(c.view, c.pod)
		if e.end(preScorePoint, p.Name, statusOf(own == nil, "", err)); err != nil {
			return need, nil, errPreScore(p.Name, err)
		}
		return plugin.NeedOf(own), own, nil
	case p.Varying != nil:
		e.begin()
		if own, varies := p.Varying(c.view, c.pod); varies {
			e.end(preScorePoint, p.Name, Success)
			return plugin.NeedOf(own), own, nil
		}
	}
	return c.pod.Needs[len(c.profile.Filters)+i], nil, nil
}

// scoreColumn returns the up-to-date column of a Score plugin for the cycle's pod, or nil
// if the plugin skips the pod.
func (e *Engine) scoreColumn(c *cycle, i int, p *plugin.Score) (*scoreColumn, error) {
	at := len(c.profile.Filters) + i
	need, own, err := e.scoreNeed(c, i)
	if need.IsZero() || err != nil {
		return nil, err
	}
	id := c.profile.ids[at]
	column := e.columns.scores.of(id, need)
	if column == nil || column.isWorn(c.view) {
		e.begin()
		if own == nil {
			own = c.profile.Profile.ScoreNeed(i, c.pod)
		}
		scores, err := own.Compile()
		if e.end(scorePoint, p.Name, failedIf(err)); err != nil {
			return nil, errPreScore(p.Name, err)
		}
		e.columns.makeRoom(c.view.State().Slots(), e.columns.clock)
		e.columns.makeRoomForLong(need, e.columns.clock)
		e.columns.built++
		column = &scoreColumn{scores: scores, id: e.columns.built}
		column.ask, column.reads = scores.RawScores.Score, p.Reads|model.Presence
		if scores.Amounts != nil {
			column.dense = scores.Amounts.ScoreAmounts
		}
		column.following, column.costly = scores.Following, scores.Costly
		e.columns.scores.put(id, need, column)
		e.work.Filled++
	} else {
		e.work.Found++
	}
	column.used = e.columns.clock
	e.begin()
	asked := column.sync(c.view.State())
	if e.askedFor(need, c.profile.first+int32(at), asked); asked > 0 {
		e.end(scorePoint, p.Name, Success)
	}
	return column, nil
}

// setOf returns the compiled need of a Score plugin with Set, or nil if the plugin skips
// the pod.
func (e *Engine) setOf(c *cycle, i int, p *plugin.Score) (*set, error) {
	at := len(c.profile.Filters) + i
	id, need := c.profile.ids[at], c.pod.Needs[at]
	if need.IsZero() {
		return nil, nil
	}
	have := e.columns.sets.of(id, need)
	if have == nil {
		e.begin()
		scores, err := c.profile.SetNeed(i, c.pod).Compile()
		if e.end(scorePoint, p.Name, failedIf(err)); err != nil {
			return nil, errPreScore(p.Name, err)
		}
		have = &set{SetScores: scores, bytes: e.columns.makeRoomForCompiled(need)}
		e.columns.sets.put(id, need, have)
	}
	have.used = e.columns.clock
	return have, nil
}

// ColumnBytes returns about how many bytes the columns use in a cluster of this many
// slots.
func (e *Engine) ColumnBytes(slots int) int { return e.Columns() * (columnBytes + valueBytes*slots) }

// Columns returns the number of columns.
func (e *Engine) Columns() int { return len(e.columns.filters.all) + len(e.columns.scores.all) }

// Compiled returns the number of compiled needs without a column.
func (e *Engine) Compiled() int { return len(e.columns.counting.all) + len(e.columns.sets.all) }
