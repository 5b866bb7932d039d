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

// ranking holds the nodes that pass all columns for pods with one key, ordered by score
// (package rank). It follows the journal like a column. It makes the same choice as the
// scan, which visits every node. A ranking is built once the scans that it would have
// saved have cost as much as building it.
type ranking struct {
	table *rank.Table // nil: decisions scan
	// version is the version of the journal at which the table is up to date. reads are
	// the aspects of a node that its place in the table depends on.
	version uint64
	reads   model.Aspect
	used    uint64 // the engine's clock when it was last used
	// scans counts the scans while the table was missing, and served the decisions that
	// used the table. price is the number of scans that a table must save to be built; 0
	// stands for leastPrice, or less after tables that paid off.
	scans, served, price int
	// credit counts the scans saved by the table, less the cost of following the journal.
	// It is at most maxPrice.
	credit int
}

const (
	// leastPrice is the cost of building a table, in scans. If a table saved less, the
	// price doubles, up to maxPrice.
	leastPrice, maxPrice = 8, 64
	// maxPaid bounds the tables that count as paid off. Each halves the scans that a new
	// key needs before it gets a table. If pods come app by app, the next app is about as
	// large as the last ones.
	maxPaid = 3
	// foreseen is the number of expected scans that count as one scan, as the pods that
	// follow may not come.
	foreseen = 2
	// insteadOfTable is the share of slots, one in this many, whose changes cost as much
	// as another table.
	insteadOfTable = 3
	// maxAxes bounds the axes of a key, maxScores the Score plugins.
	maxAxes, maxScores = 6, 16
	// groupEach allows one group for this many slots, since with more groups a scan costs
	// as little. The bound is at least leastGroups and at most maxGroups.
	groupEach, leastGroups, maxGroups = 16, 64, 4096
)

// rankKey is everything besides the journal that the nodes' places in a table depend on.
// Pods with one key share a table. Axes distinguish the counts of count filters and
// SetScores, whatever the pod's labels. If the counts depend on the labels, the key
// includes the count filter's need.
type rankKey struct {
	profile *profile
	// nominated means that pods are nominated to nodes. Then the pod's priority and group
	// count.
	nominated bool
	priority  int32
	group     model.GroupKey
	needs     [maxFilters]model.Need
	columns   [maxScores]uint64 // ids of the columns
	axes      [maxAxes]axis
	devices   uint64 // the version of shared devices, if a need or a column depends on it
}

// axis is an Axis in a key.
type axis struct {
	domains uint64 // the ID of their layout
	// counted identifies the count if each domain has at most one node: then the
	// coordinate is the count. Otherwise it is zero, and the coordinate is the domain.
	counted state.Counted
	narrow  bool
	// present means that nodes without the key have a coordinate of their own.
	present bool
}

// sight is the input of a turn's choice: the key, the columns of filters, and the axes
// with their present counts.
type sight struct {
	key     rankKey
	filters []*filterColumn
	scores  []*scoreColumn
	axes    []plugin.Axis
	reads   model.Aspect
	// aside means that counts by host are no coordinates. The axes in narrow have them,
	// and the nodes with a count are marked.
	aside  bool
	narrow []plugin.Axis
	// marked are the marked nodes of an index, and feasible counts the nodes of its
	// groups.
	marked   []int32
	feasible []int
	// These describe each group with feasible nodes: the group, one of its nodes, the
	// number of nodes, and the total.
	groups, examples []int32
	sizes            []int
	totals, set      []int64
}

// rankings are all rankings that outlive a Run, with tables bounded in bytes. The least
// recently used are dropped first.
type rankings struct {
	byKey map[rankKey]*ranking
	// last is the most recent result of the method of, and lastKey its key. Comparing a
	// key is faster than hashing it.
	last    *ranking
	lastKey rankKey
	// tables counts the rankings with a table.
	tables   int
	maxBytes int
	// paid counts new tables in a row that saved leastPrice scans. It is at most
	// maxPaid.
	paid int
}

const (
	// DefaultRankingBytes suffices for maxTables tables in clusters of up to 40,000
	// nodes. With 5,000 nodes they take less than 20 MiB.
	DefaultRankingBytes = 128 << 20
	maxTables           = 64
	// maxKeys bounds the known keys, most of which have no table.
	maxKeys = 256
)

// choice is a node for a pod.
type choice struct {
	slot     int32
	total    int64
	feasible int
}

// isRanked reports whether a table can decide for the cycle's pod. Out-of-tree plugins
// and extenders must not be involved, and no node may be named. Filters must read only
// the resource usage of nominated pods.
func (e *Engine) isRanked(c *cycle) bool {
	p := c.profile
	if p.External != nil || len(p.Extenders) > 0 || len(p.turnFilters) > 0 || len(p.PreScores) > 0 || len(p.Filters) > maxFilters || len(p.Scores) > maxScores {
		return false
	}
	if len(c.narrowed.by) > 0 || len(c.view.Touched()) > 0 || c.pod.NominatedNode != "" {
		return false
	}
	return c.view.Nominated() == 0 || c.pod.UID != "" && !c.view.IsNominated(c.pod.Key()) && e.usageOf(c).only
}

// chooseByRank returns the node that the scan would choose for the cycle's pod, its total
// and the number of feasible nodes, which may be 0. ok is false if a scan is needed. run
// is nil outside a Run; following is the number of equal pods that follow.
func (e *Engine) chooseByRank(c *cycle, run *Run, following int) (best choice, ok bool) {
	// A member of a group leaves space for some nominated pods. These depend on the
	// existing groups, too, which the journal does not record. So such a table ends with
	// the run.
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
	r.credit = min(r.credit+1, maxPrice)
	if !passing && r.served == leastPrice {
		e.rankings.paid = min(e.rankings.paid+1, maxPaid)
	}
	e.work.Ranked++
	if e.audits {
		e.doubtRank(c, best)
	}
	return best, true
}

// look finds the key of the cycle's pod and brings all columns up to date. It returns
// false if the choice depends on more than these.
func (e *Engine) look(c *cycle, s *sight) bool {
	s.key, s.aside, s.narrow = rankKey{profile: c.profile}, false, s.narrow[:0]
	s.filters, s.scores, s.axes, s.reads = s.filters[:0], s.scores[:0], s.axes[:0], model.Presence|model.Nominations
	if c.view.Nominated() > 0 {
		s.key.nominated, s.key.priority, s.key.group = true, c.pod.Priority, c.pod.Group
	}
	if c.sharesDevices { // as in versionsFor
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

// follows adds the version of shared devices to the key if a column depends on them.
func (s *sight) follows(c *cycle, following plugin.Following) {
	if following != nil {
		s.key.devices = c.view.Versions().Devices + 1
	}
}

// findAxes finds the axes of the cycle. It returns false if a plugin cannot determine
// them.
func (s *sight) findAxes(e *Engine, c *cycle) bool {
	for i, counting := range c.counting {
		if counting == nil {
			continue
		}
		rules := c.here.counts[i].rules
		for j := range rules {
			rule := &rules[j]
			of := plugin.Axis{Domains: rule.Domains, Counts: rule.Counts, Layout: rule.Layout, Counted: rule.Counted}
			// no rule has Differences, as the view has no touched nodes
			if rule.Counted == (state.Counted{}) || !s.addAxis(e, c, of) {
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
		axes, known := set.Axes(c.view, e.scratch.axes[:0])
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

// addAxis adds an axis unless it exists. It returns false if nodes cannot be grouped by
// it.
func (s *sight) addAxis(e *Engine, c *cycle, of plugin.Axis) bool {
	if of.Layout.ID == 0 {
		return false
	}
	own := axis{domains: of.Layout.ID, present: len(of.Present) > 0}
	s.reads |= model.Labels
	if of.Layout.Own && !of.ByDomain && s.aside {
		own.narrow, s.narrow = true, append(s.narrow, of)
	} else if of.Layout.Own && !of.ByDomain {
		own.narrow, own.counted = true, of.Counted
		// the pods on the node, and whether they are counted
		s.reads |= model.Usage | model.PodLabels | model.Taints
	} else if of.Layout.Size > e.groupsIn(c.view) {
		return false
	}
	n := len(s.axes)
	if slices.Contains(s.key.axes[:n], own) {
		return true
	}
	if n == maxAxes {
		return false
	}
	s.key.axes[n] = own
	s.axes = append(s.axes, of)
	return true
}

// groupsIn returns the maximum number of groups in a table.
func (e *Engine) groupsIn(v state.View) int32 {
	if e.maxGroups > 0 {
		return e.maxGroups
	}
	return int32(min(max(v.State().Slots()/groupEach, leastGroups), maxGroups))
}

// placeOf returns a passing node's place in a table. ok is false if it has too many
// coordinates, or the scan would fail.
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
		case column.scores.Classes != nil:
			put(raw)
		case p.scorers[i].column.Normalization == model.AsIs:
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
	case a.counted != (state.Counted{}) && int(domain) < len(of.Counts):
		return of.Counts[domain]
	}
	return 0
}

// start builds a table for the cycle's pod if it is expected to pay off.
func (e *Engine) start(r *ranking, c *cycle, s *sight, passing bool, following int) bool {
	price := max(r.price, leastPrice>>e.rankings.paid)
	if r.scans < price && following < foreseen*max(price, leastPrice) {
		r.scans++
		return false
	}
	r.scans, r.served, r.credit = 0, 0, 0
	table, ok := e.newTable(c, s)
	if !ok {
		r.price = min(2*max(price, leastPrice), maxPrice)
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

// drop discards the table.
func (r *ranking) drop() {
	price := max(r.price, leastPrice)
	if r.price = min(2*price, maxPrice); r.served >= price {
		r.price = 0
	}
	r.table, r.scans, r.served, r.credit = nil, 0, 0, 0
}

// newTable ranks the nodes for the cycle's pod. It returns false if the scan fails, or
// the table would have too many groups.
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

// followTable updates the places of the nodes that have changed since. It returns false
// if the table would be wrong, or if the changes cost too much. The limit is the cost of
// a scan plus all that the table has saved so far. If many equal pods follow, the limit
// is the cost of another table.
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

// passesColumns reports whether a node passes the columns both as it is and with its
// nominated pods. ok is false if a filter failed.
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

// chooseFrom returns the best node of a table, if any is feasible. It returns false if a
// score fails; the scan then returns the error.
func (e *Engine) chooseFrom(t *rank.Table, c *cycle, s *sight) (best choice, ok bool) {
	best.feasible = s.findFeasible(t, c)
	e.work.Grouped += int64(len(t.Groups()))
	e.meter.Spend(price.Nodes, groupedUnits*int64(len(t.Groups())))
	switch {
	case best.feasible == 0:
		return best, true
	case best.feasible == 1: // a single node is not scored
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

// findFeasible finds the groups whose nodes pass all rules about counts. It returns their
// number of nodes.
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

// score finds the total of the best nodes of each group with feasible nodes. It returns
// false if a plugin fails.
func (s *sight) score(e *Engine, t *rank.Table, c *cycle) bool {
	groups := t.Groups()
	s.totals = s.totals[:0]
	for _, g := range s.groups {
		s.totals = append(s.totals, t.Best(&groups[g]))
	}
	return s.addScores(e, groups, c)
}

// addScores adds the scores that the nodes of a group have in common to the totals. It
// returns false if a plugin fails.
func (s *sight) addScores(e *Engine, groups []rank.Group, c *cycle) bool {
	coordinate := 0
	for i := range c.profile.scorers {
		scorer, weight, column := &c.profile.scorers[i], c.profile.Scores[i].Weight, s.scores[i]
		switch {
		case scorer.set != nil:
			if !s.scoreTogether(e, c, i, weight) {
				return false
			}
		case column == nil:
		case column.scores.Classes != nil:
			scores := e.classScores(c, scorer.column.Name, column)
			s.normalize(groups, coordinate, scorer.column.Normalization, weight, scores)
			coordinate++
		case scorer.column.Normalization != model.AsIs:
			s.normalize(groups, coordinate, scorer.column.Normalization, weight, nil)
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

// scoreTogether adds the scores of a Score plugin with Set.
func (s *sight) scoreTogether(e *Engine, c *cycle, i int, weight int64) bool {
	set, err := e.setOf(c, i, c.profile.scorers[i].set)
	if set == nil || err != nil {
		return err == nil
	}
	s.set = slices.Grow(s.set[:0], len(s.examples))[:len(s.examples)]
	e.begin()
	some, err := set.ScoreAlike(c.view, s.examples, s.sizes, s.set)
	if e.end(scorePoint, c.profile.Scores[i].Name, failedIf(err)); err != nil {
		return false
	}
	if some {
		for at := range s.totals {
			s.totals[at] += s.set[at] * weight
		}
	}
	return true
}

// Rankings returns the number of tables and their approximate size in bytes.
func (e *Engine) Rankings() (tables, bytes int) { return e.rankings.tables, e.rankings.bytes() }

func (r *rankings) bytes() (n int) {
	for _, x := range r.byKey {
		if x.table != nil {
			n += x.table.Bytes()
		}
	}
	return n
}

// of returns the ranking for a key, and adds it if necessary.
func (r *rankings) of(key *rankKey, clock uint64) *ranking {
	if r.last != nil && r.lastKey == *key {
		r.last.used = clock
		return r.last
	}
	x := r.byKey[*key]
	if x == nil {
		if len(r.byKey) >= maxKeys {
			horizon := r.horizon(len(r.byKey)/2, func(*ranking) bool { return true })
			r.remove(func(x *ranking) bool { return x.used <= horizon })
		}
		x = &ranking{}
		r.byKey[*key] = x
	}
	x.used, r.last, r.lastKey = clock, x, *key
	return x
}

// drop discards the table of a ranking, which may be a run's own.
func (r *rankings) drop(x *ranking, run *Run) {
	if run == nil || x != &run.passing {
		r.tables--
		r.settle(x)
	}
	x.drop()
}

// settle accounts for a dropped table.
func (r *rankings) settle(x *ranking) {
	if x.served < leastPrice {
		r.paid = 0
	}
}

// makeRoom drops tables, the least recently used first, until one more fits.
func (r *rankings) makeRoom(table *rank.Table) {
	bytes := table.Bytes() + r.bytes()
	if r.tables < maxTables && bytes <= r.maxBytes || r.tables == 0 {
		return
	}
	// several at once, because finding the oldest visits all
	over := max(r.tables-maxTables+1, r.tables-r.tables*r.maxBytes/bytes, 1) + r.tables/8
	horizon := r.horizon(over, func(x *ranking) bool { return x.table != nil })
	for _, x := range r.byKey {
		if x.table != nil && x.used <= horizon {
			r.drop(x, nil)
		}
	}
}

// horizon returns the time of last use of the n-th oldest of some rankings.
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

// sweep removes rankings not used since the horizon. Each rollout leaves some behind.
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
