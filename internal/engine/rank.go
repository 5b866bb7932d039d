package engine

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

// Rank decides about equal pods that come one after another. It makes the same decisions as Engine.Decide, and keeps from one pod to the next what the scan found:
// the nodes that pass all columns, by class. Nodes of a class are alike for the pod: the same scores before normalisation, and for each axis (what rules about counts, and scores
// of all nodes together, depend on) the same domain, or the same count in a domain of their own. So one node of each class says which of them are feasible and what they score,
// and the nodes of the best classes are compared by their hashes. A pod that was placed changes the class of one node.
//
// What cannot be followed so is scanned: see follows and newClasses. A Rank is valid as long as nothing changes in the state but that pods are assumed. One goroutine uses it.
type Rank struct {
	engine *Engine
	// Tie, unless it is 0, has other nodes chosen among equally good ones than Engine.Decide chooses.
	Tie uint64
	// Those that the classes are for: equal pods, in a view with the same restriction, at the same versions besides the journal's.
	pod         *model.Pod
	needs       []model.Need
	restriction *state.Restriction
	versions    state.Versions
	classes     *classes // nil if there are none
	// served is how many pods the classes have been used for, wasted how often they were of little use.
	served, wasted int
}

const (
	// worthClasses is how many equal pods must follow for classes to be worth more than they cost, which is as much as a few scans.
	worthClasses = 12
	// littleUse is how many pods classes must serve before they need not have been in vain; of those that were, mostWasted are made for a Rank.
	littleUse, mostWasted = 4, 4
)

// NewRank returns a Rank without anything.
func (e *Engine) NewRank() *Rank { return &Rank{engine: e} }

// Equal reports whether two pods are decided about alike, except for the node that is chosen between equally good ones.
func Equal(a, b *model.Pod) bool {
	return a.SchedulerName == b.SchedulerName && a.Priority == b.Priority && a.NominatedNode == "" && b.NominatedNode == "" && slices.Equal(a.Needs, b.Needs)
}

// Kind is the same for pods that are Equal, and mostly another for others.
type Kind struct {
	priority int32
	needs    [2 * mostFilters]model.Need
}

// KindOf returns the kind of a pod, by which those that are Equal are found among many.
func KindOf(pod *model.Pod) (k Kind) {
	k.priority = pod.Priority
	copy(k.needs[:], pod.Needs)
	return k
}

// Decide is Engine.Decide. following is how many pods equal to this one are to be decided about after it.
func (r *Rank) Decide(v state.View, work plan.Work, following int) plan.Decision {
	return r.engine.decideBy(v, work, r, following)
}

// choose returns the node that the scan would choose for the cycle's pod, with its total and how many are feasible; ok is false if the pod must be scanned for.
func (r *Rank) choose(c *cycle, following int) (best choice, ok bool) {
	if r == nil || !r.follows(c) && !r.start(c, following) {
		return best, false
	}
	r.engine.enter(Score)
	if best, ok = r.classes.choose(r.engine, c); !ok {
		r.drop()
		return best, false
	}
	r.served++
	r.engine.work.Ranked++
	if r.engine.audits {
		r.engine.doubtRank(c, best)
	}
	return best, true
}

// follows brings the classes up to date for the cycle's pod. It returns false if they are not for it.
func (r *Rank) follows(c *cycle) bool {
	if r.classes == nil {
		return false
	}
	versions := rankVersions(c)
	journal := r.versions.Journal
	r.versions.Journal = versions.Journal
	if !Equal(r.pod, c.pod) || !slices.Equal(r.needs, c.needs) || r.restriction != c.view.Restriction() || r.versions != versions || !isRanked(c) ||
		!r.classes.follow(r.engine, c, journal) {
		r.drop()
		return false
	}
	return true
}

// drop forgets the classes.
func (r *Rank) drop() {
	if r.classes != nil && r.served < littleUse {
		r.wasted++
	}
	r.classes, r.served = nil, 0
}

// start makes classes for the cycle's pod, if that is worth it.
func (r *Rank) start(c *cycle, following int) bool {
	if following < worthClasses || r.wasted >= mostWasted || !isRanked(c) {
		return false
	}
	if r.classes = newClasses(r.engine, c); r.classes == nil {
		r.wasted++
		return false
	}
	r.pod, r.needs, r.restriction, r.versions, r.served = c.pod, slices.Clone(c.needs), c.view.Restriction(), rankVersions(c), 0
	return true
}

func rankVersions(c *cycle) state.Versions { return c.view.Versions() }

// isRanked reports whether classes can say all about the cycle's pod: nothing from outside has a say, no node is named, and where pods are nominated filters read no more of
// them than what they occupy.
func isRanked(c *cycle) bool {
	p := c.profile
	return p.Outside == nil && len(p.Extenders) == 0 && len(p.turnFilters) == 0 && len(p.PreScores) == 0 && len(c.narrowed.by) == 0 && len(c.view.Touched()) == 0 &&
		c.pod.NominatedNode == "" && (c.view.Nominated() == 0 || c.pod.UID != "" && !c.view.IsNominated(c.pod.Key()))
}

// choice is a node for a pod.
type choice struct {
	slot     int32
	total    int64
	feasible int
}

// mostCoordinates is how many coordinates a class may have, mostClasses how many classes there may be, wideDomains how many domains an axis may have whose coordinate is the domain.
const (
	mostCoordinates = 8
	mostClasses     = 512
	wideDomains     = 64
)

// coordinates say what is alike of the nodes of a class: first the sum of the scores that are not normalised, then those that are, before they are, and then each axis.
type coordinates [mostCoordinates]int64

// classes are the nodes that pass all columns, by class.
type classes struct {
	// Invariant: of has the class of each slot, -1 for none, and at its position among the nodes of this class.
	of, at []int32
	hashes []uint64 // of the names, by slot
	// nodes are those of each class; list are its coordinates, under which find has it.
	nodes []alike
	list  []coordinates
	find  map[coordinates]int32
	axes  []axis
	// columns are those of the cycle, by filter and by scorer, nil where there is none. scores are the scores of classes of columns, as they were.
	filters []*filterColumn
	columns []*scoreColumn
	scores  [][]int32
	now     []plugin.Axis // of the cycle, by position in axes
	// Of each class with feasible nodes, one node, how many there are, the class, and the score.
	examples []int32
	sizes    []int
	which    []int32
	totals   []int64
	set      []int64
}

// alike are the nodes of a class: their slots, and at the same positions the hashes of their names, which every member for whom they are the best compares. A slot of a
// large cluster is rarely in the processor's cache, but what is read in order is.
type alike struct {
	slots  []int32
	hashes []uint64
}

// axis is an Axis as it was when the classes were made.
type axis struct {
	source int // the position of the filter, or behind these of the scorer
	code   reason.Code
	// domains is where the domains by slot are kept: others there are another axis.
	domains, present *int32
	// wide means that the coordinate is the domain; otherwise each domain has one node at most, and the coordinate is its count.
	wide bool
}

// newClasses makes the classes of the nodes for the cycle's pod, nil if they cannot be followed.
func newClasses(e *Engine, c *cycle) *classes {
	x := &classes{find: map[coordinates]int32{}}
	if !x.findColumns(e, c) || !x.findAxes(e, c, true) {
		return nil
	}
	slots := e.slotsToCheck(c)
	e.work.Visited += int64(len(slots))
	for _, column := range x.filters {
		if column == nil || column.nonZero == 0 {
			continue
		}
		passed, codes := keepFeasible(slots, column.values)
		if codes.IsFailed() {
			return nil
		}
		slots = passed
	}
	if c.view.Nominated() > 0 {
		if !e.usageOf(c).only {
			return nil
		}
		var err error
		if slots, err = e.leaveRoom(c, slots); err != nil {
			return nil
		}
	}
	x.of, x.at, x.hashes = make([]int32, c.view.State().Slots()), make([]int32, c.view.State().Slots()), c.view.State().NameHashes()
	for slot := range x.of {
		x.of[slot] = -1
	}
	var last coordinates
	class := int32(-1)
	for _, slot := range slots {
		own, ok := x.coordinatesOf(c, slot)
		if !ok {
			return nil
		}
		if class < 0 || own != last {
			if class = x.class(own); class < 0 {
				return nil
			}
			last = own
		}
		x.add(slot, class)
	}
	return x
}

// findColumns finds the cycle's columns, up to date. It returns false if they do not say all.
func (x *classes) findColumns(e *Engine, c *cycle) bool {
	x.filters = x.filters[:0]
	for i := range c.needs {
		x.filters = append(x.filters, e.filterColumn(c, i))
	}
	first := x.columns == nil
	x.columns = slices.Grow(x.columns, len(c.profile.Scores))[:len(c.profile.Scores)]
	x.scores = slices.Grow(x.scores, len(c.profile.Scores))[:len(c.profile.Scores)]
	for i := range c.profile.Scores {
		single := c.profile.scorers[i].column
		if single == nil {
			if c.profile.scorers[i].set == nil {
				return false
			}
			continue
		}
		column, err := e.scoreColumn(c, i, single)
		if err != nil || !first && column != x.columns[i] {
			return false
		}
		x.columns[i] = column
		if column == nil || column.classes == nil {
			continue
		}
		scores := column.classes.Classes(c.view)
		if !first && (len(scores) < len(x.scores[i]) || !slices.Equal(scores[:len(x.scores[i])], x.scores[i])) {
			return false
		}
		x.scores[i] = slices.Clone(scores)
	}
	return true
}

// findAxes finds the axes of the cycle. It returns false if they are not known, or not those of the classes; at first they become those.
func (x *classes) findAxes(e *Engine, c *cycle, first bool) bool {
	x.now = x.now[:0]
	n := 0
	is := func(source int, code reason.Code, of plugin.Axis) bool {
		own := axis{source: source, code: code, domains: startOf(of.Domains), present: startOf(of.Present)}
		x.now = append(x.now, of)
		n++
		if first {
			if own.wide = e.isWide(of.Domains); !own.wide && (of.ByDomain || !areOwn(of.Domains)) {
				return false
			}
			x.axes = append(x.axes, own)
			return true
		}
		if n > len(x.axes) {
			return false
		}
		own.wide = x.axes[n-1].wide
		return own == x.axes[n-1]
	}
	for i, counting := range c.counting {
		if counting == nil {
			continue
		}
		rules := c.here.counts[i].rules
		for j := range rules {
			rule := &rules[j]
			if len(rule.Differences) > 0 || !is(i, rule.Code, plugin.Axis{Domains: rule.Domains, Counts: rule.Counts}) {
				return false
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
		alike, ok := set.(plugin.AlikeScores)
		if !ok {
			return false
		}
		axes, ok := alike.Axes(c.view, nil)
		if !ok {
			return false
		}
		for _, of := range axes {
			if !is(len(c.needs)+i, 0, of) {
				return false
			}
		}
	}
	return n == len(x.axes)
}

func startOf(domains []int32) *int32 {
	if len(domains) == 0 {
		return nil
	}
	return &domains[0]
}

// isWide reports whether there are few domains.
func (e *Engine) isWide(domains []int32) bool {
	return len(domains) == 0 || slices.Max(domains) < e.wideDomains
}

// areOwn reports whether no two nodes share a domain.
func areOwn(domains []int32) bool {
	seen := make([]bool, len(domains))
	for _, domain := range domains {
		if domain < 0 {
			continue
		}
		if int(domain) >= len(seen) {
			seen = append(seen, make([]bool, int(domain)+1-len(seen))...)
		}
		if seen[domain] {
			return false
		}
		seen[domain] = true
	}
	return true
}

// coordinatesOf returns the coordinates of a node that passes the columns; ok is false if they are too many, or the scan would fail.
func (x *classes) coordinatesOf(c *cycle, slot int32) (own coordinates, ok bool) {
	n := 1
	put := func(value int64) {
		if n < len(own) {
			own[n] = value
		}
		n++
	}
	for i, column := range x.columns {
		if column == nil {
			continue
		}
		raw := column.values[slot]
		if column.classes != nil {
			raw = x.scores[i][raw]
		}
		if c.profile.scorers[i].column.Normalization() == model.AsIs {
			own[0] += int64(raw) * c.profile.Scores[i].Weight
			continue
		}
		if raw < 0 {
			return own, false
		}
		put(int64(raw))
	}
	for i := range x.axes {
		put(x.axes[i].coordinate(&x.now[i], slot))
	}
	return own, n <= len(own)
}

func (a *axis) coordinate(of *plugin.Axis, slot int32) int64 {
	domain := of.Domains[slot]
	switch {
	case len(of.Present) > 0 && of.Present[slot] < 0:
		return -2
	case domain < 0:
		return -1
	case a.wide:
		return int64(domain)
	case int(domain) < len(of.Counts):
		return int64(of.Counts[domain])
	}
	return 0
}

// class returns the class with the given coordinates, -1 if there would be too many.
func (x *classes) class(of coordinates) int32 {
	class, ok := x.find[of]
	if !ok {
		if len(x.list) == mostClasses && !x.reuse() {
			return -1
		}
		class = int32(len(x.list))
		x.find[of], x.list = class, append(x.list, of)
		if len(x.nodes) < len(x.list) {
			x.nodes = append(x.nodes, alike{})
		}
	}
	return class
}

// reuse leaves out the classes without a node. It returns false if more than half have some.
func (x *classes) reuse() bool {
	n := 0
	for class := range x.list {
		if len(x.nodes[class].slots) == 0 {
			continue
		}
		x.list[n], x.nodes[n], x.nodes[class] = x.list[class], x.nodes[class], x.nodes[n]
		for _, slot := range x.nodes[n].slots {
			x.of[slot] = int32(n)
		}
		n++
	}
	x.list = x.list[:n]
	clear(x.find)
	for class, of := range x.list {
		x.find[of] = int32(class)
	}
	return n <= mostClasses/2
}

func (x *classes) add(slot, class int32) {
	n := &x.nodes[class]
	x.of[slot], x.at[slot] = class, int32(len(n.slots))
	n.slots, n.hashes = append(n.slots, slot), append(n.hashes, x.hashes[slot])
}

func (x *classes) remove(slot int32) {
	class := x.of[slot]
	if class < 0 {
		return
	}
	n, at, end := &x.nodes[class], x.at[slot], len(x.nodes[class].slots)-1
	last := n.slots[end]
	n.slots[at], n.hashes[at], x.at[last] = last, n.hashes[end], at
	n.slots, n.hashes, x.of[slot] = n.slots[:end], n.hashes[:end], -1
}

// highest returns the node whose name's hash, mixed with the salt, is the highest. Of equal ones the scan takes the first, by slot.
func (n *alike) highest(salt uint64) (slot int32, highest uint64) {
	at := 0
	highest = mix(salt ^ n.hashes[0])
	for i, hash := range n.hashes {
		if h := mix(salt ^ hash); h > highest {
			at, highest = i, h
		}
	}
	slot = n.slots[at]
	for i := at + 1; i < len(n.hashes); i++ {
		if n.hashes[i] == n.hashes[at] { // mix gives each hash another number
			slot = min(slot, n.slots[i])
		}
	}
	return slot, highest
}

// follow finds the classes again of the nodes that have changed since a version of the journal. It returns false if the classes do not hold any more.
func (x *classes) follow(e *Engine, c *cycle, version uint64) bool {
	entries, ok := c.view.State().Since(version)
	if !ok || len(entries) > fewNodes || len(x.of) != c.view.State().Slots() || !x.findColumns(e, c) || !x.findAxes(e, c, false) {
		return false
	}
	for i, entry := range entries {
		if entry.Slot < 0 || entry.Aspects&model.Presence != 0 {
			return false
		}
		if i > 0 && entries[i-1].Slot == entry.Slot || !c.view.Restriction().Has(entry.Slot) {
			continue
		}
		e.work.Visited++
		x.remove(entry.Slot)
		passes, ok := x.passes(e, c, entry.Slot)
		if !ok {
			return false
		}
		if !passes {
			continue
		}
		own, ok := x.coordinatesOf(c, entry.Slot)
		if !ok {
			return false
		}
		class := x.class(own)
		if class < 0 {
			return false
		}
		x.add(entry.Slot, class)
	}
	return true
}

// passes reports whether a node passes the columns, as it is and with the pods that are nominated to it; ok is false if a filter failed.
func (x *classes) passes(e *Engine, c *cycle, slot int32) (passes, ok bool) {
	for _, column := range x.filters {
		if column == nil {
			continue
		}
		if code := column.values[slot]; code != reason.None {
			return false, !code.IsFailed()
		}
	}
	if c.view.Nominated() == 0 {
		return true, true
	}
	if !e.usageOf(c).only {
		return false, false
	}
	before := c.view.NominatedBefore(c.pod, slot)
	if len(before) == 0 {
		return true, true
	}
	o, err := e.besideNominated(c, slot, before)
	return o.code == reason.None, err == nil
}

// choose returns the best node. It returns false if no node is feasible, or a score fails: the scan says why.
func (x *classes) choose(e *Engine, c *cycle) (best choice, ok bool) {
	x.findExamples(c)
	for _, n := range x.sizes {
		best.feasible += n
	}
	if best.feasible == 0 {
		return best, false
	}
	if best.feasible == 1 { // then there is nothing to score
		best.slot = x.examples[0]
		return best, true
	}
	if !x.score(e, c) {
		return best, false
	}
	best.total = slices.Max(x.totals)
	salt := e.saltIn(c)
	var bestHash uint64
	chosen := false
	for i, total := range x.totals {
		if total < best.total {
			continue
		}
		nodes := &x.nodes[x.which[i]]
		e.work.Tied += int64(len(nodes.slots))
		if slot, h := nodes.highest(salt); !chosen || h > bestHash || h == bestHash && slot < best.slot {
			best.slot, bestHash, chosen = slot, h, true
		}
	}
	return best, true
}

// findExamples finds the classes whose nodes no rule rejects.
func (x *classes) findExamples(c *cycle) {
	x.examples, x.sizes, x.which = x.examples[:0], x.sizes[:0], x.which[:0]
	for class := range x.list {
		nodes := x.nodes[class].slots
		if len(nodes) == 0 || rejects(c, nodes[0]) {
			continue
		}
		x.examples, x.sizes, x.which = append(x.examples, nodes[0]), append(x.sizes, len(nodes)), append(x.which, int32(class))
	}
}

// rejects reports whether a rule about counts rejects a node.
func rejects(c *cycle, slot int32) bool {
	for i, counting := range c.counting {
		if counting == nil {
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

// score finds the totals of the classes with feasible nodes. It returns false if a plugin fails.
func (x *classes) score(e *Engine, c *cycle) bool {
	x.totals = slices.Grow(x.totals[:0], len(x.examples))[:len(x.examples)]
	for at, class := range x.which {
		x.totals[at] = x.list[class][0]
	}
	coordinate := 0
	for i, scorer := range c.profile.scorers {
		weight := c.profile.Scores[i].Weight
		if scorer.set != nil {
			set, err := e.setOf(c, i, scorer.set)
			if err != nil {
				return false
			}
			if set == nil {
				continue
			}
			x.set = slices.Grow(x.set[:0], len(x.examples))[:len(x.examples)]
			some, err := set.(plugin.AlikeScores).ScoreAlike(c.view, x.examples, x.sizes, x.set)
			if err != nil {
				return false
			}
			for at := range x.totals {
				if some {
					x.totals[at] += x.set[at] * weight
				}
			}
			continue
		}
		if x.columns[i] == nil {
			continue
		}
		how := scorer.column.Normalization()
		if how == model.AsIs {
			continue
		}
		coordinate++
		var largest int64
		for _, class := range x.which {
			largest = max(largest, x.list[class][coordinate])
		}
		for at, class := range x.which {
			x.totals[at] += normalize(how, int32(x.list[class][coordinate]), int32(largest)) * weight
		}
	}
	return true
}
