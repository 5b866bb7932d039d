package engine

import (
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine/rank"
	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// ranking is the nodes that pass all columns for pods with one key, in the order of their scores (package rank). It follows the journal like a column, and makes the same choice as the scan,
// for which each node is visited. It is made when scans have cost as much as it does.
type ranking struct {
	table *rank.Table // nil: pods are scanned for
	// version is that of the journal at which the table is up to date. reads are the aspects of a node that its place in the table depends on.
	version uint64
	reads   model.Aspect
	used    uint64 // the engine's clock when it was last used
	// scans is how many pods were scanned for since there was a table, served how many it was used for. price is how many scans a table must save; 0 stands for leastPrice,
	// or less where tables have paid.
	scans, served, price int
	// credit is how many scans the table has saved that catching up has not cost yet, of mostPrice at most.
	credit int
}

const (
	// leastPrice is what making a table costs, in scans. A table that saved fewer has the price doubled, up to mostPrice.
	leastPrice, mostPrice = 8, 64
	// mostPaid is how many tables that have paid count. Each halves the scans that must be made for a new key before it has a table: where pods come app by app, the next app is
	// as large as the last ones.
	mostPaid = 3
	// foreseen is how much less a scan counts that is only expected, as pods that follow may come to nothing.
	foreseen = 2
	// insteadOfTable is how many changes cost as much as another table: one in so many slots.
	insteadOfTable = 3
	// mostAxes is how many axes a key has room for, mostScores how many Score plugins.
	mostAxes, mostScores = 6, 16
	// groupEach is one group for so many slots: with more a scan costs as little. leastGroups and mostGroups are in any cluster.
	groupEach, leastGroups, mostGroups = 16, 64, 4096
)

// rankKey is what all nodes' places in a table depend on besides the journal: pods with one key share a table. What a CountFilter or a SetScore counts is told apart by axes, whatever the
// pod's labels are, unless what is counted depends on these: then the need of the CountFilter is in the key.
type rankKey struct {
	profile *profile
	// nominated says that pods are nominated to nodes. Then the pod's priority and group count, as in a shape.
	nominated bool
	priority  int32
	group     model.GroupKey
	needs     [mostFilters]model.Need
	columns   [mostScores]uint64 // their ids
	axes      [mostAxes]axis
	devices   uint64 // the version of devices that nodes share, if a need or a column depends on it
}

// axis is an Axis in a key.
type axis struct {
	domains uint64 // the ID of their layout
	// counted is what is counted if each domain has one node at most: then the coordinate is the count. Otherwise it is zero, and the coordinate is the domain.
	counted state.Counted
	narrow  bool
	// present says that nodes which lack the key are told apart.
	present bool
}

// sight is what a turn's choice is made from: the key, the columns of filters, and the axes with their present counts.
type sight struct {
	key     rankKey
	filters []*filterColumn
	scores  []*scoreColumn
	axes    []plugin.Axis
	reads   model.Aspect
	// Of each group with feasible nodes: the group, one node, how many there are, and the total.
	groups, examples []int32
	sizes            []int
	totals, set      []int64
}

// rankings are all rankings that outlive a Run, their tables bounded in bytes; the least recently used are dropped first.
type rankings struct {
	byKey map[rankKey]*ranking
	// last is the ranking that was last asked for, and lastKey its key, which is compared faster than it is hashed.
	last    *ranking
	lastKey rankKey
	// tables is how many have a table.
	tables   int
	maxBytes int
	// paid is how many new tables in a row have saved leastPrice scans, of mostPaid at most.
	paid int
}

const (
	// DefaultRankingBytes suffices for the 64 tables that are kept at most, in clusters of up to 40,000 nodes; of 5,000 nodes they take less than 20 MiB.
	DefaultRankingBytes = 128 << 20
	mostTables          = 64
	// mostKeys bounds the keys that were seen, most of which have no table.
	mostKeys = 256
)

// choice is a node for a pod.
type choice struct {
	slot     int32
	total    int64
	feasible int
}

// isRanked reports whether a table can say all about the cycle's pod: nothing from outside has a say, no node is named, and of pods that are nominated to nodes filters read no more than
// what they occupy.
func (e *Engine) isRanked(c *cycle) bool {
	p := c.profile
	if p.Outside != nil || len(p.Extenders) > 0 || len(p.turnFilters) > 0 || len(p.PreScores) > 0 || len(p.Filters) > mostFilters || len(p.Scores) > mostScores {
		return false
	}
	if len(c.narrowed.by) > 0 || len(c.view.Touched()) > 0 || c.pod.NominatedNode != "" {
		return false
	}
	return c.view.Nominated() == 0 || c.pod.UID != "" && !c.view.IsNominated(c.pod.Key()) && e.usageOf(c).only
}

// chooseByRank returns the node that the scan would choose for the cycle's pod, with its total and how many are feasible, of which there may be none; ok is false if the pod must be scanned
// for. run is nil outside of a Run; following is how many equal pods follow.
func (e *Engine) chooseByRank(c *cycle, run *Run, following int) (best choice, ok bool) {
	// Which nominated pods a member of a group leaves room for depends on the groups that there are, too, which no journal names: then the table does not outlive the run.
	passing := c.view.Restriction() != nil || c.view.Nominated() > 0 && c.pod.Group != (model.GroupKey{})
	if e.withoutRanking || !e.isRanked(c) || passing && run == nil {
		return best, false
	}
	s := &e.scratch.sight
	if !e.look(c, s) {
		return best, false
	}
	var r *ranking
	if passing {
		r = run.rankingFor(&s.key, c.view.Restriction())
	} else {
		r = e.rankings.of(&s.key, e.columns.clock)
	}
	if r.table != nil && !e.followTable(r, c, s, following) {
		e.rankings.drop(r, run)
	}
	if r.table == nil && !e.start(r, c, s, passing, following) {
		return best, false
	}
	if best, ok = e.chooseFrom(r.table, c, s); !ok {
		return best, false
	}
	r.served++
	r.credit = min(r.credit+1, mostPrice)
	if !passing && r.served == leastPrice {
		e.rankings.paid = min(e.rankings.paid+1, mostPaid)
	}
	e.work.Ranked++
	if e.audits {
		e.doubtRank(c, best)
	}
	return best, true
}

// look finds the key of the cycle's pod, and all columns, up to date. It returns false if what they say is not all.
func (e *Engine) look(c *cycle, s *sight) bool {
	s.key = rankKey{profile: c.profile}
	s.filters, s.scores, s.axes, s.reads = s.filters[:0], s.scores[:0], s.axes[:0], model.Presence|model.Nominations
	if c.view.Nominated() > 0 {
		s.key.nominated, s.key.priority, s.key.group = true, c.pod.Priority, c.pod.Group
	}
	if slices.ContainsFunc(c.own, sharesDevices) { // as in versionsFor
		s.key.devices = c.view.Versions().Devices + 1
	}
	for i, need := range c.needs {
		column := e.filterColumn(c, i)
		if s.filters = append(s.filters, column); column != nil {
			s.key.needs[i] = need
			s.reads |= column.reads
			s.follows(c, column.following)
		}
	}
	for i := range c.profile.Scores {
		single := c.profile.scorers[i].column
		if single == nil {
			s.scores = append(s.scores, nil)
			continue
		}
		column, err := e.scoreColumn(c, i, single)
		if err != nil {
			return false
		}
		if s.scores = append(s.scores, column); column != nil {
			s.key.columns[i] = column.id
			s.reads |= column.reads
			s.follows(c, column.following)
		}
	}
	return s.findAxes(e, c)
}

// follows notes that values of a column change with what nodes share.
func (s *sight) follows(c *cycle, following plugin.Following) {
	if following != nil {
		s.key.devices = c.view.Versions().Devices + 1
	}
}

// findAxes finds the axes of the cycle. It returns false if they are not known.
func (s *sight) findAxes(e *Engine, c *cycle) bool {
	for i, counting := range c.counting {
		if counting == nil {
			continue
		}
		rules := c.here.counts[i].rules
		for j := range rules {
			rule := &rules[j]
			of := plugin.Axis{Domains: rule.Domains, Counts: rule.Counts, Layout: rule.Layout, Counted: rule.Counted}
			if rule.Counted == (state.Counted{}) || !s.addAxis(e, c, of) { // there are no differences, as the view has no touched nodes
				return false
			}
			if rule.Counted.IsByPod() && rule.Layout.Own {
				s.key.needs[i] = c.needs[i]
			}
		}
	}
	for i := range c.profile.Scores {
		p := c.profile.scorers[i].set
		if p == nil {
			continue
		}
		set, err := e.setOf(c, i, p)
		if err != nil {
			return false
		}
		if set == nil {
			continue
		}
		if set.alike == nil {
			return false
		}
		axes, known := set.alike.Axes(c.view, e.scratch.axes[:0])
		if e.scratch.axes = axes; !known {
			return false
		}
		for _, of := range axes {
			if !s.addAxis(e, c, of) {
				return false
			}
		}
	}
	return true
}

// addAxis adds an axis, unless there is the same already. It returns false if nodes cannot be grouped by it.
func (s *sight) addAxis(e *Engine, c *cycle, of plugin.Axis) bool {
	if of.Layout.ID == 0 {
		return false
	}
	own := axis{domains: of.Layout.ID, present: len(of.Present) > 0}
	s.reads |= model.Labels
	if of.Layout.Own && !of.ByDomain {
		own.narrow, own.counted = true, of.Counted
		s.reads |= model.Usage | model.PodLabels | model.Taints // which pods there are, and whether they are counted on their nodes
	} else if of.Layout.Size > e.groupsIn(c.view) {
		return false
	}
	n := len(s.axes)
	if slices.Contains(s.key.axes[:n], own) {
		return true
	}
	if n == mostAxes {
		return false
	}
	s.key.axes[n] = own
	s.axes = append(s.axes, of)
	return true
}

// groupsIn returns how many groups a table may have.
func (e *Engine) groupsIn(v state.View) int32 {
	if e.mostGroups > 0 {
		return e.mostGroups
	}
	return int32(min(max(v.State().Slots()/groupEach, leastGroups), mostGroups))
}

// placeOf returns the place in a table of a node that passes the columns; ok is false if it has too many coordinates, or the scan would fail.
func (s *sight) placeOf(e *Engine, c *cycle, slot int32) (of rank.Coordinates, sum int64, ok bool) {
	n := 0
	put := func(value int32) {
		if n < len(of) {
			of[n] = value
		}
		n++
	}
	p := s.key.profile
	for i, column := range s.scores {
		if column == nil {
			continue
		}
		if column.costly && e.completeScore(c, i, column, []int32{slot}) != nil {
			return of, 0, false
		}
		raw := column.values[slot]
		switch {
		case column.classes != nil:
			put(raw)
		case p.scorers[i].column.Normalization() == model.AsIs:
			sum += int64(raw) * p.Scores[i].Weight
		case raw < 0:
			return of, 0, false
		default:
			put(raw)
		}
	}
	for i := range s.axes {
		put(s.key.axes[i].coordinate(&s.axes[i], slot))
	}
	return of, sum, n <= len(of)
}

func (a *axis) coordinate(of *plugin.Axis, slot int32) int32 {
	domain := of.Domains[slot]
	switch {
	case len(of.Present) > 0 && of.Present[slot] < 0:
		return -2
	case domain < 0:
		return -1
	case !a.narrow:
		return domain
	case int(domain) < len(of.Counts):
		return of.Counts[domain]
	}
	return 0
}

// start makes a table for the cycle's pod, if that is worth it.
func (e *Engine) start(r *ranking, c *cycle, s *sight, passing bool, following int) bool {
	price := max(r.price, leastPrice>>e.rankings.paid)
	if r.scans < price && following < foreseen*max(price, leastPrice) {
		r.scans++
		return false
	}
	r.scans, r.served, r.credit = 0, 0, 0
	table, ok := e.newTable(c, s)
	if !ok {
		r.price = min(2*max(price, leastPrice), mostPrice)
		e.rankings.paid = 0
		return false
	}
	if !passing {
		e.rankings.makeRoom(table)
		e.rankings.tables++
	}
	r.table, r.version, r.reads = table, c.view.State().Version(), s.reads
	return true
}

// drop forgets the table.
func (r *ranking) drop() {
	price := max(r.price, leastPrice)
	if r.price = min(2*price, mostPrice); r.served >= price {
		r.price = 0
	}
	r.table, r.scans, r.served, r.credit = nil, 0, 0, 0
}

// newTable ranks the nodes for the cycle's pod. It returns false if the scan fails, or there are too many groups.
func (e *Engine) newTable(c *cycle, s *sight) (*rank.Table, bool) {
	slots := e.slotsToCheck(c)
	e.visited(len(slots))
	for i, column := range s.filters {
		if column == nil || column.nonZero == 0 {
			continue
		}
		if e.completeFilter(c, i, column, slots) != nil {
			return nil, false
		}
		passed, codes := keepFeasible(slots, column.values)
		if codes.IsFailed() {
			return nil, false
		}
		slots = passed
	}
	if c.view.Nominated() > 0 {
		var err error
		if slots, err = e.leaveRoom(c, slots); err != nil {
			return nil, false
		}
	}
	t := rank.New(int(e.groupsIn(c.view)))
	t.Resize(c.view.State().Slots())
	hashes := c.view.State().NameHashes()
	for _, slot := range slots {
		of, sum, ok := s.placeOf(e, c, slot)
		if !ok || !t.Put(slot, rank.Mix(hashes[slot]), of, sum) {
			return nil, false
		}
	}
	t.Filled()
	return t, true
}

// followTable finds the places again of the nodes that have changed since. It returns false if these are so many that it costs more than a scan and what the table has saved so far, or, where
// many equal pods follow, than another table; or if the table would not hold.
func (e *Engine) followTable(r *ranking, c *cycle, s *sight, following int) bool {
	st := c.view.State()
	entries, ok := st.Since(r.version)
	scan, most := fewNodes+st.Slots()/followed, fewNodes+st.Slots()/insteadOfTable
	if following < foreseen*leastPrice {
		most = max(min(scan*(1+r.credit), most), scan)
	}
	if !ok || len(entries) > most {
		return false
	}
	r.credit = max(r.credit-len(entries)/scan, 0)
	r.table.Resize(st.Slots())
	hashes, alive := st.NameHashes(), st.Alive()
	for i, entry := range entries {
		if entry.Aspects&r.reads == 0 || i > 0 && entries[i-1] == entry || !c.view.Restriction().Has(entry.Slot) {
			continue
		}
		e.visited(1)
		r.table.Remove(entry.Slot)
		if !alive[entry.Slot] {
			continue
		}
		passes, ok := e.passesColumns(c, s, entry.Slot)
		if !ok {
			return false
		}
		if !passes {
			continue
		}
		of, sum, ok := s.placeOf(e, c, entry.Slot)
		if !ok || !r.table.Put(entry.Slot, rank.Mix(hashes[entry.Slot]), of, sum) {
			return false
		}
	}
	r.version = st.Version()
	return true
}

// passesColumns reports whether a node passes the columns, as it is and with the pods that are nominated to it; ok is false if a filter failed.
func (e *Engine) passesColumns(c *cycle, s *sight, slot int32) (passes, ok bool) {
	for i, column := range s.filters {
		if column == nil {
			continue
		}
		if column.costly && e.completeFilter(c, i, column, []int32{slot}) != nil {
			return false, false
		}
		if code := column.values[slot]; code != reason.None {
			return false, !code.IsFailed()
		}
	}
	if c.view.Nominated() == 0 {
		return true, true
	}
	before := c.view.NominatedBefore(c.pod, slot)
	if len(before) == 0 {
		return true, true
	}
	o, err := e.besideNominated(c, slot, before)
	return o.code == reason.None, err == nil
}

// chooseFrom returns the best node of a table, if any is feasible. It returns false if a score fails: the scan says why.
func (e *Engine) chooseFrom(t *rank.Table, c *cycle, s *sight) (best choice, ok bool) {
	best.feasible = s.findFeasible(t, c)
	e.work.Grouped += int64(len(t.Groups()))
	e.meter.Spend(price.Nodes, groupedUnits*int64(len(t.Groups())))
	switch {
	case best.feasible == 0:
		return best, true
	case best.feasible == 1: // then there is nothing to score
		best.slot = s.examples[0]
		return best, true
	}
	if e.enter(Score); !s.score(e, t, c) {
		return best, false
	}
	best.total = slices.Max(s.totals)
	n := 0
	for i, total := range s.totals {
		if s.groups[n] = s.groups[i]; total == best.total {
			n++
		}
	}
	best.slot = t.Pick(e.saltIn(c), s.groups[:n])
	return best, true
}

// findFeasible finds the groups whose nodes no rule about counts rejects. It returns how many nodes these have.
func (s *sight) findFeasible(t *rank.Table, c *cycle) (nodes int) {
	s.groups, s.examples, s.sizes = s.groups[:0], s.examples[:0], s.sizes[:0]
	groups := t.Groups()
	for i := range groups {
		g := &groups[i]
		if g.Nodes == 0 {
			continue
		}
		example := t.Example(g)
		if rejects(c, example) {
			continue
		}
		nodes += g.Nodes
		s.groups, s.examples, s.sizes = append(s.groups, int32(i)), append(s.examples, example), append(s.sizes, g.Nodes)
	}
	return nodes
}

// rejects reports whether a rule about counts rejects a node.
func rejects(c *cycle, slot int32) bool {
	for _, i := range c.profile.counting {
		if c.counting[i] == nil {
			continue
		}
		rules := c.here.counts[i].rules
		for j := range rules {
			if rules[j].Verdict(slot) != reason.None {
				return true
			}
		}
	}
	return false
}

// score finds the total of the best nodes of each group with feasible nodes. It returns false if a plugin fails.
func (s *sight) score(e *Engine, t *rank.Table, c *cycle) bool {
	groups := t.Groups()
	s.totals = slices.Grow(s.totals[:0], len(s.groups))[:len(s.groups)]
	for at, g := range s.groups {
		s.totals[at] = t.Best(&groups[g])
	}
	coordinate := 0
	for i := range c.profile.scorers {
		scorer, weight, column := &c.profile.scorers[i], c.profile.Scores[i].Weight, s.scores[i]
		switch {
		case scorer.set != nil:
			if !s.scoreTogether(e, c, i, weight) {
				return false
			}
		case column == nil:
		case column.classes != nil:
			scores := column.classes.Classes(c.view)
			s.normalize(groups, coordinate, scorer.column.Normalization(), weight, scores)
			coordinate++
		case scorer.column.Normalization() != model.AsIs:
			s.normalize(groups, coordinate, scorer.column.Normalization(), weight, nil)
			coordinate++
		}
	}
	return true
}

// normalize adds the scores of a plugin whose raw scores, or classes, are a coordinate.
func (s *sight) normalize(groups []rank.Group, coordinate int, how model.Normalization, weight int64, ofClass []int32) {
	raw := func(g int32) int32 {
		value := groups[g].Of[coordinate]
		if ofClass != nil {
			return ofClass[value]
		}
		return value
	}
	var largest int32
	if how != model.AsIs {
		for _, g := range s.groups {
			largest = max(largest, raw(g))
		}
	}
	for at, g := range s.groups {
		s.totals[at] += normalize(how, raw(g), largest) * weight
	}
}

// scoreTogether adds the scores of a SetScore plugin.
func (s *sight) scoreTogether(e *Engine, c *cycle, i int, weight int64) bool {
	set, err := e.setOf(c, i, c.profile.scorers[i].set)
	if set == nil || err != nil {
		return err == nil
	}
	s.set = slices.Grow(s.set[:0], len(s.examples))[:len(s.examples)]
	some, err := set.alike.ScoreAlike(c.view, s.examples, s.sizes, s.set)
	if err != nil {
		return false
	}
	if some {
		for at := range s.totals {
			s.totals[at] += s.set[at] * weight
		}
	}
	return true
}

// Rankings returns how many tables of ranked nodes are kept, and about how many bytes they take.
func (e *Engine) Rankings() (tables, bytes int) { return e.rankings.tables, e.rankings.bytes() }

func (r *rankings) bytes() (n int) {
	for _, x := range r.byKey {
		if x.table != nil {
			n += x.table.Bytes()
		}
	}
	return n
}

// of returns the ranking for a key, a new one if there is none.
func (r *rankings) of(key *rankKey, clock uint64) *ranking {
	if r.last != nil && r.lastKey == *key {
		r.last.used = clock
		return r.last
	}
	x := r.byKey[*key]
	if x == nil {
		if len(r.byKey) >= mostKeys {
			horizon := r.horizon(len(r.byKey)/2, func(*ranking) bool { return true })
			r.remove(func(x *ranking) bool { return x.used <= horizon })
		}
		x = &ranking{}
		r.byKey[*key] = x
	}
	x.used, r.last, r.lastKey = clock, x, *key
	return x
}

// drop forgets the table of a ranking, which may be a run's own.
func (r *rankings) drop(x *ranking, run *Run) {
	if run == nil || x != &run.passing {
		r.tables--
		r.settle(x)
	}
	x.drop()
}

// settle takes in that a table is dropped.
func (r *rankings) settle(x *ranking) {
	if x.served < leastPrice {
		r.paid = 0
	}
}

// makeRoom drops tables, the least recently used, until there is room for one more.
func (r *rankings) makeRoom(table *rank.Table) {
	bytes := table.Bytes() + r.bytes()
	if r.tables < mostTables && bytes <= r.maxBytes || r.tables == 0 {
		return
	}
	over := max(r.tables-mostTables+1, r.tables-r.tables*r.maxBytes/bytes, 1) + r.tables/8 // several at once, as finding the oldest takes a look at all
	horizon := r.horizon(over, func(x *ranking) bool { return x.table != nil })
	for _, x := range r.byKey {
		if x.table != nil && x.used <= horizon {
			r.drop(x, nil)
		}
	}
}

// horizon returns when the n-th oldest of some rankings was last used.
func (r *rankings) horizon(n int, some func(*ranking) bool) uint64 {
	var times []uint64
	for _, x := range r.byKey {
		if some(x) {
			times = append(times, x.used)
		}
	}
	slices.Sort(times)
	return times[min(n, len(times))-1]
}

// sweep removes what was not used since then: each rollout leaves some behind.
func (r *rankings) sweep(horizon uint64) {
	r.remove(func(x *ranking) bool { return x.used < horizon })
}

func (r *rankings) remove(some func(*ranking) bool) {
	maps.DeleteFunc(r.byKey, func(_ rankKey, x *ranking) bool {
		gone := some(x)
		if gone && x.table != nil {
			r.tables--
			r.settle(x)
		}
		return gone
	})
	r.last = nil
}
